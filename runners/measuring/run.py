"""A run: what is missing of a study is measured, launch by launch, here or by an executor.

A launch is a server, and its cells one after the other. What fails is recorded, the rest goes on.
"""

import os
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace

from filelock import FileLock, Timeout

from runners.measuring import guidellm, resume
from runners.measuring.cell import LaunchBench, run_cell, warm_up
from runners.measuring.hosts import PASSING, Host, LocalHost, meet
from runners.measuring.progress import FailedCell, Progress
from runners.measuring.record import LaunchSetting, local_setting, remote_setting, runs_on_gpu
from runners.measuring.resume import StudyRun
from runners.planning.datasets import Dataset
from runners.planning.loads import SWEEP
from runners.planning.plan import Launch, PlannedCell
from runners.serving.diagnosis import Diagnosis
from runners.serving.processes import end_strays
from runners.serving.server import ServerFailed, near_gpus, server_spec, used_gpus
from runners.surroundings.layout import REPORT, STUDY, Layout, fresh_folder
from runners.surroundings.machine import placement
from runners.texts.loads import ends_of_report, freeze, unknown_sweeps
from runners.watching.watch import watching
from warehouse.errors import RunnerError

#: How long a launch on a cluster waits for one that is still ending on a lost node.
_ENDING_S = 180
_LOOPBACK = "127.0.0.1,localhost"


def run_here(run: StudyRun, progress: Progress) -> list[FailedCell]:
    """Measure what is missing, one launch after the other, in this process."""
    end_strays()  # Of a run that was killed together with what watched over its server.
    run = _with_rates(run, progress)
    launches = [*run.missing_launches()]
    for cell in (cell for launch in launches for cell in launch.cells):
        run.prompts.of(cell)  # Too few prompts are said before any server starts.
    failed = _run_launches(run, launches, progress)
    passing = {each.cell.key for each in failed
               if each.no_server and each.problem.cause in PASSING}  # fmt: skip
    again = [launch for launch in run.missing_launches()
             if any(cell.key in passing for cell in launch.cells)]  # fmt: skip
    if not again or len(again) == len(launches):
        return failed  # With no other launch in between, nothing can have passed.
    names = ", ".join(launch.launch_id for launch in again)
    progress.say(f"{names}: no server came up; once more, now that the others are done")
    retried = {cell.key for launch in again for cell in launch.cells}
    left = [each for each in failed if each.cell.key not in retried]
    return left + _run_launches(run, again, progress)


def _run_launches(
    run: StudyRun, launches: Sequence[Launch], progress: Progress
) -> list[FailedCell]:
    # Measure the cells of these launches, each as often as the study allows. Return those
    # that failed.
    failed = []
    for launch in launches:
        with _opened(run, launch, progress) as (bench, host):
            # Another run may have measured some of them while this one waited for its turn.
            found = resume.look(run.plan, run.layout, launch.cells, run.now)
            changed = (found.states[cell.key].folder for cell in found.changed)
            resume.set_aside(changed, run.layout)
            for cell in found.to_run:
                problem = _settle(bench, host, cell)
                if problem is not None:
                    failed.append(FailedCell(cell, problem, host.given_up is not None))
    return failed


def _settle(bench: LaunchBench, host: Host, cell: PlannedCell) -> Diagnosis | None:
    problem = None
    for tries_left in reversed(range(bench.study.limits.retries + 1)):
        began = time.monotonic()
        problem = run_cell(bench, host, cell)
        if problem is not None:
            host.doubt(problem)
        last = problem is None or tries_left == 0 or host.given_up is not None
        sentence = None if problem is None else problem.sentence
        bench.progress.measured(cell, time.monotonic() - began, sentence, last)
        if last:
            break
    return problem


@contextmanager
def _opened(
    run: StudyRun, launch: Launch, progress: Progress
) -> Iterator[tuple[LaunchBench, Host]]:
    # Hold a launch, watch the machine, and ask what it is while the server starts.
    study, url, layout = run.plan.study, run.target_url, run.layout
    # GPUs of somebody else's server are not here; where it is not known which it gets, all count.
    elsewhere = url is not None or not runs_on_gpu(study)
    gpus = () if elsewhere else [gpu.index for gpu in used_gpus(study, launch)] or None
    near = None if url is not None or study.cpus is not None else near_gpus(study, launch)
    cores = None if near is None else near.cores
    copy = layout.root / STUDY
    with (
        _holding(layout, launch),
        ThreadPoolExecutor(1) as pool,
        watching(layout.nodes, layout.study, launch.launch_id, gpus) as watch,
    ):
        setting: Future[LaunchSetting]
        if url is None:
            spec = server_spec(study, launch, layout)
            host: Host = LocalHost(spec, launch, study, progress)
            setting = pool.submit(local_setting, study, launch, spec.argv)
        else:
            host = remote = meet(url, study, launch)
            setting = pool.submit(remote_setting, study, launch, remote.known())
        # A proxy must not stand between the load generator and a server on this machine.
        env = {**os.environ, **study.environment}
        direct = ",".join(filter(None, [env.get("NO_PROXY") or env.get("no_proxy"), _LOOPBACK]))
        executable = study.executable("guidellm") or study.executables.guidellm
        try:
            yield LaunchBench(
                run, launch, progress, watch, setting,
                guidellm=(executable, guidellm.version(study)),
                env=env | {"NO_PROXY": direct, "no_proxy": direct},
                # The study's, else those of the server that it talks to.
                cpus=cores if study.cpus is None else frozenset(study.cpus.client),
                study_text=copy.read_text(encoding="utf-8") if copy.exists() else "",
            ), host  # fmt: skip
        finally:
            host.stop()


@contextmanager
def _holding(layout: Layout, launch: Launch) -> Iterator[None]:
    # Hold the launch's lock, so that only one command at a time measures it. Raises
    # RunnerError. On a cluster a launch that is started again can meet the one still ending
    # on a lost node.
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


# --- A sweep: what the baseline serves one by one and all at once, before any cell is measured.


def _with_rates(run: StudyRun, progress: Progress) -> StudyRun:
    # Find the rates of sweeps that nobody found yet, each on a baseline's server of its own.
    missing = unknown_sweeps(run.plan.study, run.layout.results)
    if not missing:
        return run
    if run.target_url is not None:
        first = next(run.missing_launches(), None)
        if first is None or not first.variant.is_baseline:
            raise RunnerError(
                "The rates of the sweep are not known yet: run the cells of the baseline first."
            )
    for size in dict.fromkeys(size for _, size in missing):
        baseline = next((launch for launch in run.plan.launches if launch.variant.is_baseline
                         and launch.tensor_parallel_size == size), None)  # fmt: skip
        if baseline is None:
            raise RunnerError(
                "The rates of a sweep are found on the baseline, and the study measures none at "
                f"tensor parallel size {size}; add an arm without speculative_config, or name rates "
                "yourself."
            )
        with _opened(run, baseline, progress) as (bench, host):
            for dataset in (dataset for dataset, n in missing if n == size):
                _find_rates(bench, host, dataset)
    return run.replanned()


def _find_rates(bench: LaunchBench, host: Host, dataset: Dataset) -> None:
    # Sweep the launch's server over a dataset and freeze what was found. Raises RunnerError.
    first, run, study = bench.launch.cells[0], bench.run, bench.study
    size = first.tensor_parallel_size
    cell = replace(
        first, key=f"rates/{dataset.name}-tp{size}", dataset=dataset.name, level=SWEEP,
        prompts=dataset.prompts_at(SWEEP),
    )  # fmt: skip
    try:
        server = host.up()
    except ServerFailed as error:
        raise RunnerError(f"No server for the sweep: {error.diagnosis.sentence}") from None
    with fresh_folder(run.layout.partial(cell.key)) as folder:
        warm_up(server.url, study, cell, run.prompts.of(cell))
        report, limit_s = folder / REPORT, 2 * study.limits.cell_s
        _, problem = bench.load(server.url, cell, report, server.died, limit_s)
        if problem is not None:
            raise RunnerError(f"The sweep on {cell.arm} failed: {problem.sentence}")
        ends = ends_of_report(report, cell.arm, run.now.software.name)
    freeze(study, run.layout.results, dataset.name, size, ends)
    bench.progress.say(
        f"{dataset.name} at TP {size}: {cell.arm} serves {ends.one_by_one:.3g} requests/s one by one "
        f"and {ends.all_at_once:.3g} all at once; rates are frozen between"
    )
