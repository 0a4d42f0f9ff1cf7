"""Launches side by side on the GPUs of this machine, each on GPUs of its own.

Neighbours disturb each other through the processor, the memory and the power that they share; each
record says who ran beside it.
"""

import json
import os
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from runners.executors import Job, Outcome, State, Update, gpus_needed, last_line
from runners.executors.placement import EXECUTOR, PARALLEL
from runners.executors.settings import LocalSettings
from runners.measuring.resume import Now, look
from runners.planning.estimate import Node, allowed, pack
from runners.planning.plan import Launch, Plan
from runners.planning.study import Study
from runners.serving.processes import Guarded
from runners.surroundings.layout import RECORD, Layout
from runners.surroundings.machine import Gpu, Survey, answering, offered, survey
from warehouse.errors import RunnerError

_EVERY_S = 4.0


@dataclass
class Told:
    """Looks into the results folder every few seconds and tells each good cell once."""

    plan: Plan
    job: Job
    _known: set[str] = field(default_factory=set)
    _looked: float = field(default_factory=time.monotonic)

    def look(self, at_once: bool = False) -> None:
        """Tell each cell that became good since the last look, with the seconds that its record
        says it took."""
        now = time.monotonic()
        if now - self._looked < _EVERY_S and not at_once:
            return
        self._looked = now
        layout = Layout(self.job.results.absolute(), self.plan.study.name)
        cells = [cell for each in self.job.launches for cell in each.cells]
        unknown = [cell for cell in cells if cell.key not in self._known]
        found = look(self.plan, layout, unknown, Now(self.job.software))
        for cell in found.good:
            self._known.add(cell.key)
            self.job.measured(cell, _seconds(found.states[cell.key].folder))


def _seconds(folder: Path | None) -> float:
    """Return how long a good cell took; 0 where its record does not say."""
    if folder is None:
        return 0.0
    timeline = json.loads((folder / RECORD).read_bytes()).get("timeline")
    return float(timeline.get("total", 0.0)) if isinstance(timeline, dict) else 0.0


_LOOK_S = 0.5
#: A launch that is asked to end stops its server first.
_GRACE_S = 60.0


@dataclass(frozen=True)
class Local:
    """The executor for several launches at a time."""

    settings: LocalSettings

    def run(self, plan: Plan, job: Job) -> Outcome:
        """Run the launches in the plan's order, as many at a time as fit.

        RunnerError where one needs more GPUs than there are. However this ends, nothing that it
        started is left.
        """
        gpus = self._gpus(plan, job)
        side = _Side(plan, job, self.settings.parallel or len(job.launches), list(gpus))
        try:
            side.run()
        finally:
            side.stop()
        return Outcome(tuple(side.done), tuple(side.failed.items()))

    def _gpus(self, plan: Plan, job: Job) -> Sequence[str]:
        if plan.study.cpus is not None:
            raise RunnerError(
                f"The study {plan.study.name} pins its servers to the same cores, so they cannot "
                "run side by side; leave --parallel out."
            )
        needed = max((gpus_needed(plan.study, launch) for launch in job.launches), default=0)
        if needed == 0:
            return ()
        found = self.settings.gpus
        if found is None:
            found = tuple(name for name, _ in offered(survey(), os.environ))
        if len(found) < needed:
            raise RunnerError(
                f"A launch needs {needed} GPUs and this machine offers {len(found)}; name them with "
                "--gpus, or run it elsewhere (--on slurm, --on ray)."
            )
        return found


@dataclass
class _Running:
    launch: Launch
    process: Guarded
    gpus: list[str]


@dataclass
class _Side:
    """Launches side by side on this machine: what runs, what waits, and which GPUs are free."""

    plan: Plan
    job: Job
    parallel: int
    free: list[str]
    running: list[_Running] = field(default_factory=list)
    done: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.told = Told(self.plan, self.job)

    def run(self) -> None:
        waiting = list(self.job.launches)
        while waiting or self.running:
            while waiting and self._fits(waiting[0]):
                self._start(waiting.pop(0))
            if waiting and not self.running:
                self._give_up(waiting.pop(0))
                continue
            time.sleep(_LOOK_S)
            self.told.look()
            for one in [r for r in self.running if r.process.poll() is not None]:
                self._close(one)

    def stop(self) -> None:
        """End all running launches at the same time."""
        with ThreadPoolExecutor(max_workers=self.parallel) as threads:
            list(threads.map(lambda one: one.process.stop(_GRACE_S), self.running))

    def _fits(self, launch: Launch) -> bool:
        """Return whether the next launch of the plan can start now. A smaller one behind it does
        not overtake: its neighbours would differ."""
        needed = gpus_needed(self.plan.study, launch)
        return len(self.running) < self.parallel and len(self.free) >= needed

    def _start(self, launch: Launch) -> None:
        needed = gpus_needed(self.plan.study, launch)
        taken, self.free = self.free[:needed], self.free[needed:]
        marks = {EXECUTOR: "local", PARALLEL: str(self.parallel)}
        if taken:
            marks["CUDA_VISIBLE_DEVICES"] = ",".join(taken)
        log = self._log(launch)
        process = Guarded.start(self.job.command(launch), {**os.environ, **marks}, log)
        self.running.append(_Running(launch, process, taken))
        self._say(launch, "running", f"on GPU {', '.join(taken)}" if taken else "")

    def _close(self, one: _Running) -> None:
        status = one.process.poll()
        one.process.stop(0.0)
        self.told.look(at_once=True)
        self.running.remove(one)
        left = one.gpus if status == 0 or not one.gpus else answering(survey(), one.gpus)
        self.free = sorted(self.free + left)
        name = one.launch.launch_id
        if status == 0:
            self.done.append(name)
            self._say(one.launch, "done", "")
        else:
            last = last_line(self._log(one.launch)) or "nothing printed"
            self.failed[name] = f"it ended with exit status {status}; last line: {last}"
            self._say(one.launch, "failed", self.failed[name])

    def _give_up(self, launch: Launch) -> None:
        """Fail a launch for which too many GPUs are gone."""
        needed = gpus_needed(self.plan.study, launch)
        why = f"it needs {needed} GPUs, and {len(self.free)} are left that answer their driver"
        self.failed[launch.launch_id] = why
        self._say(launch, "failed", why)

    def _log(self, launch: Launch) -> Path:
        layout = Layout(self.job.results.absolute(), self.plan.study.name)
        return layout.root / "logs" / f"{launch.launch_id}.run.log"

    def _say(self, launch: Launch, state: State, detail: str) -> None:
        self.job.report(Update(launch.launch_id, state, detail))


#: A card that nobody uses still holds some memory for its driver.
_FREE_MEMORY = 0.95


def spread(
    study: Study, launches: Sequence[Launch], found: Survey, env: Mapping[str, str]
) -> Local | None:
    """Return an executor that runs launches side by side on GPUs that are free now; None where only
    one fits at a time, or where the study keeps its servers apart."""
    if fitting(study, launches, found, env) < 2:
        return None
    free = _free(found, env)
    return Local(LocalSettings(parallel=min(len(launches), len(free)), gpus=free))


def fitting(study: Study, launches: Sequence[Launch], found: Survey, env: Mapping[str, str]) -> int:
    """Return how many of the launches fit side by side on GPUs that are free now; 1 where the study
    keeps its servers apart."""
    free = _free(found, env)
    if not allowed(study) or len(launches) < 2:
        return 1
    if max(gpus_needed(study, launch) for launch in launches) > len(free):
        return 1
    return pack(study, [(launch, 1.0) for launch in launches], Node(len(free))).at_once


def _free(found: Survey, env: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(name for name, gpu in offered(found, env) if _is_free(gpu))


def _is_free(gpu: Gpu) -> bool:
    """Return whether nobody computes on the GPU and its memory is empty; one that does not answer
    is not free."""
    if gpu.memory_bytes is None or gpu.free_bytes is None or gpu.mig:
        return False
    return not gpu.processes and gpu.free_bytes >= _FREE_MEMORY * gpu.memory_bytes
