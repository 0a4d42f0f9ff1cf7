"""Which Slurm job measures which launch: ``<results>/<study>/.slurm.json``.

Slurm forgets a job minutes after its end, and a job's number alone does not say what it is for. A
number may also be given again after years or a new installation, so a job counts as ours only if
it bears our name too.
"""

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock

from runners.executors.slurm_commands import SlurmJob
from runners.measuring.layout import Layout
from warehouse.errors import RunnerError


@dataclass(frozen=True)
class Book:
    """The jobs of one study in one results folder."""

    layout: Layout

    @property
    def path(self) -> Path:
        """The file in which the book is kept."""
        return self.layout.root / ".slurm.json"

    def name(self, launch_id: str) -> str:
        """Return the name that a launch's job bears in squeue."""
        return f"{self.layout.study}:{launch_id}"

    def log(self, launch_id: str) -> Path:
        """Return the file with what a launch's job prints, all its starts one after the other."""
        return self.layout.root / "logs" / f"{launch_id}.slurm.log"

    def read(self) -> dict[str, str]:
        """Read launch -> job number. RunnerError where the file is damaged."""
        try:
            said = json.loads(self.path.read_bytes())
            return {str(launch): str(job) for launch, job in said["jobs"].items()}
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
            raise RunnerError(
                f"{self.path} cannot be read ({error}); look at `squeue --me`, then remove it."
            ) from None

    def write(self, jobs: Mapping[str, str]) -> None:
        """Replace the file as a whole."""
        partial = self.path.with_suffix(".json.partial")
        with partial.open("w", encoding="utf-8") as file:
            json.dump({"jobs": dict(jobs)}, file, indent=1)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(self.path)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the book's lock while jobs are submitted, so that two commands never submit the same
        launch."""
        self.log("x").parent.mkdir(parents=True, exist_ok=True)
        with FileLock(self.path.with_suffix(".lock")):
            yield

    def mine(self, known: Mapping[str, SlurmJob]) -> dict[str, SlurmJob]:
        """Return the jobs in the book that Slurm still knows, by launch."""
        return {
            launch: known[number]
            for launch, number in self.read().items()
            if number in known and known[number].name == self.name(launch)
        }
