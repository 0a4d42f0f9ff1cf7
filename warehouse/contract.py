"""The contract: what ``record.json`` of a result drop says, and the keys that ``--set`` accepts.

Its JSON Schema is published as ``docs/record.schema.json``, so that a plain shell script on
somebody's cluster can write a drop too. ``None`` always means unknown, never "no".
"""

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


FACT_KEYS: tuple[str, ...] = tuple(Facts.model_fields)
