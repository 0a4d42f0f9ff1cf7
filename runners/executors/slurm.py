"""Launches as Slurm jobs: one job for each server launch, requeued by Slurm when its node is lost.

Nothing here depends on a job's exit status being remembered: what a launch has measured lies in the
results folder, and a job that starts again goes on with the cells that are missing. Works with Slurm
22.05 and newer, without accounting: only sbatch, squeue and scancel are called.
"""

import shlex
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from runners.executors import (
    ExecutorJob,
    ExecutorOutcome,
    Queue,
    Scheduler,
    Silent,
    Submitted,
    Update,
    call,
    good_cells,
    last_printed,
    run_launches,
)
from runners.executors.settings import SlurmSettings
from runners.planning.plan import Launch, Plan, gpus_needed
from runners.surroundings.layout import Layout
from warehouse.errors import RunnerError

_INSTALL = "run this on a node of the Slurm cluster from which jobs are submitted"
#: States after which a job does nothing any more (squeue's long names).
_OVER = {
    "BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY",
    "PREEMPTED", "REVOKED", "TIMEOUT",
}  # fmt: skip
#: Reasons for waiting that no other job's end will change.
_NEVER = {
    "AccountNotAllowed", "BadConstraints", "InvalidAccount", "InvalidQOS", "PartitionNodeLimit",
    "PartitionTimeLimit", "QOSNotAllowed", "launch failed requeued held",
}  # fmt: skip
_FAILURES = {
    "cancelled": "its job {job} was cancelled",
    "timeout": "its job {job} reached its time limit; run the same command again to go on, or give "
    "it more with --time",
    "out_of_memory": "its job {job} took more memory than Slurm allowed it; give it more in the "
    "cluster options (slurm: memory)",
    "node_fail": "the node of its job {job} was lost and Slurm did not requeue it",
}


@dataclass(frozen=True)
class SlurmQueue(Queue):
    """Which Slurm job measures which launch.

    Slurm forgets a job minutes after its end, and a job's number alone does not say what it is for.
    A number may also be given again after years or a new installation, so a job counts as ours only
    if it bears our name too.
    """

    scheduler, shown_by = "slurm", "squeue --me"

    def numbers(self) -> dict[str, str]:
        """Return launch -> job number, of all that were submitted."""
        return (self.read(dict[str, dict[str, str]]) or {}).get("jobs", {})

    def name(self, launch_id: str) -> str:
        """Return the name that a launch's job bears in squeue."""
        return f"{self.layout.study}:{launch_id}"

    def listed(self) -> dict[str, Submitted]:
        """Return the jobs that Slurm still knows, by launch. Raises Silent."""
        words = ("squeue", "--me", "--states=all", "--noheader", "--format=%i|%T|%N|%r|%j")
        done = call(words, _INSTALL)
        if done.returncode != 0:
            raise Silent(f"squeue did not answer: {_words(done.stderr)}")
        # Those that ended a few minutes ago included.
        lines = [line.strip() for line in done.stdout.splitlines() if line.count("|") >= 4]
        launches = {
            (number, self.name(launch)): launch for launch, number in self.numbers().items()
        }
        return {
            launches[number, name]: Submitted(
                number, state.lower(), nodes or reason, over=state in _OVER,
                never=state == "PENDING" and reason in _NEVER,
            )
            for number, state, nodes, reason, name in (line.split("|", 4) for line in lines)
            if (number, name) in launches
        }  # fmt: skip

    def submitted(self) -> Mapping[str, Submitted]:
        """Return the jobs that Slurm still knows, and those that it has forgotten, by launch."""
        forgotten = {
            launch: Submitted(number, "ended", over=True)
            for launch, number in self.numbers().items()
        }
        return forgotten | self.listed()

    def cancel(self, jobs: Sequence[str]) -> None:
        """End jobs; those that are over already are left. RunnerError with Slurm's own words."""
        if jobs and (done := call(["scancel", *jobs], _INSTALL)).returncode != 0:
            raise RunnerError(f"Slurm did not cancel {', '.join(jobs)}: {_words(done.stderr)}.")


@dataclass(frozen=True)
class Slurm:
    """The executor for Slurm. ``wait=False`` submits and returns."""

    settings: SlurmSettings = SlurmSettings()
    wait: bool = True

    def run(self, plan: Plan, job: ExecutorJob) -> ExecutorOutcome:
        """Submit what does not run yet and wait for it.

        Jobs of an earlier command are waited for, not submitted again. Ctrl-C ends the waiting
        only: the jobs go on. RunnerError with Slurm's words if it refuses one; then none of those
        that were submitted here is left.
        """
        layout = Layout(job.results.absolute(), plan.study.name)
        scheduler = _SlurmScheduler(layout, plan, job, self.settings)
        return run_launches(scheduler, job, self.settings.poll_s, self.wait)


@dataclass(frozen=True)
class _SlurmScheduler(SlurmQueue, Scheduler):
    plan: Plan
    job: ExecutorJob
    settings: SlurmSettings
    gone_at: dict[str, float] = field(default_factory=dict)
    outlives: ClassVar[bool] = True

    def standing(self) -> Mapping[str, str]:
        return {launch: job.job for launch, job in self.listed().items() if not job.over}

    def submit(self, launch: Launch) -> str:
        gpus, name = gpus_needed(self.plan.study, launch), self.name(launch.launch_id)
        log = self.layout.log(launch.launch_id, self.scheduler)
        folder = self.job.study.absolute().parent
        return submit(name, self.job.command(launch), gpus, log, folder, self.settings)

    def note(self, jobs: Mapping[str, str]) -> None:
        self.write({"jobs": self.numbers() | dict(jobs)})

    def states(self, jobs: Mapping[str, str]) -> Iterator[Update]:
        listed = self.listed()
        for launch_id, number in jobs.items():
            job = listed.get(launch_id)
            if job is None or job.over:
                yield from self._closed(launch_id, number, "" if job is None else job.state)
            elif job.never:
                self.cancel([number])
                why = f"Slurm can never start it ({job.where}), so it was cancelled"
                yield Update(launch_id, "failed", why)
            elif job.state == "pending":
                yield Update(launch_id, "waiting", f"job {number}: {job.where}")
            else:
                good, total = good_cells(self.plan, self.job, launch_id)
                where = f"job {number} on {job.where}, {good} of {total} cells"
                yield Update(launch_id, "running", where)

    def _closed(self, launch_id: str, number: str, state: str) -> Iterator[Update]:
        """Say what became of a launch whose job is over, or forgotten by Slurm (``state`` empty):
        the results say what it did, as soon as they may be trusted to show all of it.
        """
        good, total = good_cells(self.plan, self.job, launch_id)
        since = self.gone_at.setdefault(launch_id, time.monotonic())
        # A shared file system may show a finished cell some seconds after the job's end.
        settled = time.monotonic() - since > 15.0
        # Exit status 0 is the launch's own word for it.
        if good == total or (state == "completed" and settled):
            yield Update(launch_id, "done", f"{good} of {total} cells")
        elif settled or state not in ("", "completed"):
            usual = f"its job {{job}} ended with {total - good} of {total} cells missing"
            why = _FAILURES.get(state, usual).format(job=number)
            log = self.layout.log(launch_id, self.scheduler)
            why = f"{why}; the last line of {log}: {last_printed(log)}"
            yield Update(launch_id, "failed", why)


# --- Slurm's own commands: what is asked of them, and how their answers read.


def submit(
    name: str, command: Sequence[str], gpus: int, log: Path, folder: Path, settings: SlurmSettings
) -> str:
    """Hand a job, to be run in ``folder``, to Slurm and return its number. RunnerError with Slurm's
    own words if it is refused.
    """
    words = sbatch(name, gpus, log, folder, settings)
    done = call(words, _INSTALL, script(command, settings.setup))
    if done.returncode != 0:
        wanted = {0: "no GPU", 1: "1 GPU"}.get(gpus, f"{gpus} GPUs on one node")
        raise RunnerError(
            f"Slurm refused {name} ({wanted}): {_words(done.stderr)}. Change what is "
            "asked for (--partition, --gres, --time, the study's tensor-parallel size)."
        )
    return done.stdout.strip().splitlines()[-1].partition(";")[0]


def sbatch(name: str, gpus: int, log: Path, folder: Path, settings: SlurmSettings) -> list[str]:
    """Return the command line that submits a job; its script comes on standard input."""
    options = {
        "partition": settings.partition,
        "account": settings.account,
        "qos": settings.qos,
        "time": settings.time,
        "gres": f"{settings.gres}:{gpus}" if gpus else None,
        "cpus-per-task": settings.cpus,
        "mem": settings.memory,
        "constraint": settings.constraint,
    }
    return [
        "sbatch", "--parsable", "--requeue", "--open-mode=append", "--nodes=1", "--ntasks=1",
        f"--job-name={name}",
        # Slurm reads % in a file name as the start of a pattern.
        f"--output={str(log).replace('%', '%%')}",
        f"--chdir={folder}",
        *(f"--{option}={value}" for option, value in options.items() if value is not None),
        *settings.arguments,
    ]  # fmt: skip


def script(command: Sequence[str], setup: Iterable[str]) -> str:
    """Return the batch script. ``exec``: Slurm's signals reach the launch itself."""
    return "\n".join(["#!/bin/bash", *setup, f"exec {shlex.join(command)}", ""])


def _words(text: str) -> str:
    lines = (line.partition("error: ")[2] or line for line in text.splitlines())
    words = "; ".join(line.strip() for line in lines if line.strip())
    return words.rstrip(".") or "no reason given"
