"""One load point: GuideLLM is run, watched, and its report is counted.

That GuideLLM ends well says nothing of the requests: a server killed in the middle leaves a report
that looks normal. So the completed requests are counted, and a load is good only if nearly all of
the planned ones are there.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from runners.serving.diagnosis import Diagnosis
from runners.serving.processes import Guarded

#: How long GuideLLM may take beyond the load's own time limit: its start, and writing the report.
_GRACE_S = 300.0
_POLL_S = 0.2
_LAST_LINES = 5


@dataclass(frozen=True)
class Invocation:
    """A command line of GuideLLM and where it runs."""

    argv: Sequence[str]
    env: Mapping[str, str]
    log: Path
    max_seconds: float
    cpus: frozenset[int] | None = None


@dataclass(frozen=True)
class Counts:
    """What became of the requests of one report, warm-up and cool-down included."""

    successful: int
    errored: int
    incomplete: int
    first_error: str | None
    stopped_by: tuple[str, ...] = ()


def run_load(what: Invocation, watch: Callable[[], Diagnosis | None]) -> Diagnosis | None:
    """Run GuideLLM to its end. Return None if it ended by itself with status 0, else what went
    wrong.

    ``watch`` is called several times a second; what it finds ends the load at once.
    """
    ends_at = time.monotonic() + what.max_seconds + _GRACE_S
    with Guarded.start(what.argv, what.env, what.log, cpus=what.cpus) as process:
        while (status := process.poll()) is None:
            found = watch() or _overdue(ends_at, what.max_seconds)
            if found is not None:
                return found
            time.sleep(_POLL_S)
    return None if status == 0 else _failed(status, what.log)


def _overdue(ends_at: float, limit: float) -> Diagnosis | None:
    if time.monotonic() < ends_at:
        return None
    return Diagnosis(
        "load_hangs",
        f"GuideLLM did not end within {_GRACE_S:.0f} s of its limit of {limit:g} s; it was stopped.",
    )


def _failed(status: int, log: Path) -> Diagnosis:
    said = " / ".join(line.strip() for line in tail(log, _LAST_LINES) if line.strip())
    return Diagnosis(
        "load_failed", f"GuideLLM ended with exit status {status}; it said: {said[-500:]}"
    )


def tail(path: Path, lines: int) -> list[str]:
    """Return the last lines of a log, read from its end."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - 400 * lines))
            return file.read().decode("utf-8", "replace").splitlines()[-lines:]
    except OSError:
        return []


def judge(counts: Counts, planned: int, max_error_rate: float) -> Diagnosis | None:
    """Return None if at most ``max_error_rate`` of the planned requests are missing or failed, else
    what is wrong."""
    missing = planned - counts.successful
    if missing <= max_error_rate * planned:
        return None
    why = f"{counts.errored} failed, {counts.incomplete} were cut off"
    if counts.first_error:
        why += f"; the first error: {counts.first_error[:200]}"
    return Diagnosis(
        "incomplete", f"Only {counts.successful} of {planned} requests were completed ({why})."
    )


class _Info(msgspec.Struct, gc=False):
    error: str | None = None


class _Request(msgspec.Struct, gc=False):
    info: _Info = msgspec.field(default_factory=_Info)


class _Requests(msgspec.Struct, gc=False):
    errored: list[_Request] | None = None


class _Made(msgspec.Struct, gc=False):
    successful: int = 0
    errored: int = 0
    incomplete: int = 0


class _Scheduled(msgspec.Struct, gc=False):
    requests_made: _Made


class _State(msgspec.Struct, gc=False):
    end_processing_constraints: dict[str, msgspec.Raw] = {}


class _Benchmark(msgspec.Struct, gc=False):
    scheduler_metrics: _Scheduled
    requests: _Requests
    scheduler_state: _State = msgspec.field(default_factory=_State)


class _Report(msgspec.Struct, gc=False):
    benchmarks: list[_Benchmark]


def count(report: Path) -> Counts | Diagnosis:
    """Count the requests of a report with one level, or say why it cannot be read."""
    try:
        levels = msgspec.json.decode(report.read_bytes(), type=_Report).benchmarks
    except FileNotFoundError:
        return Diagnosis("no_report", "GuideLLM ended without writing a report.")
    except (OSError, msgspec.DecodeError) as error:
        return Diagnosis("no_report", f"GuideLLM's report cannot be read: {error}.")
    if len(levels) != 1:
        return Diagnosis("no_report", f"GuideLLM's report has {len(levels)} levels instead of one.")
    made, failed = levels[0].scheduler_metrics.requests_made, levels[0].requests.errored or []
    errors = [request.info.error for request in failed if request.info.error]
    return Counts(
        successful=made.successful,
        errored=made.errored,
        incomplete=made.incomplete,
        first_error=errors[0] if errors else None,
        stopped_by=tuple(levels[0].scheduler_state.end_processing_constraints),
    )
