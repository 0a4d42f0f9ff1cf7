"""Why a server ended or never got ready: the usual causes, read from its log and exit status.

Adding a cause is adding one row to ``_CAUSES``.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

#: The cause of all that fails because a GPU is gone.
GPU_LOST = "gpu_lost"


@dataclass(frozen=True)
class Diagnosis:
    """One cause, and a sentence that says what happened and what to do about it."""

    cause: str
    sentence: str


@dataclass(frozen=True)
class _Cause:
    key: str
    pattern: re.Pattern[str]
    sentence: str
    """What is said of the cause; ``{}`` takes the pattern's first group."""


def _cause(key: str, pattern: str, sentence: str) -> _Cause:
    return _Cause(key, re.compile(pattern, re.IGNORECASE | re.MULTILINE), sentence)


_ILLEGAL_INSTRUCTION = (
    "The engine died of an instruction that it may not use here (SIGILL); on an Intel processor with "
    "AMX copy Draftboard's runners/lab/amx.pth into the site-packages of vLLM's environment, or set "
    "dtype: float32 among the engine_args; on another take a vLLM that was built for it."
)

#: The first that fits: a failed start prints consequences after its cause, so the order is from
#: what can only be a cause to what may be a consequence.
_CAUSES: tuple[_Cause, ...] = (
    _cause(
        "disk_full", r"No space left on device|Disk quota exceeded",
        "The disk is full; make room where models, caches (HF_HOME, VLLM_CACHE_ROOT), temporary "
        "files and results lie.",
    ),
    _cause(
        GPU_LOST, r"GPU is lost|fallen off the bus|uncorrectable ECC error",
        "A GPU failed; dmesg tells the Xid. Reset it or restart the machine, then run the same "
        "command again: what was good is kept.",
    ),
    _cause(
        "port_taken", r"Address already in use|Errno 98\b",
        "The port is taken by another process; leave the port to Draftboard, or end that process.",
    ),
    _cause(
        "too_many_files", r"Too many open files",
        "The limit of open files is too low; raise it (ulimit -n).",
    ),
    _cause(
        # A worker's message, and an engine's that dies while it starts; a shell says 128 + 4.
        "illegal_instruction", r"\(exit code: (?:-4|132)\)|Failed core proc.*: (?:-4|132)\b",
        _ILLEGAL_INSTRUCTION,
    ),
    _cause(
        "out_of_memory",
        r"OutOfMemoryError|CUDA out of memory|HIP out of memory|CUDA error: out of memory"
        r"|not enough GPU memory|std::bad_alloc|\bMemoryError\b|can't allocate memory"
        r"|Cannot allocate memory",
        "Out of memory: weights, draft and KV cache do not fit; lower gpu-memory-utilization, "
        "max-model-len or max-num-seqs, raise the tensor-parallel size, or free the device.",
    ),
    _cause(
        "memory_taken",
        r"is less than desired (?:GPU|CPU) memory utilization"
        r"|Available memory .* is less than requested memory",
        "Less memory is free than the server asks for: somebody else uses it, or "
        "gpu-memory-utilization is too high.",
    ),
    _cause(
        "kv_cache_too_small",
        r"No available memory for the cache blocks|To serve at least one request with the model's",
        "There is no room for the KV cache of one full sequence; lower max-model-len, or raise "
        "gpu-memory-utilization.",
    ),
    _cause(
        "vocabulary_mismatch",
        r"should have the same vocabulary size\.? ?(.*?)(?: Using models| \[type=|$)",
        "Target and draft do not share a vocabulary: take a draft made for this target. {}",
    ),
    _cause(
        "unknown_method",
        r"error for SpeculativeConfig\s+method\s+Input should be (.+?)(?: \[type=|$)",
        "This vLLM does not know the speculative method; it knows {}",
    ),
    _cause(
        "model_gated", r"GatedRepoError|\b401 Client Error|\b403 Client Error",
        "The model hub refuses this model; accept its licence there and give a token (HF_TOKEN).",
    ),
    _cause(
        "model_missing",
        r"Invalid repository ID or local directory specified: (.+?)\.?$"
        r"|Repo id must be in the form .*?: (\S+?)\. Use"
        r"|Repository Not Found for url: (\S+?)\.?$|RevisionNotFoundError: (.+)$"
        r"|no file named (.+)$|does not appear to have a file named (.+)$",
        "The model or its draft was not found; check name, revision and folder: {}",
    ),
    _cause(
        "hub_unreachable",
        r"LocalEntryNotFoundError|OfflineModeIsEnabled|We couldn't connect to",
        "The model hub was not reached and the model is not cached here; download it where there "
        "is network (hf download …), name a local folder, or unset HF_HUB_OFFLINE.",
    ),
    _cause(
        "model_unsupported",
        r"Model architectures (.+) are not supported|does not recognize this architecture",
        "This vLLM cannot serve the model's architecture; take another version. {}",
    ),
    _cause(
        "too_few_gpus",
        r"is larger than the number of available GPUs \(?(\d*)|invalid device ordinal"
        r"|exceeds available GPUs",
        "The tensor-parallel size needs more GPUs than this machine shows. {}",
    ),
    _cause(
        "no_device",
        r"Failed to infer device type|No CUDA GPUs are available|Found no NVIDIA driver"
        r"|CUDA driver version is insufficient",
        "vLLM found no device that it was built for; check the driver, and that this build of "
        "vLLM fits the machine.",
    ),
    _cause(
        "bad_argument", r"^vllm.*: error: (.+)$", "vLLM does not take an argument: {}",
    ),
    _cause(
        "bad_configuration",
        r"validation errors? for (?:.|\n)*?Value error, (.+?)(?: \[type=|$)",
        "vLLM refuses its configuration: {}",
    ),
)  # fmt: skip

#: Characters of a log line that a sentence quotes.
_QUOTED = 240
_ERROR = re.compile(r"\b[\w.]*(?:Error|Exception)\b: .+")
_ECHO = re.compile(r"Engine core initialization failed|EngineDeadError|EngineCore encountered")
_KILLED = (
    "The server was killed (SIGKILL) from outside: the machine may have run out of memory "
    "(dmesg, or the job's memory limit, says), or somebody ended it."
)


def diagnose(log_lines: Sequence[str], exit_code: int | None) -> Diagnosis:
    """Return the most telling cause in a log. ``exit_code``: None while running, negative for a
    signal."""
    told = [line for line in log_lines if " WARNING " not in line]
    log = "\n".join(told)
    for cause in _CAUSES:
        if found := cause.pattern.search(log):
            quoted = next((group for group in found.groups() if group), "")
            return Diagnosis(cause.key, cause.sentence.format(_shortened(quoted)).strip())
    last = _last_error(told)
    if exit_code == -9:
        return Diagnosis("killed", _KILLED)
    if exit_code in (-4, 132):
        return Diagnosis("illegal_instruction", _ILLEGAL_INSTRUCTION)
    if exit_code is None:
        return Diagnosis("unknown", f"The server's log names no known cause. {last}".strip())
    if exit_code < 0:
        return Diagnosis("crashed", f"The server ended by signal {-exit_code}. {last}".strip())
    return Diagnosis("ended", f"The server ended with status {exit_code}. {last}".strip())


def _last_error(log_lines: Sequence[str]) -> str:
    """Return the last line that names an error, without what only says that there was one
    before."""
    named = [m for line in log_lines if (m := _ERROR.search(line)) and not _ECHO.search(line)]
    return f"Its last error: {_shortened(named[-1].group())}" if named else ""


def _shortened(text: str) -> str:
    text = text.strip().rstrip(".")
    return f"{text[:_QUOTED]} …" if len(text) > _QUOTED else text
