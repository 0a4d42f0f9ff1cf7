"""GuideLLM reports, 0.2 and later: decoded once, typed, then read by their generation's adapter."""

import hashlib
import math
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import msgspec

from analysis.canonical import Columns, Window, canonical, with_latencies
from analysis.drafts.acceptance import from_requests
from ingest.formats import guidellm_g1, guidellm_g2, guidellm_g3, guidellm_g4, guidellm_unknown
from ingest.formats.guidellm_adapter import Adapter, at
from ingest.formats.guidellm_facts import facts_of, late, reported
from ingest.formats.guidellm_requests import answer, asked, columns_of, records_of, table_of
from ingest.formats.guidellm_shape import Benchmark, Report, Request, Speculation, Totals
from ingest.level import of_texts
from ingest.model import Content, Context, Parsed
from ingest.stated import decoded
from ingest.unreadable import UNREADABLE, refusal
from ingest.window import active
from warehouse.errors import InvalidInput
from warehouse.rows import Acceptance, Cell, Flag, Measurement
from warehouse.secrets import scrub

NAME, KIND = "guidellm", "a GuideLLM report"
_HEAD = 1 << 20
_ADAPTERS: tuple[Adapter, ...] = (
    guidellm_g1.ADAPTER, guidellm_g2.G2A, guidellm_g3.G3A, guidellm_g2.G2B,
    guidellm_g3.G3B, guidellm_g4.ADAPTER, guidellm_unknown.ADAPTER,
)  # fmt: skip
_decode = msgspec.json.Decoder(Report).decode


def sniff(data: memoryview) -> bool:
    """Recognise an object that names ``benchmarks``, at its head or after its configuration."""
    head = bytes(data[:_HEAD])
    return head.lstrip()[:1] == b"{" and b'"benchmarks"' in head


def parse(content: Content, context: Context) -> Parsed:
    """Read a report. Raises InvalidInput."""
    report, flags = _read(content)
    if not report.benchmarks:
        raise InvalidInput("The report has no benchmarks: the run wrote nothing; run it again.")
    if not any(_made(b).successful for b in report.benchmarks):
        raise InvalidInput(
            "The report has no successful request: look at the errors it lists and run it again."
        )
    adapter = next(a for a in _ADAPTERS if a.matches(report))
    if adapter is guidellm_unknown.ADAPTER:
        flags = (*flags, guidellm_unknown.FLAG)
    config = scrub({"args": report.args, "config": report.config})
    return Parsed(NAME, config, _cells(report, adapter, context, flags))


def _read(content: Content) -> tuple[Report, tuple[Flag, ...]]:
    try:
        return decoded(content.data, _decode)
    except UNREADABLE as error:
        raise refusal("The GuideLLM report", error) from None


def _cells(
    report: Report, adapter: Adapter, context: Context, flags: tuple[Flag, ...]
) -> Iterator[Cell]:
    levels = report.benchmarks
    for index in range(len(levels)):
        benchmark = levels[index]
        yield _cell(report, benchmark, adapter, context, (index, flags))
        benchmark.requests.successful = None


def _cell(
    report: Report, benchmark: Benchmark, adapter: Adapter, context: Context,
    place: tuple[int, tuple[Flag, ...]],
) -> Cell:  # fmt: skip
    index, flags = place
    records, status = records_of(benchmark)
    made, complete = _made(benchmark), _complete(benchmark, adapter.generation == "G1")
    columns: Columns = columns_of(records, status, old=adapter.generation == "G1")
    window, cut = _measured(columns, benchmark) if complete else (_window(benchmark), ())
    columns = with_latencies(columns, window)
    said = asked(records, context.keep_text)
    if not complete or made.errored or made.incomplete:
        said = said.of_a_part()
    values: tuple[Measurement, ...] = tuple(reported(benchmark.metrics))
    if complete:
        values += (
            *canonical(columns, window, made.errored, made.successful),
            *of_texts(map(answer, benchmark.requests.successful or ())),
        )
    cell_id = hashlib.sha256(f"{context.source_id()}:{index}".encode()).hexdigest()[:20]
    return Cell(
        cell_id=cell_id,
        index=index,
        facts=facts_of(adapter, report, benchmark, said, context.facts),
        load_generator=NAME,
        load_generator_version=report.metadata.guidellm_version if report.metadata else None,
        schema_generation=adapter.generation,
        reported_definition=adapter.definition(report),
        run_id=str(benchmark.run_id or at(benchmark.config, "run_id") or context.source_id()[:20]),
        started_at=_moment(window.start),
        duration=_duration(window),
        requests_made=made.total,
        completed=made.successful,
        errored=made.errored,
        incomplete=made.incomplete,
        requests_complete=complete,
        stop_reason=_stop_reason(benchmark),
        status="good" if made.successful else "failed",
        measurements=values,
        acceptance=_acceptance(benchmark.requests.successful or []),
        flags=(*flags, *cut, *late(benchmark, records)),
        requests=table_of(cell_id, records, columns, said) if records or complete else None,
    )


def _window(benchmark: Benchmark) -> Window:
    run = benchmark.scheduler_metrics
    start = run.measure_start_time if run else None
    end = run.measure_end_time if run else None
    start = benchmark.start_time if start is None else start
    end = benchmark.end_time if end is None else end
    if start is not None and end is not None and end < start:
        raise InvalidInput(
            "A benchmark of the report ends before it starts: the clock jumped; run it again."
        )
    return Window(start, end)


def _measured(columns: Columns, benchmark: Benchmark) -> tuple[Window, tuple[Flag, ...]]:
    trimmed = benchmark.warmup_duration or 0.0, benchmark.cooldown_duration or 0.0
    return active(columns, _window(benchmark), trimmed)


def _made(benchmark: Benchmark) -> Totals:
    """Return what the run says it made, else the totals of its metrics, else what its lists
    hold."""
    run = benchmark.scheduler_metrics or benchmark.run_stats
    if run is not None and run.requests_made is not None:
        return run.requests_made
    lists = benchmark.requests
    done, failed = len(lists.successful or ()), len(lists.errored or ())
    cut = len(lists.incomplete or ())
    stated = benchmark.request_totals or benchmark.metrics.request_totals or Totals()
    if stated.total > done + failed + cut:
        return stated
    return Totals(done, failed, cut, done + failed + cut)


def _complete(benchmark: Benchmark, old: bool) -> bool:
    """Return False where the report kept fewer records than requests; G1 leaves out warm-up by
    design."""
    lists, made = benchmark.requests, _made(benchmark)
    total = benchmark.request_totals or benchmark.metrics.request_totals or Totals()
    least = (0, 0) if old else (made.successful, made.errored)
    done, failed = len(lists.successful or ()), len(lists.errored or ())
    enough = done >= max(total.successful, least[0]) and failed >= max(total.errored, least[1])
    return enough and len(lists.incomplete or ()) >= total.incomplete


def _stop_reason(benchmark: Benchmark) -> str | None:
    state = benchmark.scheduler_state
    reasons = (state.end_processing_constraints if state else None) or {}
    return ", ".join(reasons) or None


def _moment(seconds: float | None) -> datetime | None:
    if seconds is None or not math.isfinite(seconds):
        return None
    try:
        return datetime.fromtimestamp(seconds, UTC)
    except (ValueError, OverflowError, OSError):
        raise InvalidInput("A benchmark starts at a time out of range; run it again.") from None


def _duration(window: Window) -> float | None:
    return None if window.start is None or window.end is None else window.end - window.start


def _acceptance(records: list[Request]) -> tuple[Acceptance, ...]:
    found = [r.response_metrics.speculative_decoding for r in records if r.response_metrics]
    # A request that does not say all of it would count in one sum and be missing in another.
    spec = [s for s in found if s is not None and s.num_spec_steps and None not in _counts(s)]
    if not spec:
        return ()
    if any(count < 0 for s in spec for count in _counts(s)):
        raise InvalidInput(
            "A request counts fewer than no draft tokens: the report is damaged; run it again."
        )
    drafts, drafted, accepted = (sum(column) for column in zip(*map(_counts, spec), strict=True))
    by_position = _by_position([s.acceptance_histogram for s in spec])
    result: Any = from_requests(drafts, drafted, accepted, by_position)
    return () if result is None else (result,)


def _counts(one: Speculation) -> tuple[Any, ...]:
    return one.num_spec_steps, one.num_draft_tokens, one.num_accepted_draft_tokens


def _by_position(histograms: list[list[int] | None]) -> tuple[int, ...]:
    """Return how many steps accepted each position; a histogram counts the steps that accepted 0,
    1, 2 … tokens."""
    if not histograms or None in histograms:
        return ()
    known = [h for h in histograms if h is not None]
    width = max(len(h) for h in known)
    steps = [sum(h[i] for h in known if i < len(h)) for i in range(width)]
    return tuple(sum(steps[i + 1 :]) for i in range(width - 1))
