"""The requests of an AIPerf run: one line of JSON for each."""

from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from analysis.drafts.acceptance import from_requests
from ingest.level import Requests
from ingest.lines import decoded, head_of, starts_object
from ingest.read import head_of_file
from ingest.remembered import remembered
from ingest.stated import number, seconds
from warehouse.catalogue import METRICS
from warehouse.errors import InvalidInput
from warehouse.rows import Acceptance, Flag

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
