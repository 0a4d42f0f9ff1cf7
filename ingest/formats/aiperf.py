"""AIPerf's reports: ``profile_export_aiperf.json`` and its requests, ``profile_export.jsonl``.

Definitions after AIPerf 0.13 (``aiperf/metrics/types``): latency ends with the last chunk that has
content; ITL is (latency - TTFT) / (output tokens - 1) of each request, its chunk latency the gap
between chunks; throughput is over first request to last response; percentiles are interpolated.
Tokens are counted by its own tokenizer unless ``--use-server-token-count`` is given, reasoning
included.
"""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ingest import not_a_number
from ingest.formats import aiperf_requests, genai_perf
from ingest.formats.aiperf_facts import facts_of
from ingest.level import Level, cell_of, reported
from ingest.lines import former, head_of, members, starts_object
from ingest.model import Content, Context, Parsed
from ingest.stated import count, in_its_unit, number, seconds, section
from ingest.unreadable import UNREADABLE, refusal
from warehouse.errors import InvalidInput
from warehouse.rows import Flag, Measurement
from warehouse.secrets.texts import scrub_text
from warehouse.secrets.values import scrub

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
_DEGRADED = "The run ended before it was complete{}: what it measured is a part of the load."


def sniff(data: memoryview) -> bool:
    """Recognise AIPerf's version, the settings that only it and GenAI-Perf write, or lines of its
    requests."""
    head = head_of(data, _HEAD)
    if aiperf_requests.is_line(head):
        return True
    if aiperf_requests.is_summary(head):
        return False
    if starts_object(head, b"aiperf_version"):
        return True
    shaped = starts_object(head, b"input_config", b"request_latency", b"request_count")
    return shaped and not genai_perf.sniff(data)


def beside(path: Path) -> tuple[Path, ...]:
    """Return the requests of a summary: next to it, under its name or the usual one."""
    if not path.name.endswith(".json"):
        return ()
    if path.name == _SUMMARY:
        # By this name it is theirs, whatever became of it: what cannot be read is refused.
        return (path.with_name(_REQUESTS),)
    found = path.with_name(f"{path.stem}.jsonl")
    return (found,) if aiperf_requests.is_file(found) else ()


def stands_for(path: Path) -> tuple[Path, ...]:
    """Return the requests of a summary, which are written before it and are a result without it."""
    return beside(path)


def is_by_product(path: Path) -> bool:
    """Return whether a file holds requests whose summary is there, or something else that AIPerf
    writes into its folder."""
    summary = path.with_name(_SUMMARY)
    if path.name in {_SUMMARY, "record.json"}:
        return False
    if path.name.startswith(("profile_export", "inputs.", "outputs.", "server_metrics_export",
                             "gpu_telemetry_export", "run_config")):  # fmt: skip
        return summary.is_file()
    own = path.with_suffix(".json")
    return path.suffix == ".jsonl" and own.is_file() and aiperf_requests.is_file(path)


def parse(content: Content, context: Context) -> Parsed:
    """Read a summary with the requests beside it, or the requests alone: one cell. InvalidInput."""
    if aiperf_requests.is_line(head_of(content.data, _HEAD)):
        found = aiperf_requests.read(content.data)
        alone = Level(
            generator=NAME, facts={"load_profile": None}, reported=(), completed=found.completed,
            errored=found.errored, started_at=found.started_at, duration=found.duration,
            acceptance=found.acceptance, flags=found.flags, requests=found.requests,
        )  # fmt: skip
        return Parsed(NAME, {}, iter([cell_of(alone, context)]), former(content.data))
    try:
        said, flags = not_a_number.decoded(content.data, members)
    except UNREADABLE as error:
        raise refusal("This AIPerf report", error) from None
    config = {key: said[key] for key in ("input_config", "run_info", "metadata") if key in said}
    return Parsed(NAME, scrub(config), iter([cell_of(_level(said, flags, content), context)]))


def _level(said: dict[str, Any], flags: tuple[Flag, ...], content: Content) -> Level:
    found = aiperf_requests.read(content.beside[0].data) if content.beside else None
    completed = _count(said, "request_count")
    # It is left out where none failed.
    errored = _count(said, "error_request_count") if "error_request_count" in said else 0
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
    own = _histogram(said)
    return Level(
        generator=NAME,
        facts=facts_of(said),
        reported=_reported(said, completed, errored),
        completed=completed,
        errored=errored,
        version=str(said["aiperf_version"]) if said.get("aiperf_version") else None,
        started_at=found.started_at if found else _moment(said.get("start_time")),
        duration=_duration(said),
        acceptance=(found.acceptance if found else ()) or own,
        flags=(*flags, *(found.flags if found else ()), *_doubts(said)),
        requests=found.requests if found else None,
    )


def _reported(said: dict[str, Any], completed: int, errored: int | None) -> Iterator[Measurement]:
    for metric, name in _METRICS.items():
        told = section(said, name)
        yield from reported(metric, told, in_its_unit(metric, told, "ms", name))
    if errored is not None and completed + errored > 0:
        yield from reported("error_rate", errored / (completed + errored))


def _duration(said: dict[str, Any]) -> float | None:
    told = section(said, "benchmark_duration")
    value = number(told, "avg", "benchmark_duration")
    return None if value is None else value * seconds(told, "s", "benchmark_duration")


def _count(said: dict[str, Any], name: str) -> int | None:
    return count(section(said, name), "avg")


def _histogram(said: dict[str, Any]) -> tuple[Any, ...]:
    told = said.get("pooled_spec_decode_acceptance_histogram")
    drafted = _count(said, "total_draft_tokens")
    if not isinstance(told, dict) or drafted is None:
        return ()
    return aiperf_requests.pooled({int(key): int(n) for key, n in told.items()}, drafted)


def _doubts(said: dict[str, Any]) -> Iterator[Flag]:
    if said.get("is_complete") is False or said.get("was_cancelled") is True:
        why = said.get("incomplete_reason")
        words = _DEGRADED.format(
            f" ({scrub_text(' '.join(str(why).split())[:200])})" if why else ""
        )
        yield Flag("stopped_early", "warning", words)


def _moment(text: Any) -> datetime | None:
    """Return the start as AIPerf prints it: in local time without a zone, shown as if it were
    UTC."""
    try:
        return datetime.fromisoformat(text).replace(tzinfo=UTC)
    except (TypeError, ValueError):
        return None
