"""Launches as Slurm jobs: one job for each server launch, requeued by Slurm when its node is lost.

Nothing here depends on a job's exit status being remembered: what a launch has measured lies in the
results folder, and a job that starts again goes on with the cells that are missing.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from runners.executors import Job, Outcome, Silent, gpus_needed, last_line
from runners.executors.settings import SlurmSettings
from runners.executors.slurm_commands import (
    SlurmJob,
    Submission,
    cancel,
    jobs_of_mine,
    submit,
)
from runners.executors.waiting import SlurmBook, Waiting
from runners.planning.plan import Plan
from runners.surroundings.layout import Layout
from warehouse.errors import RunnerError

#: A shared file system may show a finished cell some seconds after the job's end.
_SETTLE_S = 15.0
_FAILURES = {
    "CANCELLED": "its job {job} was cancelled",
    "TIMEOUT": "its job {job} reached its time limit; run the same command again to go on, or give "
    "it more with --time",
    "OUT_OF_MEMORY": "its job {job} took more memory than Slurm allowed it; give it more in the "
    "cluster options (slurm: memory)",
    "NODE_FAIL": "the node of its job {job} was lost and Slurm did not requeue it",
}


@dataclass(frozen=True)
class Slurm:
    """The executor for Slurm. ``wait=False`` submits and returns."""

    settings: SlurmSettings = SlurmSettings()
    wait: bool = True

    def run(self, plan: Plan, job: Job) -> Outcome:
        """Submit what does not run yet and wait for it.

        Jobs of an earlier command are waited for, not submitted again. Ctrl-C ends the waiting
        only: the jobs go on. RunnerError with Slurm's words if it refuses one; then none of those
        that were submitted here is left.
        """
        book = SlurmBook(Layout(job.results.absolute(), plan.study.name))
        with book.locked():
            jobs = self._submit(plan, job, book)
        return _Watch(plan, job, book, jobs).through(self.wait, self.settings.poll_s)

    def _submit(self, plan: Plan, job: Job, book: SlurmBook) -> dict[str, str]:
        """Submit what does not run yet; return the job numbers by launch, for all launches of the
        job."""
        running = {name: found.job_id for name, found in _active(book).items()}
        new: dict[str, str] = {}
        try:
            for launch in job.launches:
                if launch.launch_id not in running:
                    submission = Submission(
                        name=book.name(launch.launch_id),
                        command=job.command(launch),
                        gpus=gpus_needed(plan.study, launch),
                        output=book.log(launch.launch_id),
                        folder=job.study.absolute().parent,
                    )
                    new[launch.launch_id] = submit(submission, self.settings)
        except BaseException:
            cancel(list(new.values()))
            raise
        book.write(book.read() | new)
        wanted = {launch.launch_id for launch in job.launches}
        return {name: number for name, number in (running | new).items() if name in wanted}


def _active(book: SlurmBook) -> dict[str, SlurmJob]:
    try:
        known = book.mine(jobs_of_mine())
    except Silent as error:
        raise RunnerError(f"{error}; check the cluster with `sinfo`, then run it again.") from None
    return {launch: job for launch, job in known.items() if not job.over}


@dataclass
class _Watch(Waiting):
    book: SlurmBook
    gone_at: dict[str, float] = field(default_factory=dict)

    def ask(self) -> Mapping[str, SlurmJob]:
        return self.book.mine(jobs_of_mine())

    def look_at(self, launch_id: str, found: SlurmJob | None) -> None:
        number = self.jobs[launch_id]
        if found is None or found.over:
            self._close(launch_id, found)
        elif found.never:
            cancel([number])
            self.fail(launch_id, f"Slurm can never start it ({found.reason}), so it was cancelled")
        elif found.state == "PENDING":
            self.say([launch_id], "waiting", f"job {number}: {found.reason}")
        else:
            good, total = self.cells(launch_id)
            where = f"job {number} on {found.nodes or 'its node'}"
            self.say([launch_id], "running", f"{where}, {good} of {total} cells")

    def _close(self, launch_id: str, found: SlurmJob | None) -> None:
        """Close a launch whose job is over, or forgotten by Slurm: the results say what it did."""
        good, total = self.cells(launch_id)
        since = self.gone_at.setdefault(launch_id, time.monotonic())
        settled = time.monotonic() - since > _SETTLE_S
        # Exit status 0 is the launch's own word for it.
        word = found is not None and found.state == "COMPLETED"
        if good == total or (word and settled):
            self.done.append(launch_id)
            self.say([launch_id], "done", f"{good} of {total} cells")
        elif settled or (found is not None and not word):
            self.fail(launch_id, self._why(launch_id, found))

    def _why(self, launch_id: str, found: SlurmJob | None) -> str:
        good, total = self.cells(launch_id)
        usual = f"its job {{job}} ended with {total - good} of {total} cells missing"
        state = "" if found is None else found.state
        said = _FAILURES.get(state, usual).format(job=self.jobs[launch_id])
        last = last_line(self.book.log(launch_id))
        return f"{said}; the last line of {self.book.log(launch_id)}: {last or 'nothing printed'}"
