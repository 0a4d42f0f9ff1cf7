"""One launch: a server, and its cells one after the other. What fails is recorded, the rest goes on."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from filelock import FileLock, Timeout

from runners.executors.placement import placement
from runners.measuring.attempt import Attempt
from runners.measuring.cell import Bench, record_unstarted, run_cell
from runners.measuring.layout import Layout
from runners.planning.plan import Launch, PlannedCell
from runners.serving.diagnosis import Diagnosis
from runners.serving.server import ServerFailed
from runners.surroundings.host import Host
from warehouse.errors import RunnerError

_ENDING_S = 180


@dataclass(frozen=True)
class Failed:
    """A cell that is not good after all its attempts."""

    cell: PlannedCell
    problem: Diagnosis
    no_server: bool = False
    """Whether its launch was given up, so that nothing of the cell itself was tried."""


@contextmanager
def holding(layout: Layout, launch: Launch) -> Iterator[None]:
    """Hold the launch's lock, so that only one command at a time measures it. Raises
    RunnerError.

    On a cluster a launch that is started again can meet the one still ending on a lost node.
    """
    patience = 0 if placement()["executor"] == "local" else _ENDING_S
    path = layout.lock(launch.launch_id)
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with FileLock(path, timeout=patience):
            yield
    except Timeout:
        raise RunnerError(
            f"Another run is measuring {launch.launch_id} in {layout.root}; wait for it or end it."
        ) from None


def run_cells(bench: Bench, host: Host, cells: Sequence[PlannedCell]) -> list[Failed]:
    """Measure cells on one server, each as often as the study allows. Return those that failed."""
    settled = ((cell, _settle(bench, host, cell)) for cell in cells)
    return [
        Failed(cell, problem, host.given_up is not None)
        for cell, problem in settled
        if problem is not None
    ]


def _settle(bench: Bench, host: Host, cell: PlannedCell) -> Diagnosis | None:
    problem = None
    for left in reversed(range(bench.study.limits.retries + 1)):
        began = time.monotonic()
        problem = _attempt(bench, host, cell)
        if problem is not None:
            host.doubt(problem)
        last = problem is None or left == 0 or host.given_up is not None
        said = None if problem is None else problem.sentence
        bench.progress.measured(cell, time.monotonic() - began, said, last)
        if last:
            break
    return problem


def _attempt(bench: Bench, host: Host, cell: PlannedCell) -> Diagnosis | None:
    number = bench.layout.attempts(cell.key) + 1
    try:
        server = host.up()
    except ServerFailed as error:
        attempt = Attempt(number)
        record_unstarted(bench, cell, attempt, error.diagnosis, error.log_tail)
        return error.diagnosis
    bench.progress.measuring(cell, number)
    said = host.notes(), host.configuration(), host.changed
    return run_cell(bench, server, cell, Attempt(number, host.start_s(), *said))
