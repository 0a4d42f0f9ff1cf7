"""AIPerf's reports: ``profile_export_aiperf.json`` and its requests, ``profile_export.jsonl``.

Definitions after AIPerf 0.13 (``aiperf/metrics/types``): latency ends with the last chunk that has
content; ITL is (latency - TTFT) / (output tokens - 1) of each request, its chunk latency the gap
between chunks; throughput is over first request to last response; percentiles are interpolated.
Tokens are counted by its own tokenizer unless ``--use-server-token-count`` is given, reasoning
included.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from analysis.drafts.acceptance import from_requests
from ingest import stated
from ingest.formats import genai_perf
from ingest.level import Level, Requests, cell_of, is_number, reported
from ingest.lines import decoded, former, head_of, members, starts_object
from ingest.model import Content, Context, Parsed
from ingest.read import head_of_file
from ingest.remembered import remembered
from ingest.stated import count, in_its_unit, number, positive, seconds, section
from ingest.unreadable import UNREADABLE, refusal
from warehouse.catalogue import METRICS
from warehouse.errors import InvalidInput
from warehouse.rows import Acceptance, Flag, Measurement
from warehouse.secrets import scrub, scrub_text

# --- What an AIPerf report says of its cell: model, endpoint, dataset, load.
#
# The settings changed their shape between releases; what the command line said stands in some too.


_RATES = {"constant": "constant", "poisson": "poisson", "gamma": "gamma"}


def facts_of(said: dict[str, Any]) -> dict[str, Any]:
    """Return the facts that a report states, in the contract's words; None for what it does not."""
    config = _object(said.get("input_config"))
    endpoint = _object(config.get("endpoint"))
    return {
        "model": _model(config, endpoint),
        "request_format": _format(endpoint.get("type")),
        "dataset": _dataset(config),
        "seed": _seed(said),
        **_extra(endpoint),
        **_load(config),
    }


def _model(config: dict[str, Any], endpoint: dict[str, Any]) -> str | None:
    models = config.get("models") or config.get("model") or endpoint.get("model_names")
    if isinstance(models, dict):
        models = models.get("items")
    first = models[0] if isinstance(models, list) and models else models
    name = first.get("name") if isinstance(first, dict) else first
    return name if isinstance(name, str) and name else None


def _format(kind: Any) -> str | None:
    return {"chat": "chat_completions", "completions": "text_completions"}.get(str(kind))


def _dataset(config: dict[str, Any]) -> str | None:
    """Name the dataset: a file by its name, synthetic prompts by the lengths asked for."""
    first = _first(config.get("datasets")) or _object(config.get("input"))
    for key in ("path", "file"):
        if isinstance(first.get(key), str) and first[key]:
            return str(first[key]).rstrip("/").rpartition("/")[2]
    for key in ("dataset", "public_dataset"):
        if isinstance(first.get(key), str) and first[key]:
            return str(first[key])
    prompts = _object(first.get("prompts") or first.get("prompt"))
    lengths = (
        _mean(prompts.get("isl") or prompts.get("input_tokens")),
        _mean(prompts.get("osl") or prompts.get("output_tokens")),
    )
    return f"synthetic {lengths[0]:g}/{lengths[1]:g}" if lengths[0] and lengths[1] else None


def _mean(told: Any) -> float | None:
    said = told if isinstance(told, dict) else {"mean": told}
    return number(said, "mean" if "mean" in said else "value", "the length of prompts or outputs")


def _seed(said: dict[str, Any]) -> int | None:
    seed = _object(said.get("run_info")).get("random_seed")
    return seed if isinstance(seed, int) and not isinstance(seed, bool) else None


def _extra(endpoint: dict[str, Any]) -> dict[str, Any]:
    """Return the sampling settings that were sent with every request: an object, or pairs of name
    and value."""
    told = endpoint.get("extra")
    if isinstance(told, list):
        told = {pair[0]: pair[1] for pair in told if isinstance(pair, list) and len(pair) == 2}
    extra = _object(told)
    return {
        "temperature": number(extra, "temperature"),
        "top_p": positive(extra, "top_p"),
        "ignore_eos": extra.get("ignore_eos")
        if isinstance(extra.get("ignore_eos"), bool)
        else None,
    }


def _load(config: dict[str, Any]) -> dict[str, Any]:
    """Return the load of the measured phase; before 0.13 one block of settings for the whole
    run."""
    phase = _measured(config.get("phases")) or _object(config.get("loadgen"))
    limit = positive(phase, "concurrency")
    rate = positive(phase, "rate") or positive(phase, "request_rate")
    kind = str(phase.get("type") or phase.get("request_rate_mode") or "")
    if kind == "fixed_schedule":
        return {"load_profile": "trace", "trace": _dataset(config), "concurrency": limit}
    if rate is None:
        return {"load_profile": "concurrent" if limit else None, "concurrency": limit}
    smooth = phase.get("smoothness")
    arrivals = f"gamma (burstiness {smooth:g})" if kind == "gamma" and is_number(smooth) else None
    return {"load_profile": arrivals or _RATES.get(kind), "rate": rate, "concurrency": limit}


def _measured(phases: Any) -> dict[str, Any]:
    """Return the phase whose results count."""
    listed = list(phases.values()) if isinstance(phases, dict) else phases
    found = [one for one in listed or [] if isinstance(one, dict)]
    counted = [
        one
        for one in found
        if not one.get("exclude_from_results") and one.get("kind", one.get("name")) != "warmup"
    ]
    return counted[0] if counted else {}


def _first(listed: Any) -> dict[str, Any]:
    if isinstance(listed, dict):
        listed = list(listed.values())
    return _object(listed[0]) if isinstance(listed, list) and listed else {}


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


# --- The requests of an AIPerf run: one line of JSON for each.


_NS = 1e-9
_PROFILING = "profiling"
#: More draft tokens than this nobody has accepted at once.
_MOST_ACCEPTED = int(METRICS["mean_acceptance_length"].highest)


class Metadata(msgspec.Struct):
    """When a request was made, and in which phase of the run."""

    request_start_ns: int
    request_end_ns: int
    benchmark_phase: str = _PROFILING
    was_cancelled: bool = False


class Value(msgspec.Struct):
    """One metric of one request; lists are those of its chunks."""

    value: Any = None
    unit: str | None = None


class Speculation(msgspec.Struct):
    """What the server said of the drafts of one request."""

    acceptance_histogram: dict[int, int] = {}
    num_draft_tokens: int | None = None


class Line(msgspec.Struct):
    """One request. Errors are objects with a message."""

    metadata: Metadata
    metrics: dict[str, Value] = {}
    error: dict[str, Any] | None = None
    spec_decode_acceptance: Speculation | None = None


@dataclass(frozen=True)
class Found:
    """The requests of the measured phase, and what follows from them."""

    requests: Requests
    completed: int
    errored: int
    started_at: datetime
    duration: float
    acceptance: tuple[Acceptance, ...]
    flags: tuple[Flag, ...]


_line = msgspec.json.Decoder(Line).decode


def is_line(head: bytes) -> bool:
    """Return whether the head of a file is a line of AIPerf's requests."""
    return starts_object(head, b"metadata", b"metrics", b"request_start_ns", b"benchmark_phase")


def is_summary(head: bytes) -> bool:
    """Return whether the head of a file is AIPerf's summary of several runs."""
    return starts_object(head, b"aggregation_type", b"num_profile_runs")


@remembered
def is_file(path: Path) -> bool:
    """Return whether a file with AIPerf's requests lies at ``path``."""
    return is_line(head_of(head_of_file(path)))


def read(data: memoryview) -> Found:
    """Read the requests that were measured; those of a warm-up are left out. Raises
    InvalidInput."""
    pairs = list(decoded(data, _line, "an AIPerf record of requests"))
    lines = [line for line, _ in pairs if line.metadata.benchmark_phase == _PROFILING]
    if not lines:
        raise InvalidInput(
            "This AIPerf record holds no request of the measured phase: give the report of a whole "
            "run."
        )
    begin = min(line.metadata.request_start_ns for line in lines)
    last = max(line.metadata.request_end_ns for line in lines)
    failed = sum(_error(line) is not None for line in lines)
    return Found(
        requests=_requests(lines),
        completed=len(lines) - failed,
        errored=failed,
        started_at=datetime.fromtimestamp(begin * _NS, UTC),
        duration=(last - begin) * _NS,
        acceptance=_acceptance([line.spec_decode_acceptance for line in lines]),
        flags=tuple({flag for _, flags in pairs for flag in flags}),
    )


def pooled(histogram: dict[int, int], drafted: int) -> tuple[Acceptance, ...]:
    """Return acceptance from how many steps accepted 0, 1, 2 … of their draft tokens.

    Raises InvalidInput.
    """
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


def _acceptance(told: list[Speculation | None]) -> tuple[Acceptance, ...]:
    found = [one for one in told if one is not None]
    if not found or any(one.num_draft_tokens is None for one in found):
        return ()
    histogram: Counter[int] = Counter()
    for one in found:
        histogram.update(one.acceptance_histogram)
    return pooled(dict(histogram), sum(one.num_draft_tokens or 0 for one in found))


def _requests(lines: list[Line]) -> Requests:
    start = [line.metadata.request_start_ns * _NS for line in lines]
    ttft = [_seconds(line, "time_to_first_token") for line in lines]
    latency = [_seconds(line, "request_latency") for line in lines]
    last = [_later(at, by) for at, by in zip(start, latency, strict=True)]
    # A request that failed has no latency; it was over when its record says so.
    ended = [line.metadata.request_end_ns * _NS for line in lines]
    return Requests(
        columns={
            "start": start,
            "first_token": [_later(at, by) for at, by in zip(start, ttft, strict=True)],
            "last_token": last,
            "end": [over if at is None else at for at, over in zip(last, ended, strict=True)],
            "prompt_tokens": _tokens(lines, "usage_prompt_tokens", "input_sequence_length"),
            "output_tokens": _tokens(lines, "usage_completion_tokens", "output_sequence_length"),
        },
        errors=[_error(line) for line in lines],
    )


def _tokens(lines: list[Line], counted: str, guessed: str) -> list[float | None]:
    """Return token counts as the server told them, where it did so for every request; else those of
    AIPerf's tokenizer."""
    known = all(counted in line.metrics for line in lines if _error(line) is None)
    return [_number(line, counted if known else guessed) for line in lines]


def _error(line: Line) -> str | None:
    if line.error is None:
        return "cancelled" if line.metadata.was_cancelled else None
    said = line.error.get("message") or line.error.get("type") or "failed"
    return " ".join(str(said).split())


def _seconds(line: Line, name: str) -> float | None:
    value = _number(line, name)
    if value is None:
        return None
    return value * seconds({"unit": line.metrics[name].unit}, "ms", name)


def _number(line: Line, name: str) -> float | None:
    found = line.metrics.get(name)
    return None if found is None else number({name: found.value}, name)


def _later(at: float, by: float | None) -> float | None:
    return None if by is None else at + by


# --- AIPerf's reports: ``profile_export_aiperf.json`` and its requests, ``profile_export.jsonl``.


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
    if is_line(head):
        return True
    if is_summary(head):
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
    return (found,) if is_file(found) else ()


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
    return path.suffix == ".jsonl" and own.is_file() and is_file(path)


def parse(content: Content, context: Context) -> Parsed:
    """Read a summary with the requests beside it, or the requests alone: one cell. InvalidInput."""
    if is_line(head_of(content.data, _HEAD)):
        found = read(content.data)
        alone = Level(
            generator=NAME, facts={"load_profile": None}, reported=(), completed=found.completed,
            errored=found.errored, started_at=found.started_at, duration=found.duration,
            acceptance=found.acceptance, flags=found.flags, requests=found.requests,
        )  # fmt: skip
        return Parsed(NAME, {}, iter([cell_of(alone, context)]), former(content.data))
    try:
        said, flags = stated.decoded(content.data, members)
    except UNREADABLE as error:
        raise refusal("This AIPerf report", error) from None
    config = {key: said[key] for key in ("input_config", "run_info", "metadata") if key in said}
    return Parsed(NAME, scrub(config), iter([cell_of(_level(said, flags, content), context)]))


def _level(said: dict[str, Any], flags: tuple[Flag, ...], content: Content) -> Level:
    found = read(content.beside[0].data) if content.beside else None
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
    return pooled({int(key): int(n) for key, n in told.items()}, drafted)


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
