"""The contract: what ``record.json`` of a result drop says, and the keys that ``--set`` accepts.

Its JSON Schema is published as ``docs/record.schema.json``, so that a plain shell script on
somebody's cluster can write a drop too. ``None`` always means unknown, never "no".
"""

import hashlib
import re
from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator
from pydantic_core import PydanticKnownError

Text = Annotated[str, Field(min_length=1, max_length=2000)]
#: Beyond these a number is a mistake; a seed may be any that 64 bits hold.
_MOST = 2**31 - 1
Positive = Annotated[int, Field(ge=1, le=_MOST)]
Place = Annotated[int, Field(ge=0, le=_MOST)]
Seed = Annotated[int, Field(ge=-(2**63), le=2**63 - 1)]

#: What stands behind the numbers. Anything but "gpu" carries a badge wherever it is shown.
Evidence = Literal["gpu", "cpu", "mock", "dummy_weights", "simulated"]


_NUMBERS = (
    "repeat", "gpu_count", "tensor_parallel_size", "temperature", "top_p", "seed", "max_tokens",
    "concurrency", "rate", "num_speculative_tokens",
)  # fmt: skip


class Facts(BaseModel):
    """What identifies a cell: one arm x dataset x concurrency x repeat. All optional: unknown."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    study: Text | None = None
    arm: Text | None = Field(None, description="The study's own name of the arm")
    repeat: Place | None = None
    launch: Text | None = Field(None, description="Cells with the same one shared a server start")

    model: Text | None = None
    model_revision: Text | None = None
    precision: Text | None = None
    engine: Text | None = Field(None, description="vllm, …")
    engine_version: Text | None = None
    gpu: Text | None = Field(None, description="GPU model; for a CPU run the processor")
    gpu_count: Positive | None = Field(None, description="GPUs that the server used")
    tensor_parallel_size: Positive | None = None
    prefix_caching: bool | None = None
    server_args: dict[str, Any] | None = Field(
        None, description="Engine arguments that do not belong to the speculation"
    )
    engine_settings: dict[str, Any] | None = Field(
        None,
        description=(
            "What the engine made of its arguments: async_scheduling, model_runner, "
            "attention_backend, cuda_graphs, cuda_graph_max, enforce_eager, compile_mode, "
            "kv_cache_tokens, kv_cache_blocks, kv_cache_dtype; by_method: those that the log says "
            "the speculation changed"
        ),
    )

    dataset: Text | None = None
    prompt_set_hash: Text | None = Field(
        None, description="Hash over the sorted hashes of the prompts of this cell"
    )
    request_format: Literal["chat_completions", "text_completions"] | None = None
    temperature: Annotated[float, Field(ge=0, le=1000)] | None = None
    top_p: Annotated[float, Field(gt=0, le=1)] | None = None
    seed: Seed | None = None
    max_tokens: Positive | None = None
    ignore_eos: bool | None = None

    load_profile: Text | None = Field(None, description="concurrent, constant, poisson, …")
    concurrency: Positive | None = None
    rate: Annotated[float, Field(gt=0, le=1e8)] | None = Field(
        None, description="Requests per second"
    )
    trace: Text | None = Field(None, description="Name of the trace that was replayed")

    spec_method: Text | None = Field(None, description='"none" for a baseline; None: unknown')
    num_speculative_tokens: Annotated[int, Field(ge=1, le=1000)] | None = None
    draft_model: Text | None = None
    draft_revision: Text | None = None
    speculative_config: dict[str, Any] | None = None
    synthetic_acceptance: bool | None = Field(
        None, description="Acceptance was set, not measured (rejection_sample_method: synthetic)"
    )
    evidence: Evidence | None = None

    @field_validator(*_NUMBERS, mode="before")
    @classmethod
    def _no_truth(cls, value: Any) -> Any:
        """Refuse true and false, which Python takes for 1 and 0."""
        if isinstance(value, bool):
            raise PydanticKnownError("float_type")
        return value


class Record(Facts):
    """The content of ``record.json``: the facts of a cell (or of a report with several levels) and
    its provenance."""

    schema_version: Literal[1]
    run_id: Text | None = None
    status: Literal["good", "failed"] = "good"
    failure: str | None = Field(None, description="Diagnosis, for a failed cell")
    failure_cause: Text | None = Field(
        None, description="The same in a word: out_of_memory, killed, incomplete, …"
    )
    log_excerpt: list[str] = Field(
        default_factory=list, description="Last log lines of the server, for a failed cell"
    )
    started_at: datetime | None = None
    ended_at: datetime | None = None
    order: Place | None = Field(
        None, description="Place of the cell in the order in which the study ran"
    )
    attempt: Positive | None = Field(None, description="1 unless earlier attempts failed")
    fingerprint: Text | None = Field(
        None,
        description="Hash of all that the study said of this cell; another one is another cell",
    )
    planned_requests: Positive | None = None
    prefix_cache: Literal["reset", "kept"] | None = Field(
        None, description="Whether the prefix cache was emptied before the load"
    )
    timeline: dict[str, Annotated[float, Field(ge=0)]] = Field(
        default_factory=dict,
        description=(
            "Seconds: server_start (0 but for a launch's first cell), warm_up, load, overhead, total"
        ),
    )
    report: Text = Field("guidellm.json", description="File name of the load generator's report")
    commands: dict[str, list[str]] = Field(
        default_factory=dict, description="Exact command lines, e.g. vllm, guidellm"
    )
    environment: dict[str, Any] = Field(
        default_factory=dict, description="Driver, CUDA, CPU, kernel, image, clocks, versions …"
    )
    provenance: str | None = Field(None, description="One sentence: what these data are")
    prompt_hashes: list[str] | None = Field(
        None,
        description="Where texts were removed: hash of the prompt of each successful request",
    )
    prompt_categories: dict[str, Text] | None = Field(
        None, description="Hash of a prompt -> its kind, of a run over several kinds of prompts"
    )


FACT_KEYS: tuple[str, ...] = tuple(Facts.model_fields)


# --- Names of the folders of failed attempts, which lie beside the cells: ``c16-r0.failed-2``.


_FAILED = re.compile(r"(?P<cell>.+)\.failed-(?P<attempt>\d+)")


def failed_name(cell: str, attempt: int) -> str:
    """Return the name under which a failed attempt at a cell is kept; attempts count from 1."""
    return f"{cell}.failed-{attempt}"


def failed_of(name: str) -> tuple[str, int] | None:
    """Return the cell and the number of the attempt by the name of a folder; None for a good cell."""
    match = _FAILED.fullmatch(name)
    return None if match is None else (match["cell"], int(match["attempt"]))


# --- The hash of a prompt and of a set of prompts: runners and ingest must reach the same one.
#
# A prompt's hash is the first 32 hex digits of sha256 over its text; a conversation is flattened
# first, one line ``role: text`` per message.


MARKER = "sha256:"
_MARKED = re.compile(r"sha256:([0-9a-f]{32})")


def is_redacted(text: str) -> bool:
    """Return whether a text was replaced by its hash."""
    return _MARKED.fullmatch(text) is not None


def hash_text(text: str) -> str:
    """Return the hash of a prompt's text; a redacted text is its own hash."""
    if text.startswith(MARKER) and (found := _MARKED.fullmatch(text)):
        return found[1]
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def flatten_messages(messages: list[tuple[str, str]]) -> str:
    """Return role and text of each message as one text."""
    return "\n".join(f"{role}: {text}" for role, text in messages)


def prompt_set_hash(hashes: list[str | None]) -> str | None:
    """Return a hash over the sorted, unique prompt hashes; None where one is unknown or there are
    none."""
    known = {h for h in hashes if h is not None}
    if not known or None in hashes:
        return None
    return hashlib.sha256("\n".join(sorted(known)).encode()).hexdigest()[:32]


# --- What each engine calls the series of its ``/metrics``, under one name for all: vLLM's.
#
# vLLM 0.32, SGLang 0.5 (its metrics collector) and llama.cpp's server (b11549); times and histograms
# are left out, and so are averages that stand where another engine counts: nothing can be taken from
# them for one load.


ENGINES: tuple[str, ...] = ("vllm", "sglang", "llamacpp")
#: Prefix of what the runners' sampler adds to what a server says.
OWN = "draftboard"
_PREFIX = re.compile(rf"^({'|'.join(ENGINES)}):", re.MULTILINE)
_SAME: dict[str, dict[str, str]] = {
    "sglang": {
        "num_running_reqs": "num_requests_running",
        "num_queue_reqs": "num_requests_waiting",
        "token_usage": "kv_cache_usage_perc",
        "num_retracted_requests": "num_preemptions",
    },
    "llamacpp": {
        "requests_processing": "num_requests_running",
        "requests_deferred": "num_requests_waiting",
        "tokens_predicted": "generation_tokens",
    },
}


def common_name(engine: str, name: str) -> str:
    """Return the common name of an engine's series: ``("llamacpp", "tokens_predicted_total")`` as
    ``generation_tokens``."""
    plain = name.removesuffix("_total")
    return _SAME.get(engine, {}).get(plain, plain)


def engine_in(metrics: str) -> str | None:
    """Return whose ``/metrics`` these are, by the prefix of its series; None for others'."""
    found = _PREFIX.search(metrics)
    return None if found is None else found[1]


# --- What an arm is called, and whether its engine chooses how many tokens are drafted.


#: Who sets the draft tokens of a step: a table by batch size, the engine by what it saw accepted or by
#: the draft's confidence, or the text itself (as much as matches).
Chooser = Literal["table", "adaptive", "match"]
#: From batch size, to batch size, draft tokens.
Entry = tuple[int, int, int]

#: vLLM's name for K by batch size: ``[[from, to, K], …]``.
TABLE = "num_speculative_tokens_per_batch_size"
#: What a baseline has in place of a speculative config where it lacks what a method switches off in the
#: engine: the names of its arguments and variables. It is an arm of its own, and no baseline unless asked.
EQUAL_ENGINE = "equal_engine"
EQUAL_LABEL = "baseline, equal engine"


def chooser(method: str | None, config: Mapping[str, Any] | None) -> Chooser | None:
    """Return who sets the number of draft tokens; None where it is fixed, or nothing is drafted."""
    stated = config or {}
    if stated.get(TABLE) is not None:
        return "table"
    # Settings that are true where the engine adapts K: vLLM's, SGLang's.
    if any(
        stated.get(name) is True
        for name in ("enable_adaptive_verification", "speculative_adaptive")
    ):
        return "adaptive"
    return "match" if method == "suffix" else None


def table_of(config: Mapping[str, Any] | None) -> tuple[Entry, ...]:
    """Return the table of K by batch size in its order; empty where there is none, or none that can
    be read."""
    stated = (config or {}).get(TABLE)
    entries = [
        (entry[0], entry[1], entry[2])
        for entry in (stated if isinstance(stated, list) else ())
        if isinstance(entry, list | tuple)
        and len(entry) == 3
        and all(isinstance(number, int) and number >= 0 for number in entry)
    ]
    return tuple(sorted(entries))


def steps_of(table: tuple[Entry, ...]) -> tuple[tuple[int, int], ...]:
    """Return (first batch size, K) of each change: two tables with the same steps say the same to
    vLLM, which goes on with a K until another one begins."""
    found: list[tuple[int, int]] = []
    for start, _, k in table:
        if not found or found[-1][1] != k:
            found.append((start, k))
    return tuple(found)


def arm_label(method: str | None, most: int | None, config: Mapping[str, Any] | None = None) -> str:
    """Return the name of an arm: ``baseline``, ``eagle3 K=3``, ``draft_model K=5/3/2 by table``,
    ``dspark K<=7 adaptive``, ``unknown``. ``most``: its draft tokens, at most."""
    if method is None:
        return "unknown"
    if method == "none":
        return EQUAL_LABEL if EQUAL_ENGINE in (config or {}) else "baseline"
    known = "?" if most is None else str(most)
    chosen = chooser(method, config)
    if chosen == "table":
        ks = "/".join(str(k) for _, k in steps_of(table_of(config)))
        return f"{method} K={ks or known} by table"
    if chosen is not None:
        return f"{method} K<={known}" + (" adaptive" if chosen == "adaptive" else "")
    return f"{method} K={known}"
