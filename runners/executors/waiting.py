"""The one loop that submits launches and waits for them, and what it keeps of them on disk.

This machine, Slurm, Ray and Kubernetes each state how a launch is submitted, what is known of it
and how it is cancelled: a ``Scheduler``.
"""

import json
import os
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from filelock import FileLock

from runners.executors import ExecutorJob, ExecutorOutcome, Update
from runners.measuring.resume import Now, look
from runners.planning.plan import Launch, Plan
from runners.surroundings.layout import Layout
from warehouse.errors import RunnerError

#: Lines at the end of a log among which the last one that says something is looked for.
_LAST_LINES = 200


class Silent(Exception):
    """A scheduler gave no answer; its jobs go on, and the next question may be answered."""


class Scheduler(ABC):
    """Where the launches of one study run."""

    #: Whether its jobs go on when nobody waits for them.
    outlives: ClassVar[bool] = False

    def locked(self) -> AbstractContextManager[object]:
        """Keep other commands from submitting the same launches during the block."""
        return nullcontext()

    def standing(self) -> Mapping[str, str]:
        """Return launch -> job of those that need not be submitted again."""
        return {}

    @abstractmethod
    def submit(self, launch: Launch) -> str:
        """Submit one launch and return its job. RunnerError where it is refused."""

    def note(self, jobs: Mapping[str, str]) -> None:  # noqa: B027  (not every one keeps something)
        """Keep launch -> job for commands to come."""

    @abstractmethod
    def states(self, jobs: Mapping[str, str]) -> Iterable[Update]:
        """Return what is known of the launches with these jobs, each at most once. Raises Silent."""

    @abstractmethod
    def cancel(self, jobs: Sequence[str]) -> None:
        """End jobs; those that are over already are left. Raises RunnerError."""


def run_launches(
    scheduler: Scheduler, job: ExecutorJob, poll_s: float, wait: bool = True, called: str = "job"
) -> ExecutorOutcome:
    """Submit the launches that do not run yet, and wait until each is over.

    Jobs that outlive this command go on after Ctrl-C and are handed over, as all are where ``wait``
    is False, ``called`` as the scheduler's users call them; others are ended. If one launch is
    refused, none of those that were submitted here is left.
    """
    with scheduler.locked():
        jobs = _submitted(scheduler, job.launches)
    last: dict[str, Update] = {}
    try:
        while wait and jobs:
            for update in _news(scheduler, jobs):
                if last.pop(update.launch_id, None) != update:
                    job.report(update)
                last[update.launch_id] = update
                if update.state in ("done", "failed"):
                    del jobs[update.launch_id]
            if jobs:
                time.sleep(poll_s)
    except KeyboardInterrupt:
        if not scheduler.outlives:
            raise
    finally:
        if not scheduler.outlives:
            scheduler.cancel(list(jobs.values()))
    for launch_id, name in jobs.items():
        job.report(Update(launch_id, "handed over", f"{called} {name}"))
    return ExecutorOutcome(
        done=tuple(name for name, update in last.items() if update.state == "done"),
        failed=tuple((n, update.detail) for n, update in last.items() if update.state == "failed"),
        handed_over=tuple(jobs),
    )


def _submitted(scheduler: Scheduler, launches: Sequence[Launch]) -> dict[str, str]:
    jobs: dict[str, str] = dict(scheduler.standing())
    new: list[str] = []
    try:
        for launch in launches:
            if launch.launch_id not in jobs:
                jobs[launch.launch_id] = scheduler.submit(launch)
                new.append(jobs[launch.launch_id])
    except BaseException:
        scheduler.cancel(new)
        raise
    scheduler.note(jobs)
    return {launch.launch_id: jobs[launch.launch_id] for launch in launches}


def _news(scheduler: Scheduler, jobs: Mapping[str, str]) -> Iterator[Update]:
    try:
        yield from scheduler.states(dict(jobs))
    except Silent as error:
        for launch_id in list(jobs):
            yield Update(launch_id, "waiting", f"{error}; asking again")


def good_cells(plan: Plan, job: ExecutorJob, launch_id: str) -> tuple[int, int]:
    """Return how many cells of a launch are good in the results folder, and how many were asked
    for."""
    cells = next(each.cells for each in job.launches if each.launch_id == launch_id)
    layout = Layout(job.results.absolute(), plan.study.name)
    return len(look(plan, layout, cells, Now(job.software)).good), len(cells)


# --- What was submitted of a study: ``<results>/<study>/.slurm.json`` and ``.kubernetes.json``.


@dataclass(frozen=True)
class Submitted:
    """What a scheduler shows of one launch. ``where``: its node, or why it waits or failed;
    ``over``: its job will do nothing more; ``never``: it waits for what cannot come."""

    job: str
    state: str
    where: str = ""
    over: bool = False
    never: bool = False


@dataclass(frozen=True)
class Queue(ABC):
    """What one scheduler was given of one study in one results folder, and how it is asked."""

    layout: Layout
    scheduler: ClassVar[str]
    #: The command that shows what the scheduler knows.
    shown_by: ClassVar[str]
    #: What the file holds, and of which kinds.
    fields: ClassVar[Mapping[str, tuple[type, ...]]]

    @property
    def path(self) -> Path:
        """The file in which it is kept what was submitted."""
        return self.layout.root / f".{self.scheduler}.json"

    def log_file(self, launch_id: str) -> Path:
        """Return the file with what a launch printed, all its starts one after the other."""
        return self.layout.root / "logs" / f"{launch_id}.{self.scheduler}.log"

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the file's lock while jobs are submitted, so that two commands never submit the same
        launch.
        """
        (self.layout.root / "logs").mkdir(parents=True, exist_ok=True)
        with FileLock(self.path.with_suffix(".lock")):
            yield

    def read(self) -> dict[str, Any] | None:
        """Read the file; None where nothing was submitted. RunnerError where it is damaged."""
        try:
            written = json.loads(self.path.read_bytes())
            for name, kinds in self.fields.items():
                if not isinstance(written[name], kinds):
                    raise TypeError(f"{name} is {written[name]!r}")
            return {name: written[name] for name in self.fields}
        except FileNotFoundError:
            return None
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise RunnerError(
                f"{self.path} cannot be read ({error}); look at `{self.shown_by}`, then remove it."
            ) from None

    def write(self, written: Mapping[str, Any]) -> None:
        """Replace the file as a whole."""
        partial = self.path.with_suffix(".json.partial")
        with partial.open("w", encoding="utf-8") as file:
            json.dump(written, file, indent=1)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(self.path)

    @abstractmethod
    def submitted(self) -> Mapping[str, Submitted]:
        """Return what was submitted, by launch. RunnerError where nobody answers."""

    @abstractmethod
    def cancel(self, jobs: Sequence[str]) -> None:
        """End jobs; those that are over already are left. Raises RunnerError."""

    def log(self, launch_id: str, lines: int) -> list[str] | None:
        """Return what a launch printed last; None where it has not started."""
        return end_of(self.log_file(launch_id), lines)

    def follow(self, launch_id: str) -> Iterator[str]:
        """Return an iterator over what a launch prints from now on."""
        return news(self.log_file(launch_id))


def end_of(path: Path, lines: int) -> list[str] | None:
    """Return the last lines of a file; None where there is none."""
    if not path.exists():
        return None
    with path.open(encoding="utf-8", errors="replace") as file:
        return [text.rstrip("\n") for text in deque(file, maxlen=lines)]


def last_printed(lines: Path | Sequence[str]) -> str:
    """Return the last line, of a log or of these lines, that says something."""
    found = (end_of(lines, _LAST_LINES) or []) if isinstance(lines, Path) else lines
    said = (line.strip()[:300] for line in reversed(found) if line.strip())
    return next(said, "nothing printed")


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
        time.sleep(1.0)
