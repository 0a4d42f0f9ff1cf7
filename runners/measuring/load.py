"""One load point: GuideLLM is run, watched, and its report is counted.

That GuideLLM ends well says nothing of the requests: a server killed in the middle leaves a report
that looks normal. So the completed requests are counted, and a load is good only if nearly all of
the planned ones are there.
"""

import contextlib
import json
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import msgspec

from runners.serving import endpoint
from runners.serving.diagnosis import Diagnosis
from runners.serving.processes import Guarded
from warehouse.contract import ENGINES, one_name

# --- An engine that hangs: requests are running, and nothing is generated any more.


HANGS = "hangs"
#: At most, however long a cell may take; the prefill of a long prompt takes far less.
_LONGEST_S = 300.0


class Stall:
    """Watches the sampler's latest figures. An engine that shows none is never taken to hang."""

    def __init__(self, cell_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._limit_s = min(_LONGEST_S, cell_s / 2)
        self._clock = clock
        self._moved_at = clock()
        self._seen: Mapping[str, float] = {}

    def look(self, latest: Mapping[str, float]) -> Diagnosis | None:
        """Say what is wrong, once nothing moved for too long; None until then. ``latest`` is a new
        object each sample."""
        fresh = latest is not self._seen
        self._seen = latest
        # An engine moves that has nothing to do; the first sample, which has no rate yet, counts.
        moves = not latest.get("running") or latest.get("tokens_per_s", 1.0) > 0
        if not latest or (fresh and moves):
            self._moved_at = self._clock()
        silent_s = self._clock() - self._moved_at
        if silent_s < self._limit_s:
            return None
        return Diagnosis(
            HANGS,
            f"The engine hangs: {latest.get('running', 0):.0f} requests were running and for "
            f"{silent_s:.0f} s it generated nothing, or did not say.",
        )


# --- The server's ``/metrics``: whole, before and after a load, and every few seconds during it.
#
# A sample is one line of ``metrics-samples.jsonl``: ``[unix_time, ["name{labels} value", …]]``.


_RUNNING, _WAITING = "num_requests_running", "num_requests_waiting"
_GENERATED = "generation_tokens"
#: Series that are kept of each sample, whatever the engine calls them; histograms and cache details
#: stay in the two snapshots.
_KEPT = frozenset({
    *(_RUNNING, _WAITING, _GENERATED, "kv_cache_usage_perc", "num_preemptions", "prompt_tokens"),
    *("spec_decode_num_drafts", "spec_decode_num_draft_tokens"),
    *("spec_decode_num_accepted_tokens", "spec_decode_num_accepted_tokens_per_pos"),
})  # fmt: skip
_TIMEOUT_S = 30.0
#: Seconds to wait for the thread at the end: a sample that hangs is not waited for.
_LEAVE_S = 5.0


def snapshot(url: str) -> str:
    """Return the whole of ``/metrics``. OSError or HTTPException where the server does not
    answer."""
    return endpoint.fetch(f"{url}/metrics", _TIMEOUT_S)


class Sampler:
    """Samples a server from ``with`` on, in a thread of its own, until the block is left.

    A sample that fails is left out: the load itself shows whether the server lives. ``latest`` has
    ``running``, ``waiting`` (requests) and ``tokens_per_s`` (generated, since the sample before), as
    far as they are known.
    """

    def __init__(self, url: str, path: Path, every_s: float) -> None:
        self.latest: dict[str, float] = {}
        self._url, self._path, self._every_s = url, path, every_s
        self._generated: tuple[float, float] | None = None
        self._left = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sampler", daemon=True)

    def __enter__(self) -> Self:
        self._sample()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        # The last sample comes after the block has ended, so that the series spans it.
        self._left.set()
        self._thread.join(_LEAVE_S)
        if not self._thread.is_alive():
            self._sample()

    def _run(self) -> None:
        next_at = time.monotonic() + self._every_s
        while not self._left.wait(max(0.0, next_at - time.monotonic())):
            try:
                self._sample()
            except OSError:
                return  # It cannot be written: the last sample, on leaving, says so.
            # A server that answers slowly must not be asked twice in a row to catch up.
            next_at = max(next_at, time.monotonic()) + self._every_s

    def _sample(self) -> None:
        try:
            lines = kept_lines(endpoint.fetch(f"{self._url}/metrics", _LEAVE_S))
        except endpoint.SILENT:
            return
        at, totals = time.time(), _totals(lines)
        shown = {"running": totals.get(_RUNNING), "waiting": totals.get(_WAITING)}
        if (generated := totals.get(_GENERATED)) is not None:
            if self._generated is not None and at > self._generated[0]:
                then, before = self._generated
                shown["tokens_per_s"] = max(0.0, generated - before) / (at - then)
            self._generated = (at, generated)
        self.latest = {name: value for name, value in shown.items() if value is not None}
        with self._path.open("a", encoding="utf-8") as samples:
            samples.write(json.dumps([at, lines]) + "\n")


def kept_lines(metrics: str) -> list[str]:
    """Return the lines of ``/metrics`` that a sample keeps."""
    return [line for line in metrics.splitlines() if _name(line) in _KEPT]


def _name(line: str) -> str:
    engine, _, name = line.partition("{")[0].partition(" ")[0].partition(":")
    return one_name(engine, name) if engine in ENGINES else ""


def _totals(lines: Iterable[str]) -> dict[str, float]:
    # The value of each metric by name, summed over engines. A value that is no number is
    # passed over.
    totals: dict[str, float] = {}
    for line in lines:
        with contextlib.suppress(ValueError):
            value = float(line.rpartition(" ")[2])
            totals[_name(line)] = totals.get(_name(line), 0.0) + value
    return totals


# --- One load point: GuideLLM is run, watched, and its report is counted.


#: How long GuideLLM may take beyond the load's own time limit: its start, and writing the report.
_GRACE_S = 300.0
_POLL_S = 0.2
_LAST_LINES = 5


def run_load(
    argv: Sequence[str],
    env: Mapping[str, str],
    log: Path,
    max_seconds: float,
    cpus: frozenset[int] | None,
    watch: Callable[[], Diagnosis | None],
) -> Diagnosis | None:
    """Run GuideLLM to its end. Return None if it ended by itself with status 0, else what went
    wrong.

    ``watch`` is called several times a second; what it finds ends the load at once.
    """
    ends_at = time.monotonic() + max_seconds + _GRACE_S
    with Guarded.start(argv, env, log, cpus=cpus) as process:
        while (status := process.poll()) is None:
            problem = watch()
            if problem is not None:
                return problem
            if time.monotonic() >= ends_at:
                return Diagnosis(
                    "load_hangs",
                    f"GuideLLM did not end within {_GRACE_S:.0f} s of its limit of "
                    f"{max_seconds:g} s; it was stopped.",
                )
            time.sleep(_POLL_S)
    if status == 0:
        return None
    with log.open("rb") as file:
        file.seek(max(0, file.seek(0, 2) - 400 * _LAST_LINES))
        lines = file.read().decode("utf-8", "replace").splitlines()[-_LAST_LINES:]
    output = " / ".join(line.strip() for line in lines if line.strip())
    sentence = f"GuideLLM ended with exit status {status}; it said: {output[-500:]}"
    return Diagnosis("load_failed", sentence)


class _Request(msgspec.Struct, gc=False):
    info: dict[str, Any] = {}


class _Requests(msgspec.Struct, gc=False):
    errored: list[_Request] | None = None


class _Scheduled(msgspec.Struct, gc=False):
    requests_made: dict[str, int | None]


class _Benchmark(msgspec.Struct, gc=False):
    scheduler_metrics: _Scheduled
    requests: _Requests


class _Report(msgspec.Struct, gc=False):
    benchmarks: list[_Benchmark]


def judge(report: Path, planned: int, max_error_rate: float) -> Diagnosis | None:
    """Count the requests of a report with one level, warm-up and cool-down included. Return None if
    at most ``max_error_rate`` of the planned ones are missing or failed, else what is wrong."""
    try:
        levels = msgspec.json.decode(report.read_bytes(), type=_Report).benchmarks
    except FileNotFoundError:
        return Diagnosis("no_report", "GuideLLM ended without writing a report.")
    except (OSError, msgspec.DecodeError) as error:
        return Diagnosis("no_report", f"GuideLLM's report cannot be read: {error}.")
    if len(levels) != 1:
        return Diagnosis("no_report", f"GuideLLM's report has {len(levels)} levels instead of one.")
    made = levels[0].scheduler_metrics.requests_made
    names = ("successful", "errored", "incomplete")
    successful, errored, incomplete = (made.get(name) or 0 for name in names)
    if planned - successful <= max_error_rate * planned:
        return None
    why = f"{errored} failed, {incomplete} were cut off"
    errors = (request.info.get("error") for request in levels[0].requests.errored or [])
    if first := next((error for error in errors if error), None):
        why += f"; the first error: {first[:200]}"
    return Diagnosis(
        "incomplete", f"Only {successful} of {planned} requests were completed ({why})."
    )
