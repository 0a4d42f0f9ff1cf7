"""What was submitted of a study, on Slurm or Kubernetes: asked, ended and read in one way."""

import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from runners.executors import Silent, slurm_commands
from runners.executors import kubernetes_commands as kubectl
from runners.executors.waiting import KubernetesBook, SlurmBook
from runners.surroundings.layout import Layout
from warehouse.errors import RunnerError

_LOOK_S = 1.0


@dataclass(frozen=True)
class Submitted:
    """What was submitted for one launch. ``where``: its node, or why it waits or failed."""

    job: str
    state: str
    where: str = ""
    over: bool = False


class Queue(Protocol):
    """The jobs of one study."""

    def all(self) -> Mapping[str, Submitted]:
        """Return what was submitted, by launch. Raises RunnerError where nobody answers."""
        ...

    def cancel(self, jobs: Sequence[str]) -> None:
        """End jobs. Raises RunnerError."""
        ...

    def log(self, launch_id: str, lines: int) -> list[str] | None:
        """Return what a launch printed last; None where it has not started."""
        ...

    def follow(self, launch_id: str) -> Iterator[str]:
        """Return an iterator over what a launch prints from now on."""
        ...


def queue_of(layout: Layout) -> Queue:
    """Return the queue to which the study was last submitted; Slurm where it was never."""
    kubernetes, slurm = KubernetesBook(layout), SlurmBook(layout)
    if not kubernetes.path.exists():
        return SlurmQueue(slurm)
    newer = slurm.path.exists() and slurm.path.stat().st_mtime > kubernetes.path.stat().st_mtime
    return SlurmQueue(slurm) if newer else KubernetesQueue(kubernetes)


@dataclass(frozen=True)
class SlurmQueue:
    """Jobs of Slurm, whose logs are files."""

    book: SlurmBook

    def all(self) -> Mapping[str, Submitted]:
        """Return the jobs that Slurm still knows, and those that it has forgotten, by launch."""
        try:
            known = self.book.mine(slurm_commands.jobs_of_mine())
        except Silent as error:
            raise RunnerError(f"{error}; check the cluster with `sinfo`.") from None
        forgotten = {
            name: Submitted(job, "ended", over=True) for name, job in self.book.read().items()
        }
        return forgotten | {
            name: Submitted(job.job_id, job.state.lower(), job.nodes or job.reason, job.over)
            for name, job in known.items()
        }

    def cancel(self, jobs: Sequence[str]) -> None:
        """End jobs; those that are over already are left."""
        slurm_commands.cancel(jobs)

    def log(self, launch_id: str, lines: int) -> list[str] | None:
        """Return the end of the job's file."""
        return end_of(self.book.log(launch_id), lines)

    def follow(self, launch_id: str) -> Iterator[str]:
        """Return an iterator over what is appended to the job's file, without end."""
        return news(self.book.log(launch_id))


@dataclass(frozen=True)
class KubernetesQueue:
    """Jobs of Kubernetes, whose logs it keeps as long as their pods."""

    book: KubernetesBook

    def all(self) -> Mapping[str, Submitted]:
        """Return the Jobs that Kubernetes still knows, by launch."""
        place, instance = self.book.read()
        try:
            found = kubectl.seen(kubectl.objects(place, instance))
        except Silent as error:
            raise RunnerError(f"{error}; check `kubectl get jobs`.") from None
        return {
            name: Submitted(one.job, one.stage, one.where, one.over) for name, one in found.items()
        }

    def cancel(self, jobs: Sequence[str]) -> None:
        """Delete Jobs with their pods."""
        kubectl.delete(self.book.read()[0], jobs)

    def log(self, launch_id: str, lines: int) -> list[str] | None:
        """Return what the pod printed last, else what was kept of it."""
        known = self.all().get(launch_id)
        found = [] if known is None else kubectl.log(self.book.read()[0], known.job, lines)
        return found or end_of(self.book.log(launch_id), lines)

    def follow(self, launch_id: str) -> Iterator[str]:
        """Return an iterator over what the pod prints, until it ends. RunnerError where there is
        none."""
        known = self.all().get(launch_id)
        if known is None:
            raise RunnerError(f"There is no Job of {launch_id}, so nothing can be followed.")
        return kubectl.followed(self.book.read()[0], known.job)


def end_of(path: Path, lines: int) -> list[str] | None:
    """Return the last lines of a file; None where there is none."""
    if not path.exists():
        return None
    with path.open(encoding="utf-8", errors="replace") as file:
        return [text.rstrip("\n") for text in deque(file, maxlen=lines)]


def news(path: Path) -> Iterator[str]:
    """Yield what is appended to a file from now on, for ever."""
    at = path.stat().st_size if path.exists() else 0
    while True:
        if path.exists():
            with path.open(encoding="utf-8", errors="replace") as file:
                file.seek(at)
                text = file.read()
                at = file.tell()
            if text:
                yield text
        time.sleep(_LOOK_S)
