"""The typed rows that ingest hands to the store and analysis reads: what one row is, and its units."""

import io
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

import pyarrow as pa

from warehouse.catalogue import REQUEST_METRICS
from warehouse.contract import Facts

Origin = Literal["canonical", "reported"]
Severity = Literal["info", "warning", "error"]
AcceptanceSource = Literal["counters", "requests", "vllm_bench"]

#: Metrics that are counts, which a report states.
_COUNTED = ("prompt_tokens", "output_tokens")
#: One row per request. Times are unix seconds (``start`` .. ``end``; monotonic seconds in
#: ``vllm bench`` results), latencies as in the catalogue. Unknown is null, never zero.
REQUEST_SCHEMA = pa.schema(
    [
        pa.field("cell_id", pa.dictionary(pa.int32(), pa.string()), nullable=False),
        pa.field("index", pa.int32(), nullable=False),
        pa.field("status", pa.dictionary(pa.int8(), pa.string()), nullable=False),
        pa.field("in_window", pa.bool_(), nullable=False),
        pa.field("start", pa.float64()),
        pa.field("first_token", pa.float64()),
        pa.field("last_token", pa.float64()),
        pa.field("end", pa.float64()),
        *(pa.field(name, pa.int32()) for name in _COUNTED),
        pa.field("iterations", pa.int32()),
        # Of a session, from 1: each turn waited for the answer before it.
        pa.field("turn", pa.int32()),
        *(pa.field(key, pa.float64()) for key in REQUEST_METRICS if key not in _COUNTED),
        pa.field("drafts", pa.int32()),
        pa.field("draft_tokens", pa.int32()),
        pa.field("accepted_tokens", pa.int32()),
        pa.field("prompt_hash", pa.string()),
        # The kind of prompt, as the study's dataset or ``--categories`` names it.
        pa.field("category", pa.string()),
        pa.field("error", pa.string()),
        pa.field("prompt", pa.string()),
        pa.field("output", pa.string()),
    ]
)


def arrow_bytes(table: pa.Table) -> bytes:
    """Return the rows as an Arrow stream."""
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    return sink.getvalue()


def in_schema(rows: pa.Table) -> pa.Table:
    """Return requests with the columns of REQUEST_SCHEMA; what an older version did not write is
    unknown."""
    columns = [
        rows.column(one.name) if one.name in rows.column_names else pa.nulls(len(rows), one.type)
        for one in REQUEST_SCHEMA
    ]
    return pa.table(columns, names=REQUEST_SCHEMA.names).cast(REQUEST_SCHEMA)


#: Values of ``status``.
COMPLETED, ERRORED, INCOMPLETE = "completed", "errored", "incomplete"


@dataclass(frozen=True)
class Measurement:
    """One number of one cell. ``metric`` and ``statistic`` are the catalogue's words and units."""

    origin: Origin
    metric: str
    statistic: str
    value: float


@dataclass(frozen=True)
class Acceptance:
    """What the draft achieved in one cell, as one source counted it; positions start at 0."""

    source: AcceptanceSource
    drafts: int | None
    draft_tokens: int | None
    accepted_tokens: int | None
    rate: float | None
    mean_length: float | None
    #: Accepted at position i / drafts (unconditional, 0-1).
    by_position: tuple[float, ...] = ()


@dataclass(frozen=True)
class Flag:
    """A doubt about a cell: a name, how serious, one sentence for a reader."""

    name: str
    severity: Severity
    sentence: str


@dataclass(frozen=True)
class Sample:
    """One server metric at one moment of a cell (``at``: unix seconds)."""

    at: float
    name: str
    value: float


@dataclass(frozen=True)
class Cell:
    """One arm x dataset x concurrency x repeat, with everything known of it."""

    #: First 20 hex digits of sha256 over ``source_id:index``.
    cell_id: str
    index: int
    facts: Facts
    #: ``guidellm`` or ``vllm-bench``.
    load_generator: str
    load_generator_version: str | None
    #: G1, G2a, G2b, G3a, G3b, G4, unknown (GuideLLM) or vllm-bench.
    schema_generation: str
    #: Which definitions the reported values follow: guidellm<0.4, guidellm 0.4-0.7.3,
    #: guidellm>=0.7.4, vllm-bench, unknown.
    reported_definition: str
    run_id: str
    #: UTC; start of the measured window.
    started_at: datetime | None
    #: Length of the measured window, s.
    duration: float | None
    requests_made: int | None
    completed: int
    errored: int
    incomplete: int
    #: False for a sampled report, which holds fewer records than requests were made.
    requests_complete: bool
    stop_reason: str | None
    status: Literal["good", "failed"]
    measurements: tuple[Measurement, ...] = ()
    acceptance: tuple[Acceptance, ...] = ()
    flags: tuple[Flag, ...] = ()
    samples: tuple[Sample, ...] = ()
    #: REQUEST_SCHEMA; None where the report has no request records.
    requests: pa.Table | None = None
    #: Place of the cell in the order in which its study ran.
    order: int | None = None


@dataclass(frozen=True)
class Source:
    """One ingested result: a report, a drop, or a vLLM bench file."""

    #: sha256 (hex) of the decompressed content; for a drop over its files' names and hashes.
    source_id: str
    #: Path of the file or drop, as given by the user.
    path: str
    #: ``NAME`` of its module in ``ingest/formats``, or ``drop``.
    format: str
    #: Size of the decompressed content.
    bytes: int
    provenance: str | None = None
    commands: dict[str, list[str]] = field(default_factory=dict)
    environment: dict[str, Any] = field(default_factory=dict)
    #: The facts that ``--set`` stated.
    settings: dict[str, Any] = field(default_factory=dict)
    #: The report's own configuration, secrets removed, without request data.
    report_config: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Rejection:
    """A file that was not taken in, and why."""

    path: str
    reason: str
