"""The usual causes are read from the log; lines as vLLM 0.32 printed them, shortened."""

import pytest

from runners.serving.diagnosis import diagnose

ULIMIT = (
    "(APIServer pid=1) WARNING 11-21 16:38:18 [system_utils.py:255] Found ulimit of 20000 and failed "
    "to increase. This can cause fd limit errors like `OSError: [Errno 24] Too many open files`."
)
ECHO = (
    "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}"
)

CASES = [
    (
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has",
        "out_of_memory", "lower gpu-memory-utilization",
    ),
    (
        "ValueError: Free memory on device cuda:0 (60.1/79.1 GiB) on startup is less than desired "
        "GPU memory utilization (0.9, 71.2 GiB).",
        "memory_taken", "somebody else",
    ),
    (
        "RuntimeError: Worker failed with error 'Available memory on node 0 (11.46/14.46 GiB) on kv "
        "cache allocation is less than requested memory for kv (9000.0 GiB).",
        "memory_taken", "Less memory is free",
    ),
    (
        "ValueError: To serve at least one request with the model's max seq len (131072), (12.0 GiB "
        "KV cache is needed, which is larger than the available KV cache memory (3.0 GiB).",
        "kv_cache_too_small", "lower max-model-len",
    ),
    ("OSError: [Errno 98] Address already in use", "port_taken", "taken by another process"),
    ("OSError: [Errno 28] No space left on device: '/tmp/x'", "disk_full", "make room"),
    ("OSError: [Errno 24] Too many open files", "too_many_files", "ulimit -n"),
    (
        "pydantic_core._pydantic_core.ValidationError: 1 validation error for SpeculativeConfig\n"
        "  Value error, Target and draft model should have the same vocabulary size. Target model "
        "vocab_size=512. Draft model vocab_size=300. Using models with different tokenizers can "
        "cause errors [type=value_error, input_value=ArgsKwargs((), {})]",
        "vocabulary_mismatch", "Target model vocab_size=512. Draft model vocab_size=300",
    ),
    (
        "pydantic_core._pydantic_core.ValidationError: 1 validation error for SpeculativeConfig\n"
        "method\n  Input should be 'ngram', 'medusa' or 'eagle' [type=literal_error, input]",
        "unknown_method", "it knows 'ngram', 'medusa' or 'eagle'",
    ),
    (
        "pydantic_core._pydantic_core.ValidationError: 1 validation error for SpeculativeConfig\n"
        "  Value error, Invalid repository ID or local directory specified: '/models/draft'.\n",
        "model_missing", "'/models/draft'",
    ),
    (
        "huggingface_hub.errors.HFValidationError: Repo id must be in the form 'repo_name' or "
        "'namespace/repo_name': '/models/target'. Use `repo_type` argument if needed.",
        "model_missing", "'/models/target'",
    ),
    (
        "huggingface_hub.errors.LocalEntryNotFoundError: Cannot find an appropriate cached snapshot "
        "folder and outgoing traffic has been disabled.",
        "hub_unreachable", "HF_HUB_OFFLINE",
    ),
    (
        "OSError: We couldn't connect to 'https://hub.example' to load the files",
        "hub_unreachable", "hf download",
    ),
    ("huggingface_hub.errors.GatedRepoError: 401 Client Error.", "model_gated", "HF_TOKEN"),
    (
        "pydantic_core._pydantic_core.ValidationError: 1 validation error for ParallelConfig\n"
        "  Value error, World size (4) is larger than the number of available GPUs (1) in this node.",
        "too_few_gpus", "more GPUs",
    ),
    (
        "vllm: error: unrecognized arguments: --no-such-flag",
        "bad_argument", "unrecognized arguments: --no-such-flag",
    ),
    (
        "pydantic_core._pydantic_core.ValidationError: 1 validation error for ModelConfig\n"
        "  Value error, User-specified max_model_len (100000) is greater than the derived one [type=",
        "bad_configuration", "max_model_len (100000) is greater than the derived one",
    ),
    ("RuntimeError: Failed to infer device type", "no_device", "check the driver"),
    (
        "(EngineCore pid=7) ERROR 11-22 10:07:20 [multiproc_executor.py:315] Worker proc VllmWorker-0 "
        "died unexpectedly (exit code: -4), shutting down executor.\n"
        "(EngineCore pid=7) ERROR 11-22 10:07:20 [core.py:1512] RuntimeError: cancelled",
        "illegal_instruction", "Intel processor with AMX",
    ),
    (
        "RuntimeError: Engine core initialization failed. See root cause above. Failed core "
        "proc(s): {'EngineCore': -4}",
        "illegal_instruction", "dtype: float32",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("line", "cause", "said"), CASES, ids=[c[0][:40] for c in CASES])
def test_the_cause_is_found_between_a_warning_and_the_echo_of_the_failure(
    line: str, cause: str, said: str
) -> None:
    found = diagnose([ULIMIT, *line.splitlines(), "  File 'core.py', line 1", ECHO], 1)

    assert found.cause == cause
    assert said in found.sentence


def test_a_warning_is_no_cause() -> None:
    assert diagnose([ULIMIT], 1).cause == "ended"


@pytest.mark.parametrize(
    ("exit_code", "cause", "said"),
    [
        (-9, "killed", "run out of memory"),
        (-4, "illegal_instruction", "amx.pth"),
        (132, "illegal_instruction", "amx.pth"),
        (-11, "crashed", "signal 11"),
        (3, "ended", "status 3"),
        (None, "unknown", "no known cause"),
    ],
)
def test_without_a_telling_line_the_exit_status_speaks(
    exit_code: int | None, cause: str, said: str
) -> None:
    found = diagnose(["INFO all well"], exit_code)

    assert found.cause == cause
    assert said in found.sentence


def test_an_unknown_error_is_quoted_without_the_echo_that_follows_it() -> None:
    found = diagnose(["(EngineCore pid=7) ERROR x.py:1] KeyError: 'layers.7'", ECHO], 1)

    assert found.sentence == (
        "The server ended with status 1. Its last error: KeyError: 'layers.7'"
    )


def test_a_worker_that_died_of_something_else_is_no_matter_of_instructions() -> None:
    line = (
        "ERROR Worker proc VllmWorker-0 died unexpectedly (exit code: -9), shutting down executor."
    )

    assert diagnose([line], 0).cause == "ended"


def test_a_long_line_is_cut() -> None:
    assert len(diagnose([f"RuntimeError: {'x' * 9000}"], 1).sentence) < 400
