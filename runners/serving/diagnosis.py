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


_ILLEGAL_INSTRUCTION = (
    "The engine died of an instruction that it may not use here (SIGILL); on an Intel processor with "
    "AMX copy Draftboard's runners/lab/amx.pth into the site-packages of vLLM's environment, or set "
    "dtype: float32 among the engine_args; on another take a vLLM that was built for it."
)

#: Cause, pattern of a log, and the sentence, in which ``{}`` takes the pattern's first group. The
#: first that fits: a failed start prints consequences after its cause, so the order is from
#: what can only be a cause to what may be a consequence.
_CAUSES = (
    (
        "disk_full", r"No space left on device|Disk quota exceeded",
        "The disk is full; make room where models, caches (HF_HOME, VLLM_CACHE_ROOT), temporary "
        "files and results lie.",
    ),
    (
        GPU_LOST, r"GPU is lost|fallen off the bus|uncorrectable ECC error",
        "A GPU failed; dmesg tells the Xid. Reset it or restart the machine, then run the same "
        "command again: what was good is kept.",
    ),
    (
        "port_taken", r"Address already in use|Errno 98\b",
        "The port is taken by another process; leave the port to Draftboard, or end that process.",
    ),
    (
        "too_many_files", r"Too many open files",
        "The limit of open files is too low; raise it (ulimit -n).",
    ),
    (
        # A worker's message, and an engine's that dies while it starts; a shell says 128 + 4.
        "illegal_instruction", r"\(exit code: (?:-4|132)\)|Failed core proc.*: (?:-4|132)\b",
        _ILLEGAL_INSTRUCTION,
    ),
    (
        "out_of_memory",
        r"OutOfMemoryError|CUDA out of memory|HIP out of memory|CUDA error: out of memory"
        r"|not enough GPU memory|std::bad_alloc|\bMemoryError\b|can't allocate memory"
        r"|Cannot allocate memory",
        "Out of memory: weights, draft and KV cache do not fit; lower gpu-memory-utilization, "
        "max-model-len or max-num-seqs, raise the tensor-parallel size, or free the device.",
    ),
    (
        "memory_taken",
        r"is less than desired (?:GPU|CPU) memory utilization"
        r"|Available memory .* is less than requested memory",
        "Less memory is free than the server asks for: somebody else uses it, or "
        "gpu-memory-utilization is too high.",
    ),
    (
        "kv_cache_too_small",
        r"No available memory for the cache blocks|To serve at least one request with the model's",
        "There is no room for the KV cache of one full sequence; lower max-model-len, or raise "
        "gpu-memory-utilization.",
    ),
    (
        "vocabulary_mismatch",
        r"should have the same vocabulary size\.? ?(.*?)(?: Using models| \[type=|$)",
        "Target and draft do not share a vocabulary: take a draft made for this target. {}",
    ),
    (
        "unknown_method",
        r"error for SpeculativeConfig\s+method\s+Input should be (.+?)(?: \[type=|$)",
        "This vLLM does not know the speculative method; it knows {}",
    ),
    (
        "model_gated", r"GatedRepoError|\b401 Client Error|\b403 Client Error",
        "The model hub refuses this model; accept its licence there and give a token (HF_TOKEN).",
    ),
    (
        "model_missing",
        r"Invalid repository ID or local directory specified: (.+?)\.?$"
        r"|Repo id must be in the form .*?: (\S+?)\. Use"
        r"|Repository Not Found for url: (\S+?)\.?$|RevisionNotFoundError: (.+)$"
        r"|no file named (.+)$|does not appear to have a file named (.+)$",
        "The model or its draft was not found; check name, revision and folder: {}",
    ),
    (
        "hub_unreachable",
        r"LocalEntryNotFoundError|OfflineModeIsEnabled|We couldn't connect to",
        "The model hub was not reached and the model is not cached here; download it where there "
        "is network (hf download …), name a local folder, or unset HF_HUB_OFFLINE.",
    ),
    (
        "model_unsupported",
        r"Model architectures (.+) are not supported|does not recognize this architecture",
        "This vLLM cannot serve the model's architecture; take another version. {}",
    ),
    (
        "too_few_gpus",
        r"is larger than the number of available GPUs \(?(\d*)|invalid device ordinal"
        r"|exceeds available GPUs",
        "The tensor-parallel size needs more GPUs than this machine shows. {}",
    ),
    (
        "no_device",
        r"Failed to infer device type|No CUDA GPUs are available|Found no NVIDIA driver"
        r"|CUDA driver version is insufficient",
        "vLLM found no device that it was built for; check the driver, and that this build of "
        "vLLM fits the machine.",
    ),
    (
        "bad_argument", r"^vllm.*: error: (.+)$", "vLLM does not take an argument: {}",
    ),
    (
        "bad_configuration",
        r"validation errors? for (?:.|\n)*?Value error, (.+?)(?: \[type=|$)",
        "vLLM refuses its configuration: {}",
    ),
)  # fmt: skip

#: Characters of a log line that a sentence quotes.
_QUOTED = 240
_ERROR = re.compile(r"\b[\w.]*(?:Error|Exception)\b: .+")
#: What only says that there was an error before.
_ECHO = re.compile(r"Engine core initialization failed|EngineDeadError|EngineCore encountered")
_KILLED = (
    "The server was killed (SIGKILL) from outside: the machine may have run out of memory "
    "(dmesg, or the job's memory limit, says), or somebody ended it."
)


def diagnose(log_lines: Sequence[str], exit_code: int | None) -> Diagnosis:
    """Return the most telling cause in a log. ``exit_code``: None while running, negative for a
    signal."""
    lines = [line for line in log_lines if " WARNING " not in line]
    log = "\n".join(lines)
    for cause, pattern, sentence in _CAUSES:
        if match := re.search(pattern, log, re.IGNORECASE | re.MULTILINE):
            quoted = next((group for group in match.groups() if group), "")
            return Diagnosis(cause, sentence.format(_shortened(quoted)).strip())
    errors = [m for line in lines if (m := _ERROR.search(line)) and not _ECHO.search(line)]
    last = f" Its last error: {_shortened(errors[-1].group())}" if errors else ""
    if exit_code == -9:
        return Diagnosis("killed", _KILLED)
    if exit_code in (-4, 132):
        return Diagnosis("illegal_instruction", _ILLEGAL_INSTRUCTION)
    if exit_code is None:
        return Diagnosis("unknown", f"The server's log names no known cause.{last}")
    if exit_code < 0:
        return Diagnosis("crashed", f"The server ended by signal {-exit_code}.{last}")
    return Diagnosis("ended", f"The server ended with status {exit_code}.{last}")


def _shortened(text: str) -> str:
    text = text.strip().rstrip(".")
    return f"{text[:_QUOTED]} …" if len(text) > _QUOTED else text
