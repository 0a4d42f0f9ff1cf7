"""What was submitted of a study: ``<results>/<study>/.slurm.json`` and ``.kubernetes.json``."""

import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from filelock import FileLock

from runners.executors.kubernetes_commands import Place
from runners.executors.slurm_commands import SlurmJob
from runners.measuring.layout import Layout
from warehouse.errors import RunnerError

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
