"""Jobs that were submitted to a scheduler and are waited for, on Slurm or Kubernetes."""

import json
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from filelock import FileLock

from runners.executors import Job, Outcome, Silent, State, Update
from runners.executors.kubernetes_commands import Place
from runners.executors.slurm_commands import SlurmJob
from runners.measuring.resume import Now, look
from runners.planning.plan import Plan
from runners.surroundings.layout import Layout
from warehouse.errors import RunnerError

# --- What was submitted of a study: ``<results>/<study>/.slurm.json`` and ``.kubernetes.json``.


T = TypeVar("T")


@dataclass(frozen=True)
class Book:
    """What one scheduler was given of one study in one results folder."""

    layout: Layout
    scheduler: ClassVar[str]
    ask: ClassVar[str]
    """The command that shows what the scheduler knows."""

    @property
    def path(self) -> Path:
        """The file in which the book is kept."""
        return self.layout.root / f".{self.scheduler}.json"

    def log(self, launch_id: str) -> Path:
        """Return the file with what a launch printed, all its starts one after the other."""
        return self.layout.root / "logs" / f"{launch_id}.{self.scheduler}.log"

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the book's lock while jobs are submitted, so that two commands never submit the same
        launch."""
        self.log("x").parent.mkdir(parents=True, exist_ok=True)
        with FileLock(self.path.with_suffix(".lock")):
            yield

    def _said(self, of: Callable[[Any], T]) -> T:
        try:
            return of(json.loads(self.path.read_bytes()))
        except FileNotFoundError:
            raise
        except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
            raise RunnerError(
                f"{self.path} cannot be read ({error}); look at `{self.ask}`, then remove it."
            ) from None

    def _replace(self, told: Mapping[str, Any]) -> None:
        partial = self.path.with_suffix(".json.partial")
        with partial.open("w", encoding="utf-8") as file:
            json.dump(told, file, indent=1)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(self.path)


class SlurmBook(Book):
    """Which Slurm job measures which launch.

    Slurm forgets a job minutes after its end, and a job's number alone does not say what it is for.
    A number may also be given again after years or a new installation, so a job counts as ours only
    if it bears our name too.
    """

    scheduler, ask = "slurm", "squeue --me"

    def name(self, launch_id: str) -> str:
        """Return the name that a launch's job bears in squeue."""
        return f"{self.layout.study}:{launch_id}"

    def read(self) -> dict[str, str]:
        """Read launch -> job number. RunnerError where the file is damaged."""
        try:
            return self._said(lambda said: {str(k): str(job) for k, job in said["jobs"].items()})
        except FileNotFoundError:
            return {}

    def write(self, jobs: Mapping[str, str]) -> None:
        """Replace the file as a whole."""
        self._replace({"jobs": dict(jobs)})

    def mine(self, known: Mapping[str, SlurmJob]) -> dict[str, SlurmJob]:
        """Return the jobs in the book that Slurm still knows, by launch."""
        return {
            launch: known[number]
            for launch, number in self.read().items()
            if number in known and known[number].name == self.name(launch)
        }


class KubernetesBook(Book):
    """Where the Jobs of a study are, and the label that they share."""

    scheduler, ask = "kubernetes", "kubectl get jobs"

    def read(self) -> tuple[Place, str]:
        """Read the place and the label. RunnerError where there are none."""
        try:
            return self._said(
                lambda said: (Place(said["context"], said["namespace"]), str(said["instance"]))
            )
        except FileNotFoundError:
            raise RunnerError(
                f"Nothing of {self.layout.study} was submitted from {self.layout.results}."
            ) from None

    def write(self, place: Place, instance: str) -> None:
        """Replace the file as a whole."""
        self._replace(
            {"context": place.context, "namespace": place.namespace, "instance": instance}
        )


# --- Jobs that were submitted to a scheduler and are waited for, on Slurm or Kubernetes.


@dataclass
class Waiting:
    """What is known of the jobs that are waited for, by launch."""

    plan: Plan
    job: Job
    book: Book
    jobs: dict[str, str]
    done: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    said: dict[str, Update] = field(default_factory=dict)

    def ask(self) -> Mapping[str, Any]:
        """Return what the scheduler knows, by launch. Raises Silent."""
        raise NotImplementedError

    def look_at(self, launch_id: str, found: Any) -> None:
        """Take in what the scheduler knows of one launch that is not over; None: nothing."""
        raise NotImplementedError

    def word(self, launch_id: str) -> str:
        """Return the job of a launch as the scheduler's users call it."""
        return f"job {self.jobs[launch_id]}"

    def through(self, wait: bool, poll_s: float) -> Outcome:
        """Wait until every launch is over, or until Ctrl-C; ``wait`` False does not wait."""
        try:
            while wait and not self.look():
                time.sleep(poll_s)
        except KeyboardInterrupt:
            wait = False
        if not wait:
            for launch_id in self.open():
                self.say([launch_id], "handed over", self.word(launch_id))
        return self.outcome()

    def look(self) -> bool:
        """Ask the scheduler once; return True when every launch is over."""
        try:
            known = self.ask()
        except Silent as error:
            self.say(self.open(), "waiting", f"{error}; asking again")
            return False
        for launch_id in self.open():
            self.look_at(launch_id, known.get(launch_id))
        return not self.open()

    def outcome(self) -> Outcome:
        """Return the outcome as far as it is known by now."""
        return Outcome(tuple(self.done), tuple(self.failed.items()), tuple(self.open()))

    def open(self) -> list[str]:
        """Return the launches that are not over."""
        return [name for name in self.jobs if name not in self.done and name not in self.failed]

    def cells(self, launch_id: str) -> tuple[int, int]:
        """Return how many cells of a launch are good here, and how many were asked for."""
        cells = next(x.cells for x in self.job.launches if x.launch_id == launch_id)
        found = look(self.plan, self.book.layout, cells, Now(self.job.software))
        return len(found.good), len(cells)

    def fail(self, launch_id: str, reason: str) -> None:
        """Count a launch as failed, and say why."""
        self.failed[launch_id] = reason
        self.say([launch_id], "failed", reason)

    def say(self, launches: Iterable[str], state: State, detail: str) -> None:
        """Report what has become of launches, each change once."""
        for launch_id in launches:
            update = Update(launch_id, state, detail)
            if self.said.get(launch_id) != update:
                self.said[launch_id] = update
                self.job.report(update)
