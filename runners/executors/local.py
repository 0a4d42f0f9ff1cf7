"""Launches side by side on the GPUs of this machine, each on GPUs of its own.

Off by default, because neighbours disturb each other through the processor, the memory and the
power that they share; each record says how many ran side by side.
"""

import os
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from runners.executors import Job, Outcome, State, Update, gpus_needed, last_line
from runners.executors.placement import EXECUTOR, PARALLEL
from runners.executors.settings import LocalSettings
from runners.measuring.layout import Layout
from runners.planning.plan import Launch, Plan
from runners.serving.processes import Guarded
from runners.surroundings.gpu import survey, visible
from warehouse.errors import RunnerError

_LOOK_S = 0.5
#: A launch that is asked to end stops its server first.
_GRACE_S = 60.0


@dataclass(frozen=True)
class Local:
    """The executor for ``--parallel``."""

    settings: LocalSettings

    def run(self, plan: Plan, job: Job) -> Outcome:
        """Run the launches in the plan's order, as many at a time as fit.

        RunnerError where one needs more GPUs than there are. However this ends, nothing that it
        started is left.
        """
        gpus = self._gpus(plan, job)
        side = _Side(plan, job, self.settings.parallel, list(gpus))
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
            seen = survey()
            listed = os.environ.get("CUDA_VISIBLE_DEVICES")
            names = None if listed is None else listed.split(",")
            count = len(visible(seen, os.environ))
            found = tuple(str(i) for i in range(count)) if names is None else tuple(names[:count])
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
    """What runs, what waits, and which GPUs are free."""

    plan: Plan
    job: Job
    parallel: int
    free: list[str]
    running: list[_Running] = field(default_factory=list)
    done: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)

    def run(self) -> None:
        waiting = list(self.job.launches)
        while waiting or self.running:
            while waiting and self._fits(waiting[0]):
                self._start(waiting.pop(0))
            time.sleep(_LOOK_S)
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
        self.running.remove(one)
        self.free = sorted(self.free + one.gpus)
        name = one.launch.launch_id
        if status == 0:
            self.done.append(name)
            self._say(one.launch, "done", "")
        else:
            last = last_line(self._log(one.launch)) or "nothing printed"
            self.failed[name] = f"it ended with exit status {status}; last line: {last}"
            self._say(one.launch, "failed", self.failed[name])

    def _log(self, launch: Launch) -> Path:
        layout = Layout(self.job.results.absolute(), self.plan.study.name)
        return layout.root / "logs" / f"{launch.launch_id}.run.log"

    def _say(self, launch: Launch, state: State, detail: str) -> None:
        self.job.report(Update(launch.launch_id, state, detail))
