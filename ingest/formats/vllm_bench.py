"""Results of ``vllm bench serve``, with and without ``--save-detailed``.

Its words differ from the catalogue's: its TPOT is our ITL, its ITL is the gap between chunks, its
end-to-end latency is in ms, its acceptance rate in percent. Times are monotonic seconds.
"""

import hashlib
import re
from collections.abc import Iterator
from typing import Any

import msgspec

from analysis.canonical import Window, canonical
from ingest.formats.vllm_requests import request_columns, request_table
from ingest.model import Content, Context, Parsed
from ingest.secrets import scrub
from warehouse.catalogue import QUANTILES
from warehouse.contract import Facts
from warehouse.errors import InvalidInput
from warehouse.rows import Acceptance, Cell, Measurement

NAME = "vllm-bench"
DEFINITION = "vllm-bench"

HEAD = 1 << 16
_MARKS = (b'"model_id"', b'"num_prompts"', b'"request_rate"', b'"tokenizer_id"')
_LATENCIES = {"ttft": ("ttft", 1.0), "tpot": ("itl", 1.0), "itl": ("chunk_gap", 1.0),
              "e2el": ("request_latency", 1e-3)}  # fmt: skip
_STATISTIC = re.compile(r"^(mean|median|std|p[\d.]+)_(ttft|tpot|itl|e2el)_ms$")
_PERCENTILES = {f"p{q * 100:g}": name for name, q in QUANTILES.items()} | {"median": "p50"}
_REQUEST_FORMATS = {
    "openai": "text_completions",
    "vllm": "text_completions",
    "openai-chat": "chat_completions",
}
_PER_REQUEST = frozenset(
    {"input_lens", "output_lens", "ttfts", "itls", "latencies", "start_times", "queue_times",
     "generated_texts", "errors"}
)  # fmt: skip


class Bench(msgspec.Struct, kw_only=True):
    """The fields of a result that are read; the lists stand only with ``--save-detailed``."""

    model_id: str
    num_prompts: int
    request_rate: float | str
    completed: int
    duration: float
    total_input_tokens: int
    total_output_tokens: int
    backend: str | None = None
    endpoint_type: str | None = None
    burstiness: float | None = None
    max_concurrency: int | None = None
    failed: int | None = None
    request_throughput: float | None = None
    output_throughput: float | None = None
    total_token_throughput: float | None = None
    spec_decode_acceptance_rate: float | None = None
    spec_decode_acceptance_length: float | None = None
    spec_decode_num_drafts: int | None = None
    spec_decode_draft_tokens: int | None = None
    spec_decode_accepted_tokens: int | None = None
    spec_decode_per_position_acceptance_rates: list[float] | None = None
    input_lens: list[int] | None = None
    output_lens: list[int] | None = None
    ttfts: list[float] | None = None
    itls: list[list[float]] | None = None
    latencies: list[float] | None = None
    start_times: list[float] | None = None
    generated_texts: list[str] | None = None
    errors: list[str | None] | None = None


def sniff(data: memoryview) -> bool:
    """Whether the head of the file carries the keys that every result has."""
    head = bytes(data[:HEAD])
    return all(mark in head for mark in _MARKS)


def parse(content: Content, context: Context) -> Parsed:
    """Read one result, which is one cell. Raises InvalidInput."""
    bench = decode(content)
    return Parsed(NAME, report_config(content), iter([cell_of(bench, content, context, {})]))


def decode(content: Content) -> Bench:
    """The typed result. Raises InvalidInput with what is missing or out of range."""
    try:
        bench = msgspec.json.decode(content.data, type=Bench)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidInput(f"This vllm bench result cannot be read: {error}.") from None
    _check(bench)
    return bench


def _check(bench: Bench) -> None:
    if bench.duration <= 0 or bench.completed < 0 or bench.num_prompts < 0:
        raise InvalidInput(
            "This vllm bench result has a duration or a count below zero; run the benchmark again."
        )
    if bench.completed == 0:
        raise InvalidInput(
            "This vllm bench result has no successful request; look at its errors and run it again."
        )


def members(content: Content) -> dict[str, Any]:
    """The result's own scalar members and short lists, credentials removed."""
    raw = msgspec.json.decode(content.data, type=dict[str, msgspec.Raw])
    kept = {key: value for key, value in raw.items() if key not in _PER_REQUEST}
    decoded: dict[str, Any] = scrub({k: msgspec.json.decode(v) for k, v in kept.items()})
    return decoded


def report_config(content: Content) -> dict[str, Any]:
    """What the result says of its own configuration: everything that is not a measurement."""
    return {
        key: value
        for key, value in members(content).items()
        if not key.endswith(("_ms", "throughput")) and not key.startswith("spec_decode")
    }


def cell_of(bench: Bench, content: Content, context: Context, extra: dict[str, Any]) -> Cell:
    """The one cell of a result; ``extra`` facts (of a sweep) override the result's own."""
    errored = bench.failed if bench.failed is not None else bench.num_prompts - bench.completed
    columns = request_columns(bench)
    cell_id = hashlib.sha256(f"{context.source_id()}:0".encode()).hexdigest()[:20]
    recomputed: tuple[Measurement, ...] = ()
    if columns is not None and bench.start_times:
        recomputed = canonical(columns, Window(None, None), errored, bench.completed)
    return Cell(
        cell_id=cell_id,
        index=0,
        facts=Facts(**(_facts(bench) | extra | context.facts)),
        load_generator="vllm-bench",
        load_generator_version=None,
        schema_generation=NAME,
        reported_definition=DEFINITION,
        run_id=context.source_id()[:20],
        started_at=None,
        duration=bench.duration,
        requests_made=bench.num_prompts,
        completed=bench.completed,
        errored=max(errored, 0),
        incomplete=0,
        requests_complete=columns is not None,
        stop_reason=None,
        status="good",
        measurements=(*_reported(bench, content, errored), *recomputed),
        acceptance=tuple(_acceptance(bench)),
        requests=request_table(cell_id, bench, columns, context.keep_text),
    )


def _facts(bench: Bench) -> dict[str, Any]:
    rate = _rate(bench)
    facts = {
        "model": bench.model_id,
        "engine": "vllm" if bench.spec_decode_num_drafts or bench.backend == "vllm" else None,
        "request_format": _REQUEST_FORMATS.get(bench.endpoint_type or bench.backend or ""),
        "concurrency": bench.max_concurrency,
        "rate": rate,
        "load_profile": _profile(bench, rate),
    }
    return {key: value for key, value in facts.items() if value is not None}


def _rate(bench: Bench) -> float | None:
    """Requests per second; None for ``inf``, which means as fast as the server takes them."""
    try:
        rate = float(bench.request_rate)
    except ValueError:
        return None
    return rate if 0 < rate < float("inf") else None


def _profile(bench: Bench, rate: float | None) -> str:
    if rate is not None:
        return "poisson" if bench.burstiness in (None, 1.0) else "gamma"
    return "concurrent" if bench.max_concurrency else "throughput"


def _reported(bench: Bench, content: Content, errored: int) -> Iterator[Measurement]:
    for key, value in members(content).items():
        match = _STATISTIC.match(key)
        if match and isinstance(value, int | float):
            metric, factor = _LATENCIES[match[2]]
            statistic = _PERCENTILES.get(match[1], match[1])
            if statistic in {"mean", "std"} or statistic in QUANTILES:
                yield Measurement("reported", metric, statistic, value * factor)
    for metric, rate in _means(bench, errored):
        if rate is not None:
            yield Measurement("reported", metric, "mean", rate)


def _means(bench: Bench, errored: int) -> Iterator[tuple[str, float | None]]:
    yield "output_throughput", bench.output_throughput
    yield "total_throughput", bench.total_token_throughput
    yield "request_throughput", bench.request_throughput
    yield "error_rate", errored / (bench.completed + errored)
    yield "prompt_tokens", bench.total_input_tokens / bench.completed
    yield "output_tokens", bench.total_output_tokens / bench.completed


def _acceptance(bench: Bench) -> Iterator[Acceptance]:
    if not bench.spec_decode_num_drafts:
        return
    percent = bench.spec_decode_acceptance_rate
    yield Acceptance(
        source="vllm_bench",
        drafts=bench.spec_decode_num_drafts,
        draft_tokens=bench.spec_decode_draft_tokens,
        accepted_tokens=bench.spec_decode_accepted_tokens,
        rate=None if percent is None else percent / 100,
        mean_length=bench.spec_decode_acceptance_length,
        by_position=tuple(bench.spec_decode_per_position_acceptance_rates or ()),
    )
