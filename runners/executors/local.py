"""Launches side by side on the GPUs of this machine, each on GPUs of its own.

Neighbours disturb each other through the processor, the memory and the power that they share; each
record says who ran beside it.
"""

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from runners.executors import (
    ExecutorJob,
    ExecutorOutcome,
    Scheduler,
    Update,
    last_printed,
    run_launches,
)
from runners.executors.settings import LocalSettings
from runners.measuring.resume import Now, look
from runners.planning.estimate import Node, pack
from runners.planning.plan import Launch, Plan, gpus_needed
from runners.planning.study_file import Study
from runners.serving.processes import Guarded
from runners.surroundings.layout import RECORD, Layout, json_object, part
from runners.surroundings.machine import EXECUTOR, PARALLEL, Survey, answering, offered, survey
from warehouse.errors import RunnerError

#: How often good cells are looked for, and how often processes that ended.
_EVERY_S, _LOOK_S = 4.0, 0.5
#: A launch that is asked to end stops its server first.
_GRACE_S = 60.0


@dataclass(frozen=True)
class Local:
    """The executor for several launches at a time."""

    settings: LocalSettings

    def run(self, plan: Plan, job: ExecutorJob) -> ExecutorOutcome:
        """Run the launches in the plan's order, as many at a time as fit.

        RunnerError where one needs more GPUs than there are. However this ends, nothing that it
        started is left.
        """
        if plan.study.cpus is not None:
            raise RunnerError(
                f"The study {plan.study.name} pins its servers to the same cores, so they cannot "
                "run side by side; leave --parallel out."
            )
        needed = max((gpus_needed(plan.study, launch) for launch in job.launches), default=0)
        gpus = self.settings.gpus
        if needed and gpus is None:
            gpus = tuple(name for name, _ in offered(survey(), os.environ))
        free = list(gpus or ()) if needed else []
        if len(free) < needed:
            raise RunnerError(
                f"A launch needs {needed} GPUs and this machine offers {len(free)}; name them with "
                "--gpus, or run it elsewhere (--on slurm, --on ray)."
            )
        parallel = self.settings.parallel or len(job.launches)
        return run_launches(_SideBySide(plan, job, parallel, free), job, _LOOK_S)


@dataclass
class _Running:
    launch: Launch
    process: Guarded
    gpus: list[str]


@dataclass
class _SideBySide(Scheduler):
    plan: Plan
    job: ExecutorJob
    parallel: int
    free: list[str]
    waiting: list[Launch] = field(default_factory=list)
    running: list[_Running] = field(default_factory=list)
    #: Keys of the cells that were told of.
    good: set[str] = field(default_factory=set)
    looked_at: float = field(default_factory=time.monotonic)

    def submit(self, launch: Launch) -> str:
        self.waiting.append(launch)
        return launch.launch_id

    def states(self, jobs: Mapping[str, str]) -> Iterator[Update]:
        """Start the next launches of the plan as far as they fit, and close those that ended. A
        smaller one does not overtake: its neighbours would differ.
        """
        while self.waiting:
            launch = self.waiting[0]
            needed = gpus_needed(self.plan.study, launch)
            if len(self.running) < self.parallel and len(self.free) >= needed:
                yield self._start(launch, needed)
            elif self.running:
                break
            else:
                why = f"it needs {needed} GPUs, and {len(self.free)} are left that answer their driver"
                yield Update(launch.launch_id, "failed", why)
            self.waiting.pop(0)
        if time.monotonic() - self.looked_at >= _EVERY_S:
            self._tell_good_cells()
        for ended in [run for run in self.running if run.process.poll() is not None]:
            yield self._close(ended)

    def cancel(self, jobs: Sequence[str]) -> None:
        """End all running launches at the same time."""
        with ThreadPoolExecutor(max_workers=self.parallel) as threads:
            list(threads.map(lambda run: run.process.stop(_GRACE_S), self.running))

    def _start(self, launch: Launch, needed: int) -> Update:
        taken, self.free = self.free[:needed], self.free[needed:]
        marks = {EXECUTOR: "local", PARALLEL: str(self.parallel)}
        if taken:
            marks["CUDA_VISIBLE_DEVICES"] = ",".join(taken)
        log = self._layout.log(launch.launch_id, "run")
        process = Guarded.start(self.job.command(launch), {**os.environ, **marks}, log)
        self.running.append(_Running(launch, process, taken))
        return Update(launch.launch_id, "running", f"on GPU {', '.join(taken)}" if taken else "")

    def _close(self, ended: _Running) -> Update:
        status, name = ended.process.poll(), ended.launch.launch_id
        ended.process.stop(0.0)
        self._tell_good_cells()
        self.running.remove(ended)
        left = ended.gpus if status == 0 or not ended.gpus else answering(survey(), ended.gpus)
        self.free = sorted(self.free + left)
        if status == 0:
            return Update(name, "done")
        last = last_printed(self._layout.log(name, "run"))
        return Update(name, "failed", f"it ended with exit status {status}; last line: {last}")

    def _tell_good_cells(self) -> None:
        """Tell of each cell that became good since the last look, with the seconds that its record
        says it took.
        """
        self.looked_at = time.monotonic()
        cells = [cell for launch in self.job.launches for cell in launch.cells]
        untold = [cell for cell in cells if cell.key not in self.good]
        found = look(self.plan, self._layout, untold, Now(self.job.software))
        for cell in found.good:
            self.good.add(cell.key)
            folder = found.states[cell.key].folder or self._layout.root
            timeline = part(json_object(folder / RECORD) or {}, "timeline")
            self.job.measured(cell, float(timeline.get("total", 0.0)))

    @property
    def _layout(self) -> Layout:
        return Layout(self.job.results.absolute(), self.plan.study.name)


def spread(
    study: Study, launches: Sequence[Launch], survey: Survey, env: Mapping[str, str]
) -> Local | None:
    """Return an executor that runs launches side by side on GPUs that are free now; None where only
    one fits at a time, or where the study keeps its servers apart."""
    if fitting(study, launches, survey, env) < 2:
        return None
    free = _free(survey, env)
    return Local(LocalSettings(parallel=min(len(launches), len(free)), gpus=free))


def fitting(
    study: Study, launches: Sequence[Launch], survey: Survey, env: Mapping[str, str]
) -> int:
    """Return how many of the launches fit side by side on GPUs that are free now; 1 where the study
    keeps its servers apart."""
    free = _free(survey, env)
    if len(launches) < 2 or max(gpus_needed(study, launch) for launch in launches) > len(free):
        return 1
    return pack(study, [(launch, 1.0) for launch in launches], Node(len(free)))[1]


def _free(survey: Survey, env: Mapping[str, str]) -> tuple[str, ...]:
    # A card that nobody uses still holds some memory for its driver.
    return tuple(
        name
        for name, gpu in offered(survey, env)
        if gpu.memory_bytes is not None
        and gpu.free_bytes is not None
        and not (gpu.mig or gpu.processes)
        and gpu.free_bytes >= 0.95 * gpu.memory_bytes
    )
