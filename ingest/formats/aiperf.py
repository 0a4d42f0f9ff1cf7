"""AIPerf's reports: ``profile_export_aiperf.json`` and its requests, ``profile_export.jsonl``.

Definitions after AIPerf 0.13 (``aiperf/metrics/types``): latency ends with the last chunk that has
content; ITL is (latency - TTFT) / (output tokens - 1) of each request, its chunk latency the gap
between chunks; throughput is over first request to last response; percentiles are interpolated.
Tokens are counted by its own tokenizer unless ``--use-server-token-count`` is given, reasoning
included.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import Any

import msgspec

from analysis.drafts.acceptance import from_requests
from ingest.formats import genai_perf
from ingest.level import (
    LevelReport,
    LevelRequests,
    cell_of,
    error_rate,
    is_number,
    reported_sections,
    turns_of,
)
from ingest.model import Context, FileContent, Parsed, head_of_file, remembered
from ingest.stated import (
    count,
    decoded_lines,
    failure_of,
    former,
    head_of,
    json_object,
    number,
    object_of,
    objects_of,
    positive,
    seconds,
    section,
    starts_object,
    text_of,
)
from warehouse.catalogue import METRICS
from warehouse.errors import InvalidInput
from warehouse.rows import Acceptance, Flag
from warehouse.secrets import scrub, scrub_text

NAME, KIND = "aiperf", "an AIPerf report"

_SUMMARY, _REQUESTS = "profile_export_aiperf.json", "profile_export.jsonl"
_HEAD = 1 << 20
#: Our metric: its name there.
_METRICS = {
    "ttft": "time_to_first_token",
    "itl": "inter_token_latency",
    "chunk_gap": "inter_chunk_latency",
    "request_latency": "request_latency",
    "prompt_tokens": "input_sequence_length",
    "output_tokens": "output_sequence_length",
    "output_throughput": "output_token_throughput",
    "total_throughput": "total_token_throughput",
    "request_throughput": "request_throughput",
    "achieved_concurrency": "effective_concurrency",
}


def sniff(data: memoryview) -> bool:
    """Recognise AIPerf's version, the settings that only it and GenAI-Perf write, or lines of its
    requests."""
    head = head_of(data, _HEAD)
    if is_line(head) or is_summary(head):
        return not is_summary(head)
    shaped = starts_object(head, b"input_config", b"request_latency", b"request_count")
    return starts_object(head, b"aiperf_version") or (shaped and not genai_perf.sniff(data))


def is_line(head: bytes) -> bool:
    """Return whether the head of a file is a line of AIPerf's requests."""
    return starts_object(head, b"metadata", b"metrics", b"request_start_ns", b"benchmark_phase")


def is_summary(head: bytes) -> bool:
    """Return whether the head of a file is AIPerf's summary of several runs."""
    return starts_object(head, b"aggregation_type", b"num_profile_runs")


@remembered
def _holds_requests(path: Path) -> bool:
    return is_line(head_of(head_of_file(path)))


def beside(path: Path) -> tuple[Path, ...]:
    """Return the requests of a summary: next to it, under its name or the usual one."""
    if not path.name.endswith(".json"):
        return ()
    if path.name == _SUMMARY:
        # By this name it is theirs, whatever became of it: what cannot be read is refused.
        return (path.with_name(_REQUESTS),)
    found = path.with_name(f"{path.stem}.jsonl")
    return (found,) if _holds_requests(found) else ()


# They are written before the summary, and are a result without it.
stands_for = beside


def is_by_product(path: Path) -> bool:
    """Return whether a file holds requests whose summary is there, or something else that AIPerf
    writes into its folder."""
    if path.name in {_SUMMARY, "record.json"}:
        return False
    if path.name.startswith(("profile_export", "inputs.", "outputs.", "server_metrics_export",
                             "gpu_telemetry_export", "run_config")):  # fmt: skip
        return path.with_name(_SUMMARY).is_file()
    own = path.with_suffix(".json")
    return path.suffix == ".jsonl" and own.is_file() and _holds_requests(path)


def parse(content: FileContent, context: Context) -> Parsed:
    """Read a summary with the requests beside it, or the requests alone: one cell. InvalidInput."""
    if is_line(head_of(content.data, _HEAD)):
        level = _of_requests(content.data)
        return Parsed(NAME, {}, iter([cell_of(level, context)]), former(content.data))
    report, flags = json_object(content.data, "This AIPerf report")
    found = _of_requests(content.beside[0].data) if content.beside else None
    level = _of_summary(report, found)
    config = {key: report[key] for key in ("input_config", "run_info", "metadata") if key in report}
    level = replace(level, flags=(*flags, *level.flags))
    return Parsed(NAME, scrub(config), iter([cell_of(level, context)]))


def _of_summary(report: Mapping[str, Any], found: LevelReport | None) -> LevelReport:
    completed = count(section(report, "request_count"), "avg")
    # It is left out where none failed.
    errored: int | None = 0
    if "error_request_count" in report:
        errored = count(section(report, "error_request_count"), "avg")
    if completed is None:
        raise InvalidInput(
            "This AIPerf report has no successful request: look at its error_summary and run it "
            "again."
        )
    if found is not None and (found.completed, found.errored) != (completed, errored):
        raise InvalidInput(
            f"This AIPerf report counts {completed} completed and {errored} failed requests, "
            f"the file of its requests {found.completed} and {found.errored}: they are of two runs."
        )
    drafted = count(section(report, "total_draft_tokens"), "avg")
    histogram = report.get("pooled_spec_decode_acceptance_histogram")
    acceptance = () if found is None else found.acceptance
    if isinstance(histogram, dict) and drafted is not None:
        pooled = _pooled({int(key): int(n) for key, n in histogram.items()}, drafted)
        acceptance = acceptance or pooled
    length = section(report, "benchmark_duration")
    duration = number(length, "avg", "benchmark_duration")
    if duration is not None:
        duration *= seconds(length, "s", "benchmark_duration")
    flags = () if found is None else found.flags
    if report.get("is_complete") is False or report.get("was_cancelled") is True:
        why = report.get("incomplete_reason")
        words = f" ({scrub_text(' '.join(str(why).split())[:200])})" if why else ""
        sentence = (
            f"The run ended before it was complete{words}: what it measured is a part of the load."
        )
        flags = (*flags, Flag("stopped_early", "warning", sentence))
    return LevelReport(
        generator=NAME,
        facts=facts_of(report),
        reported=chain(reported_sections(report, _METRICS, "ms"), error_rate(completed, errored)),
        completed=completed,
        errored=errored,
        version=str(report["aiperf_version"]) if report.get("aiperf_version") else None,
        started_at=_moment(report.get("start_time")) if found is None else found.started_at,
        duration=duration,
        acceptance=acceptance,
        flags=flags,
        requests=None if found is None else found.requests,
    )


def _moment(text: Any) -> datetime | None:
    """Return the start as AIPerf prints it: in local time without a zone, shown as if it were UTC."""
    try:
        return datetime.fromisoformat(text).replace(tzinfo=UTC)
    except (TypeError, ValueError):
        return None


# --- What a report says of its cell: model, endpoint, dataset, load.
#
# The settings changed their shape between releases; what the command line said stands in some too.

_ARRIVALS = {"constant": "constant", "poisson": "poisson", "gamma": "gamma"}


def facts_of(report: Mapping[str, Any]) -> dict[str, Any]:
    config = object_of(report.get("input_config"))
    endpoint = object_of(config.get("endpoint"))
    models = config.get("models") or config.get("model") or endpoint.get("model_names")
    if isinstance(models, dict):
        models = models.get("items")
    first = models[0] if isinstance(models, list) and models else models
    seed = object_of(report.get("run_info")).get("random_seed")
    # The sampling settings that were sent with every request: an object, or pairs of name and value.
    extra = endpoint.get("extra")
    if isinstance(extra, list):
        extra = {pair[0]: pair[1] for pair in extra if isinstance(pair, list) and len(pair) == 2}
    extra = object_of(extra)
    ignore = extra.get("ignore_eos")
    return {
        "model": text_of(first.get("name") if isinstance(first, dict) else first),
        "request_format": {"chat": "chat_completions", "completions": "text_completions"}.get(
            str(endpoint.get("type"))
        ),
        "dataset": _dataset(config),
        "seed": seed if isinstance(seed, int) and not isinstance(seed, bool) else None,
        "temperature": number(extra, "temperature"),
        "top_p": positive(extra, "top_p"),
        "ignore_eos": ignore if isinstance(ignore, bool) else None,
        **_load(config),
    }


def _dataset(config: Mapping[str, Any]) -> str | None:
    listed = config.get("datasets")
    if isinstance(listed, dict):
        listed = list(listed.values())
    first = object_of(listed[0]) if isinstance(listed, list) and listed else {}
    first = first or object_of(config.get("input"))
    if path := text_of(first.get("path")) or text_of(first.get("file")):
        return path.rstrip("/").rpartition("/")[2]
    if name := text_of(first.get("dataset")) or text_of(first.get("public_dataset")):
        return name
    prompts = object_of(first.get("prompts") or first.get("prompt"))
    lengths = []
    for names in (("isl", "input_tokens"), ("osl", "output_tokens")):
        stated = prompts.get(names[0]) or prompts.get(names[1])
        length = stated if isinstance(stated, dict) else {"mean": stated}
        key = "mean" if "mean" in length else "value"
        lengths.append(number(length, key, "the length of prompts or outputs"))
    return f"synthetic {lengths[0]:g}/{lengths[1]:g}" if all(lengths) else None


def _load(config: Mapping[str, Any]) -> dict[str, Any]:
    counted = [
        one
        for one in objects_of(config.get("phases"))
        if not one.get("exclude_from_results") and one.get("kind", one.get("name")) != "warmup"
    ]
    phase = counted[0] if counted else object_of(config.get("loadgen"))
    limit = positive(phase, "concurrency")
    rate = positive(phase, "rate") or positive(phase, "request_rate")
    kind = str(phase.get("type") or phase.get("request_rate_mode") or "")
    if kind == "fixed_schedule":
        return {"load_profile": "trace", "trace": _dataset(config), "concurrency": limit}
    if rate is None:
        return {"load_profile": "concurrent" if limit else None, "concurrency": limit}
    smooth = phase.get("smoothness")
    arrivals = f"gamma (burstiness {smooth:g})" if kind == "gamma" and is_number(smooth) else None
    return {"load_profile": arrivals or _ARRIVALS.get(kind), "rate": rate, "concurrency": limit}


# --- The requests of a run: one line of JSON for each.

_NS = 1e-9
_PROFILING = "profiling"
#: More draft tokens than this nobody has accepted at once.
_MOST_ACCEPTED = int(METRICS["mean_acceptance_length"].highest)


class RequestTimes(msgspec.Struct):
    request_start_ns: int
    request_end_ns: int
    benchmark_phase: str = _PROFILING
    was_cancelled: bool = False
    turn_index: int | None = None


class RequestMetric(msgspec.Struct):
    value: Any = None
    unit: str | None = None


class RequestDrafts(msgspec.Struct):
    acceptance_histogram: dict[int, int] = {}
    num_draft_tokens: int | None = None


class RequestLine(msgspec.Struct):
    metadata: RequestTimes
    metrics: dict[str, RequestMetric] = {}
    error: dict[str, Any] | None = None
    spec_decode_acceptance: RequestDrafts | None = None

    def number(self, name: str) -> float | None:
        found = self.metrics.get(name)
        return None if found is None else number({name: found.value}, name)

    def ended(self, name: str) -> float | None:
        value = self.number(name)
        if value is None:
            return None
        unit = seconds({"unit": self.metrics[name].unit}, "ms", name)
        return self.metadata.request_start_ns * _NS + value * unit


_line = msgspec.json.Decoder(RequestLine).decode


def _of_requests(data: memoryview) -> LevelReport:
    """Read the requests that were measured; those of a warm-up are left out. Raises InvalidInput."""
    pairs = [pair for _, pair in decoded_lines(data, _line, "an AIPerf record of requests")]
    lines = [line for line, _ in pairs if line.metadata.benchmark_phase == _PROFILING]
    if not lines:
        raise InvalidInput(
            "This AIPerf record holds no request of the measured phase: give the report of a whole "
            "run."
        )
    begin = min(line.metadata.request_start_ns for line in lines)
    end = max(line.metadata.request_end_ns for line in lines)
    errors = [
        "cancelled" if line.error is None and line.metadata.was_cancelled
        else failure_of(line.error, "message", "type")
        for line in lines
    ]  # fmt: skip
    last = [line.ended("request_latency") for line in lines]
    columns = {
        "turn": turns_of([line.metadata.turn_index for line in lines]),
        "start": [line.metadata.request_start_ns * _NS for line in lines],
        "first_token": [line.ended("time_to_first_token") for line in lines],
        "last_token": last,
        # A request that failed has no latency; it was over when its record says so.
        "end": [
            line.metadata.request_end_ns * _NS if at is None else at
            for line, at in zip(lines, last, strict=True)
        ],
    }
    # Tokens as the server told them, where it did so for every request; else those of AIPerf's tokenizer.
    for name, usage, own in (
        ("prompt_tokens", "usage_prompt_tokens", "input_sequence_length"),
        ("output_tokens", "usage_completion_tokens", "output_sequence_length"),
    ):
        by_server = all(
            usage in line.metrics
            for line, error in zip(lines, errors, strict=True) if error is None
        )  # fmt: skip
        columns[name] = [line.number(usage if by_server else own) for line in lines]
    drafts = [one for line in lines if (one := line.spec_decode_acceptance) is not None]
    acceptance: tuple[Acceptance, ...] = ()
    if drafts and all(one.num_draft_tokens is not None for one in drafts):
        histogram: Counter[int] = Counter()
        for one in drafts:
            histogram.update(one.acceptance_histogram)
        acceptance = _pooled(dict(histogram), sum(one.num_draft_tokens or 0 for one in drafts))
    failed = sum(error is not None for error in errors)
    return LevelReport(
        generator=NAME,
        facts={},
        reported=(),
        completed=len(lines) - failed,
        errored=failed,
        started_at=datetime.fromtimestamp(begin * _NS, UTC),
        duration=(end - begin) * _NS,
        acceptance=acceptance,
        flags=tuple({flag for _, flags in pairs for flag in flags}),
        requests=LevelRequests(columns, errors, _of_each(lines)),
    )


def _of_each(lines: list[RequestLine]) -> dict[str, list[int | None]]:
    """Return what was drafted and accepted of each request, as far as its histogram says."""
    said = [one.spec_decode_acceptance or RequestDrafts() for one in lines]
    steps = [sum(one.acceptance_histogram.values()) or None for one in said]
    accepted = [sum(k * n for k, n in one.acceptance_histogram.items()) for one in said]
    return {
        "drafts": [*steps],
        "draft_tokens": [one.num_draft_tokens for one in said],
        "accepted_tokens": [a if n else None for a, n in zip(accepted, steps, strict=True)],
    }


def _pooled(histogram: dict[int, int], drafted: int) -> tuple[Acceptance, ...]:
    for wrong in (tokens for tokens in histogram if not 0 <= tokens <= _MOST_ACCEPTED):
        raise InvalidInput(
            f"This AIPerf report counts steps of which each accepted {wrong:,} draft tokens, which "
            "cannot be: it was altered; copy it again from its source."
        )
    if min(histogram.values(), default=0) < 0 or drafted < 0:
        raise InvalidInput(
            "This AIPerf report counts fewer than no drafts, which cannot be: it was altered; copy it "
            "again from its source."
        )
    steps = sum(histogram.values())
    if not steps:
        return ()
    accepted = sum(tokens * n for tokens, n in histogram.items())
    longest = max(histogram)
    positions = [sum(n for tokens, n in histogram.items() if tokens > i) for i in range(longest)]
    return (from_requests(steps, drafted, accepted, positions),)
