"""One launch: a server, and its cells one after the other. What fails is recorded, the rest goes on."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from filelock import FileLock, Timeout

from runners.loads.rates import freeze, of_report
from runners.measuring import load
from runners.measuring.cell import Attempt, Bench, Serving, record_unstarted, run_cell, warm_up
from runners.measuring.guidellm import Places, command, key_environment, load_request
from runners.measuring.layout import REPORT, Layout, fresh_folder
from runners.planning.datasets import Dataset
from runners.planning.loads import SWEEP
from runners.planning.plan import Launch, Plan, PlannedCell
from runners.serving.diagnosis import Diagnosis
from runners.serving.endpoint import scrub
from runners.serving.server import ServerFailed
from runners.surroundings.host import Host
from runners.surroundings.machine import placement
from warehouse.errors import RunnerError

# --- A sweep: what the baseline serves one by one and all at once, before any cell is measured.


def sweeping(plan: Plan, size: int) -> Launch:
    """Return the launch of the baseline on which rates are found. Raises RunnerError where there is
    none."""
    for launch in plan.launches:
        if launch.variant.is_baseline and launch.tensor_parallel_size == size:
            return launch
    raise RunnerError(
        f"The rates of a sweep are found on the baseline, and the study measures none at tensor "
        f"parallel size {size}; add an arm without speculative_config, or name rates yourself."
    )


def find_rates(bench: Bench, host: Host, dataset: Dataset) -> None:
    """Sweep the launch's server over a dataset and freeze what was found. Raises RunnerError."""
    one = bench.launch.cells[0]
    cell = replace(
        one, key=f"rates/{dataset.name}-tp{one.tensor_parallel_size}", dataset=dataset.name,
        level=SWEEP, prompts=dataset.prompts_at(SWEEP),
    )  # fmt: skip
    try:
        server = host.up()
    except ServerFailed as error:
        raise RunnerError(f"No server for the sweep: {error.diagnosis.sentence}") from None
    with fresh_folder(bench.layout.partial(cell.key)) as folder:
        _measure(bench, server, cell, folder)
        found = of_report(folder / REPORT, cell.arm, bench.software.name)
    freeze(bench.study, bench.layout.results, (dataset.name, cell.tensor_parallel_size), found)
    bench.progress.say(
        f"{dataset.name} at TP {cell.tensor_parallel_size}: {cell.arm} serves {found.one_by_one:.3g} "
        f"requests/s one by one and {found.all_at_once:.3g} all at once; rates are frozen between"
    )


def _measure(bench: Bench, server: Serving, cell: PlannedCell, folder: Path) -> None:
    study, prompts = bench.study, bench.prompts.of(cell)
    warm_up(server.url, study, cell, prompts)
    executable, version = bench.guidellm
    key = bench.api_key
    places = Places(server.url, str(prompts.path), str(folder / REPORT), key is not None)
    request = load_request(study, cell, places)
    argv = command(executable, version, request)
    env = bench.env if key is None else {**bench.env, **key_environment(version, request, key)}
    cpus = None if study.cpus is None else frozenset(study.cpus.client)
    log = bench.layout.load_log(bench.launch.launch_id)
    what = load.Invocation(argv, env, log, 2 * study.limits.cell_s, cpus)
    problem = load.run_load(what, server.died)
    if key is not None:
        scrub((log,), key)
    if problem is not None:
        raise RunnerError(f"The sweep on {cell.arm} failed: {problem.sentence}")


# --- One launch: a server, and its cells one after the other. What fails is recorded, the rest goes on.


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
