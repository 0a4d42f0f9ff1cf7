"""Where the Jobs of a study are: ``<results>/<study>/.kubernetes.json``, for those who ask later."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock

from runners.executors.kubernetes_commands import Place
from runners.measuring.layout import Layout
from warehouse.errors import RunnerError


@dataclass(frozen=True)
class Book:
    """Where the Jobs of one study are, and the label that they share."""

    layout: Layout

    @property
    def path(self) -> Path:
        """The file in which place and label are kept."""
        return self.layout.root / ".kubernetes.json"

    def log(self, launch_id: str) -> Path:
        """Return the file with what a launch printed, kept when its Job was over."""
        return self.layout.root / "logs" / f"{launch_id}.kubernetes.log"

    def read(self) -> tuple[Place, str]:
        """Read the place and the label. RunnerError where there are none."""
        try:
            said = json.loads(self.path.read_bytes())
            return Place(said["context"], said["namespace"]), str(said["instance"])
        except FileNotFoundError:
            raise RunnerError(
                f"Nothing of {self.layout.study} was submitted from {self.layout.results}."
            ) from None
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise RunnerError(
                f"{self.path} cannot be read ({error}); look at `kubectl get jobs`, then remove it."
            ) from None

    def write(self, place: Place, instance: str) -> None:
        """Replace the file as a whole."""
        partial = self.path.with_suffix(".json.partial")
        told = {"context": place.context, "namespace": place.namespace, "instance": instance}
        with partial.open("w", encoding="utf-8") as file:
            json.dump(told, file, indent=1)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(self.path)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the lock while Jobs are submitted, so that two commands never submit the same."""
        self.log("x").parent.mkdir(parents=True, exist_ok=True)
        with FileLock(self.path.with_suffix(".lock")):
            yield
