"""GuideLLM reports, 0.2 and later: decoded once, typed, then read by their generation."""

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from analysis.canonical import Window
from analysis.drafts.acceptance import from_requests
from ingest.clean import Body, flatten, prompt_text, read_arguments
from ingest.formats.guidellm_shape import (
    Benchmark,
    GuidellmReport,
    GuidellmRequest,
    Metrics,
    RequestSpeculation,
    Timings,
    Totals,
)
from ingest.level import MOMENTS, Columns, LevelReport, LevelRequests, active, cell_of, turns_of
from ingest.model import Context, FileContent, Parsed
from ingest.stated import UNREADABLE, decoded, refusal
from warehouse.catalogue import METRICS, PERCENTILES
from warehouse.contract import FACT_KEYS, hash_text, prompt_set_hash
from warehouse.errors import InvalidInput
from warehouse.rows import COMPLETED, ERRORED, INCOMPLETE, Acceptance, Cell, Flag, Measurement
from warehouse.secrets import scrub

NAME, KIND = "guidellm", "a GuideLLM report"
_decode = msgspec.json.Decoder(GuidellmReport).decode


def sniff(data: memoryview) -> bool:
    """Recognise an object that names ``benchmarks``, at its head or after its configuration."""
    head = bytes(data[: 1 << 20])
    return head.lstrip()[:1] == b"{" and b'"benchmarks"' in head


def parse(content: FileContent, context: Context) -> Parsed:
    """Read a report. Raises InvalidInput."""
    try:
        report, flags = decoded(content.data, _decode)
    except UNREADABLE as error:
        raise refusal("The GuideLLM report", error) from None
    if not report.benchmarks:
        raise InvalidInput("The report has no benchmarks: the run wrote nothing; run it again.")
    if not any(_made(b).successful for b in report.benchmarks):
        raise InvalidInput(
            "The report has no successful request: look at the errors it lists and run it again."
        )
    config = scrub({"args": report.args, "config": report.config})
    return Parsed(NAME, config, _cells(report, context, flags))


def _cells(report: GuidellmReport, context: Context, flags: tuple[Flag, ...]) -> Iterator[Cell]:
    generation = _generation(report)
    if generation == "unknown":
        unknown = "The report's version is not known; it was read by its structure and may mean something else."
        flags = (*flags, Flag("unknown_report_version", "warning", unknown))
    for index, benchmark in enumerate(report.benchmarks):
        level = _level(report, benchmark, generation, context)
        yield cell_of(replace(level, flags=(*flags, *level.flags)), context, index)
        # A large report never sits whole beside its rows.
        benchmark.requests.successful = None


# --- What differs between generations: where the settings stand, and what values mean. 0.2 and 0.3 store no
# sampling parameters, and the endpoint per request; in 0.4 and 0.5 the arguments of requests are Python
# literals; from 0.6 on the backend has a block of its own; 0.8 adds conclusions and the server's own numbers.

_BEFORE_04, _BEFORE_074, _SINCE_074 = "guidellm<0.4", "guidellm 0.4-0.7.3", "guidellm>=0.7.4"
#: Whose definitions the reported values follow; of 0.7 the version tells.
_MEANS = {"G1": _BEFORE_04, "G2a": _BEFORE_074, "G2b": _BEFORE_074, "G3a": _BEFORE_074,
          "G4": _SINCE_074}  # fmt: skip
_FORMATS = {"G1": "text_completions", "unknown": None}


def _at(value: Any, *path: str) -> Any:
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def _version(report: GuidellmReport) -> tuple[int, ...]:
    """Return GuideLLM's version as numbers, ``0.7.4`` as (0, 7, 4); () where the report does not
    say or it is no number."""
    text = (report.metadata and report.metadata.guidellm_version) or ""
    numbers = text.split("+")[0].split(".")[:3]
    return tuple(int(n) for n in numbers) if all(n.isdecimal() for n in numbers) else ()


def _generation(report: GuidellmReport) -> str:
    args, version = report.args or {}, _version(report)[:2]
    schema = report.metadata.version if report.metadata else None
    concluded = len(memoryview(report.conclusions)) > 0
    fits = {
        "G1": report.benchmarks[0].run_stats is not None,
        "G2a": report.metadata is None and report.args is not None,
        "G3a": schema == 1 and isinstance(args.get("backend_kwargs"), dict),
        "G2b": schema == 1 and "target" in args,
        "G3b": schema == 2 and version in ((0, 7), ()) and report.config is not None
        and not concluded,
        "G4": schema == 2 and version in ((0, 8), ()) and concluded,
    }  # fmt: skip
    # It is newer than those known.
    return next((name for name, is_so in fits.items() if is_so), "unknown")


def _meaning(report: GuidellmReport, generation: str) -> str:
    version = _version(report)
    if generation == "G3b" and version:
        return _SINCE_074 if version >= (0, 7, 4) else _BEFORE_074
    return _MEANS.get(generation, "unknown")


def _backend(report: GuidellmReport, benchmark: Benchmark, generation: str) -> dict[str, Any]:
    # The resolved one of the level over the one asked for.
    own = _at(benchmark.config, "backend")
    if generation == "G1":
        return {"model": (benchmark.worker or {}).get("backend_model")}
    if generation in ("G2a", "G2b"):
        formatter = _at(report.args, "data_request_formatter")
        named = {"request_format": formatter} if isinstance(formatter, str) else formatter
        found = _merged({"model": _at(report.args, "model")}, named, own)
        return {"request_format": found.get("request_type"), **found}
    kwargs, spec = _at(report.args, "backend_kwargs"), _at(report.config, "spec", "backend")
    return _merged(
        kwargs if generation in ("G3a", "unknown") else None,
        None if generation == "G3a" else spec,
        own,
    )


def _merged(*parts: Any) -> dict[str, Any]:
    return {k: v for p in parts if isinstance(p, dict) for k, v in p.items() if v not in (None, "")}


# --- One level: what was made, when, and what it says of itself. Its units are already ours.

_REPORTED = {
    "output_throughput": "output_tokens_per_second",
    "total_throughput": "tokens_per_second",
    "request_throughput": "requests_per_second",
    "achieved_concurrency": "request_concurrency",
    "ttft": "time_to_first_token_ms",
    "itl": "inter_token_latency_ms",
    "tpot": "time_per_output_token_ms",
    "request_latency": "request_latency",
    "prompt_tokens": "prompt_token_count",
    "output_tokens": "output_token_count",
}


def _level(
    report: GuidellmReport, benchmark: Benchmark, generation: str, context: Context
) -> LevelReport:
    lists, made = benchmark.requests, _made(benchmark)
    is_old = generation == "G1"
    groups = (
        (COMPLETED, lists.successful),
        (ERRORED, lists.errored),
        (INCOMPLETE, lists.incomplete),
    )
    records = [record for _, group in groups for record in group or ()]
    status = [name for name, group in groups for _ in group or ()]
    columns = _columns(records, status, is_old)
    turns = turns_of([
        r.info.turn_index if r.info and r.info.timings and r.info.timings.request_start else None
        for r in records
    ])  # fmt: skip
    columns["turn"] = np.array(turns, dtype=np.float64)
    # False where the report kept fewer records than requests; 0.2 and 0.3 leave out warm-up by design.
    total = benchmark.request_totals or benchmark.metrics.request_totals or Totals()
    least = (0, 0) if is_old else (made.successful, made.errored)
    complete = (
        len(lists.successful or ()) >= max(total.successful, least[0])
        and len(lists.errored or ()) >= max(total.errored, least[1])
        and len(lists.incomplete or ()) >= total.incomplete
    )
    cut: tuple[Flag, ...] = ()
    window = _window(benchmark)
    if complete:
        trimmed = benchmark.warmup_duration or 0.0, benchmark.cooldown_duration or 0.0
        window, cut = active(columns, window, trimmed)
    hashes, questions, texts, first, lengths = _prompts(records, turns, context.keep_text)
    facts = _facts(report, benchmark, generation, first, lengths)
    if complete and not made.errored and not made.incomplete:
        facts["prompt_set_hash"] = prompt_set_hash(questions)
    labels = _at(report.config, "metadata", "labels") or {}
    state = benchmark.scheduler_state
    drafted = [
        (r.response_metrics.speculative_decoding if r.response_metrics else None)
        or RequestSpeculation()
        for r in records
    ]
    more: dict[str, list[Any]] = {
        "prompt_hash": hashes,
        "drafts": [one.num_spec_steps for one in drafted],
        "draft_tokens": [one.num_draft_tokens for one in drafted],
        "accepted_tokens": [one.num_accepted_draft_tokens for one in drafted],
    }
    if context.keep_text:
        more["prompt"] = texts
        more["output"] = [
            None if text is None else _text(record.output)
            for record, text in zip(records, texts, strict=True)
        ]
    return LevelReport(
        generator=NAME,
        facts=facts | {k: v for k, v in labels.items() if k in FACT_KEYS},
        reported=_reported(benchmark.metrics),
        completed=made.successful,
        errored=made.errored,
        incomplete=made.incomplete,
        made=made.total,
        version=report.metadata.guidellm_version if report.metadata else None,
        definition=_meaning(report, generation),
        generation=generation,
        run_id=str(benchmark.run_id or _at(benchmark.config, "run_id") or "") or None,
        stop_reason=", ".join((state.end_processing_constraints if state else None) or {}) or None,
        started_at=_moment(window.start),
        duration=None if window.start is None or window.end is None else window.end - window.start,
        window=window,
        acceptance=_acceptance(lists.successful or []),
        flags=(*cut, *_late(benchmark, records)),
        requests=LevelRequests(
            columns,
            [r.error if r.error is not None or r.info is None else r.info.error for r in records],
            more, status=status, complete=complete,
            answers=map(_answer, lists.successful or ()),
        ) if records or complete else None,
    )  # fmt: skip


def _made(benchmark: Benchmark) -> Totals:
    """Return what the run says it made, else the totals of its metrics, else what its lists hold."""
    run = benchmark.scheduler_metrics or benchmark.run_stats
    if run is not None and run.requests_made is not None:
        return run.requests_made
    lists = benchmark.requests
    done, failed, cut = (
        len(one or ()) for one in (lists.successful, lists.errored, lists.incomplete)
    )
    stated = benchmark.request_totals or benchmark.metrics.request_totals or Totals()
    if stated.total > done + failed + cut:
        return stated
    return Totals(done, failed, cut, done + failed + cut)


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


def _moment(seconds: float | None) -> datetime | None:
    try:
        return None if seconds is None else datetime.fromtimestamp(seconds, UTC)
    except (ValueError, OverflowError, OSError):
        raise InvalidInput("A benchmark starts at a time out of range; run it again.") from None


def _reported(metrics: Metrics) -> Iterator[Measurement]:
    """Yield the values that the report states of successful requests; of rates only the mean, since
    their other statistics are instantaneous.
    """
    for metric, name in _REPORTED.items():
        group = getattr(metrics, name)
        summary = None if group is None else group.successful
        if summary is None:
            continue
        stated = {"mean": summary.mean}
        if METRICS[metric].distribution:
            stated |= {"std": summary.std_dev, "min": summary.min, "max": summary.max}
            percentiles = {"p50": summary.median} | (summary.percentiles or {})
            stated |= {name: percentiles.get(name) for name in PERCENTILES}
        for statistic, value in stated.items():
            if value is not None:
                yield Measurement("reported", metric, statistic, value)


def _late(benchmark: Benchmark, records: list[GuidellmRequest]) -> Iterator[Flag]:
    """Yield a flag where arrivals were not those of the load that was asked for: a client that is
    starved, or starts after the first times are over, sends in heaps.
    """
    strategy = _at(benchmark.config, "strategy")
    # Loads whose requests have a time at which they are to be sent.
    if (_at(strategy, "type_") or _at(strategy, "kind")) not in ("constant", "poisson", "trace"):
        return
    timings = [r.info.timings for r in records if r.info and r.info.timings]
    lags = np.array(
        [t.request_start - t.targeted_start for t in timings
         if t.request_start and t.targeted_start],
        dtype=np.float64,
    )  # fmt: skip
    if lags.size < 2:
        return
    behind = float(np.quantile(lags - lags.min(), 0.95, method="inverted_cdf"))
    # One request in twenty may be so much later than the most punctual one.
    if behind > 0.25:
        yield Flag(
            "sent_late",
            "warning",
            f"One request in twenty was sent {behind:.2f} s or more behind its time, so arrivals "
            "are not those of the load; give the load generator a core of its own, or lower the rate.",
        )


def _acceptance(records: list[GuidellmRequest]) -> tuple[Acceptance, ...]:
    found = [r.response_metrics.speculative_decoding for r in records if r.response_metrics]
    # A request that does not say all of it would count in one sum and be missing in another.
    spec = [s for s in found if s is not None and s.num_spec_steps and None not in s.counts]
    if not spec:
        return ()
    if any(count < 0 for s in spec for count in s.counts):
        raise InvalidInput(
            "A request counts fewer than no draft tokens: the report is damaged; run it again."
        )
    drafts, drafted, accepted = (
        sum(column) for column in zip(*(s.counts for s in spec), strict=True)
    )
    histograms = [s.acceptance_histogram for s in spec if s.acceptance_histogram is not None]
    by_position: tuple[int, ...] = ()
    if len(histograms) == len(spec):
        # A histogram counts the steps that accepted 0, 1, 2 … tokens.
        steps = [sum(one) for one in itertools.zip_longest(*histograms, fillvalue=0)]
        by_position = tuple(sum(steps[i:]) for i in range(1, len(steps)))
    result: Any = from_requests(drafts, drafted, accepted, by_position)
    return () if result is None else (result,)


# --- The request records of a level.

#: What 0.2 and 0.3 wrote for a moment that never came.
_NEVER = -1
_decode_text = msgspec.json.Decoder(str | None).decode
_NO_TIMINGS = Timings()


def _columns(records: list[GuidellmRequest], status: list[str], is_old: bool) -> Columns:
    if is_old:
        moments: list[tuple[Any, ...]] = [
            (r.start_time, r.first_token_time, r.last_token_time, r.end_time, None) for r in records
        ]
    else:
        timings = ((r.info.timings if r.info else None) or _NO_TIMINGS for r in records)
        moments = [
            (t.request_start, t.first_token_iteration, t.last_token_iteration,
             t.resolve_end if t.request_end is None else t.request_end, t.token_iterations)
            for t in timings
        ]  # fmt: skip
    columns: Columns = {
        name: np.array([one[place] for one in moments], dtype=np.float64)
        for place, name in enumerate((*MOMENTS, "iterations"))
    }
    for name in ("prompt_tokens", "output_tokens"):
        columns[name] = np.array([getattr(r, name) for r in records], dtype=np.float64)
    kinds = np.array(status, dtype=object)
    if is_old:
        columns["output_tokens"][kinds == ERRORED] = np.nan
    for name in MOMENTS:
        if np.any((columns[name] < 0) & (columns[name] != _NEVER)):
            raise InvalidInput(
                f"A request has a time below zero ({name}): the report is damaged; run it again."
            )
        columns[name][columns[name] <= 0] = np.nan
    done = kinds == COMPLETED
    for earlier, later in itertools.pairwise(MOMENTS):
        if np.any(columns[later][done] < columns[earlier][done] - 1e-3):
            raise InvalidInput(
                f"A completed request has a negative duration ({later} before {earlier}): the "
                "report is damaged or its clock jumped; run it again."
            )
    for name in ("prompt_tokens", "output_tokens"):
        if np.any(columns[name] < 0) or np.any(columns[name] >= 2**31):
            raise InvalidInput(f"A request has {name} out of range; the report is damaged.")
    return columns


def _question_hash(body: Body | None) -> str | None:
    """Return the hash of what a later turn of a session asks, without the server's own answers before it, which
    differ between arms. None where they cannot be told apart."""
    messages = body.messages if body and isinstance(body.messages, list) else []
    own = [message for message in messages if _at(message, "role") != "assistant"]
    text = flatten(own) if len(own) < len(messages) else None
    return None if text is None else hash_text(text)


def _prompts(
    records: list[GuidellmRequest], turns: list[int | None], keep_text: bool
) -> tuple[list[str | None], list[str | None], list[str | None], Body, set[int]]:
    # Hashes of prompts and of what they ask, the texts where they are kept, the first body, and the lengths
    # that were asked for.
    hashes: list[str | None] = []
    questions: list[str | None] = []
    texts: list[str | None] = []
    first, lengths = Body(), set()
    for record, turn in zip(records, turns, strict=True):
        body = _body(record)
        text = None if body is None else prompt_text(body)
        hashes.append(None if text is None else hash_text(text))
        questions.append(hashes[-1] if turn in (None, 1) else _question_hash(body))
        texts.append(text if keep_text else None)
        if body is not None:
            first = body if first == Body() else first
            length = body.max_completion_tokens if body.max_tokens is None else body.max_tokens
            if isinstance(length, int):
                lengths.add(length)
    return hashes, questions, texts, first, lengths


def _body(record: GuidellmRequest) -> Body | None:
    if (text := _text(record.request_args)) is not None:
        arguments = read_arguments(text)
        return None if arguments is None else arguments.body
    prompt = _text(record.prompt)
    return None if prompt is None else Body(prompt=prompt)


def _text(raw: msgspec.Raw) -> str | None:
    return _decode_text(raw) if memoryview(raw).nbytes else None


def _answer(record: GuidellmRequest) -> str | None:
    """Return the text of an answer with its calls of tools as models write them; None where it is no
    text.
    """
    try:
        text = _text(record.output) or ""
    except msgspec.DecodeError:
        return None
    calls = (bytes(call).decode("utf-8", "replace") for call in record.tool_calls or ())
    return text + "".join(f"<tool_call>{call}</tool_call>" for call in calls)


# --- The facts of a level that the report states; what it does not state stays unknown.


def _facts(
    report: GuidellmReport, benchmark: Benchmark, generation: str, first: Body, lengths: set[int]
) -> dict[str, Any]:
    backend = _backend(report, benchmark, generation)
    model = backend.get("model") or first.model
    strategy = _at(benchmark.config or benchmark.args, "strategy") or {}
    kind = strategy.get("type_") or strategy.get("kind")
    streams = 1 if kind == "synchronous" else strategy.get("streams")
    # The strategy's own max_concurrency is what was resolved, also where no limit was asked for.
    limit = _at(benchmark.config or benchmark.args, "profile", "max_concurrency")
    extra = _at(backend, "extras", "body") or {}
    # Strategies that may have a limit of requests at once; sweeps are made of these.
    facts = {
        "model": model if isinstance(model, str) else None,
        "load_profile": kind,
        "concurrency": limit if kind in ("throughput", "constant", "poisson") else streams,
        "rate": strategy.get("rate"),
        "trace": _trace(report, strategy) if kind == "trace" else None,
        "request_format": _format(backend, benchmark, first)
        or _FORMATS.get(generation, "chat_completions"),
        "max_tokens": None if lengths else backend.get("max_tokens"),
    }
    if len(lengths) == 1:
        (facts["max_tokens"],) = lengths
    for name in ("temperature", "top_p", "seed", "ignore_eos"):
        sent = getattr(first, name)
        facts[name] = extra.get(name) if sent is None else sent
    return facts


def _trace(report: GuidellmReport, strategy: Mapping[str, Any]) -> str | None:
    data = _at(report.config, "spec", "data")
    first = data[0] if isinstance(data, list) and data else None
    path = _at(first, "path") or _at(first, "source")
    if not isinstance(path, str) or not path:
        return None
    scale = strategy.get("time_scale") or 1
    return Path(path).name + ("" if scale == 1 else f" (time x {scale:g})")


def _format(backend: Mapping[str, Any], benchmark: Benchmark, first: Body) -> str | None:
    if first.messages is not None:
        return "chat_completions"
    record = next(iter(benchmark.requests.successful or ()), None)
    named = (record and record.request_type) or str(backend.get("request_format") or "")
    if "completions" not in named:
        return None
    return "chat_completions" if "chat" in named else "text_completions"
