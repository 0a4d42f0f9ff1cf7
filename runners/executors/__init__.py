"""Where launches run: on this machine, as Slurm jobs, as Ray tasks, as Jobs of Kubernetes.

The unit of remote work is one launch: a server and the cells that are measured on it. An ``Executor``
starts ``draftboard run STUDY --results DIR --launch ID`` where there is room, waits, and says what
became of each: each place states in a ``Scheduler`` how a launch is submitted, what is known of it and
how it is cancelled, and one loop here watches all of them. What is measured lies in the results folder;
nothing else is carried back. Slurm and Kubernetes go on without us: what they were given stands in a
``Queue`` beside the results, by which other commands look, cancel and read logs.
"""

import json
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal, Protocol, TypeVar

import msgspec
from filelock import FileLock

from runners.measuring.resume import Now, look
from runners.planning.plan import Launch, Plan, PlannedCell
from runners.serving.engines import Software
from runners.surroundings.layout import Layout
from warehouse.errors import RunnerError
from warehouse.storage.files import write_whole

State = Literal["waiting", "running", "done", "failed", "handed over"]
Written = TypeVar("Written")

#: ``-P``: a folder of the user's called like one of our packages must not hide it.
PROGRAM = (sys.executable, "-P", "-m", "draftboard")


@dataclass(frozen=True)
class Update:
    """What has become of one launch; reported once for each change."""

    launch_id: str
    state: State
    #: Where the launch runs, why it waits or why it failed; never needed to go on.
    detail: str = ""


def ignore(*_: object) -> None:
    """Do nothing with what is reported, for callers who only want the outcome."""


@dataclass(frozen=True)
class ExecutorJob:
    """What an executor is asked for. Paths must mean the same on every node."""

    study: Path
    results: Path
    launches: tuple[Launch, ...]
    #: More arguments of ``draftboard run``, the same for each launch: ``--only …``.
    arguments: tuple[str, ...] = ()
    report: Callable[[Update], None] = ignore
    #: Told of each cell that became good, and how long it took, by executors that look for
    #: them.
    measured: Callable[[PlannedCell, float], None] = ignore
    program: tuple[str, ...] = PROGRAM
    #: What cells are measured with: those of another version are others.
    software: Software = Software()

    def command(self, launch: Launch) -> list[str]:
        """Return the command line that measures one launch, with absolute paths."""
        study, results = str(self.study.absolute()), str(self.results.absolute())
        words = ["run", study, "--results", results, "--launch", launch.launch_id]
        return [*self.program, *words, *self.arguments]


@dataclass(frozen=True)
class ExecutorOutcome:
    """What became of the launches; each is named once."""

    done: tuple[str, ...] = ()
    #: Launches with the reason, one sentence each.
    failed: tuple[tuple[str, str], ...] = ()
    #: Launches that were submitted and are not waited for.
    handed_over: tuple[str, ...] = ()
    #: Where results of launches that are done lie, if the results folder here does not show
    #: them.
    results_at: str = ""


class Executor(Protocol):
    """Runs launches somewhere. Raises RunnerError where a launch can never be placed."""

    def run(self, plan: Plan, job: ExecutorJob) -> ExecutorOutcome:
        """Run the job's launches; a failed one does not keep the others from running."""
        ...


# --- The one loop that submits launches and waits for them.


#: Lines at the end of a log among which the last one that says something is looked for.
_LAST_LINES = 200


#: How long one of a scheduler's own programs may take.
CALL_S = 120.0


class Silent(RunnerError):
    """A scheduler gave no answer, ``what`` says which: its jobs go on, and the next may come."""

    def __init__(self, what: str) -> None:
        super().__init__(
            f"{what}; its jobs go on: ask it yourself, then run the same command again."
        )
        self.what = what


def call(argv: Sequence[str], install: str, given: str = "") -> "subprocess.CompletedProcess[str]":
    """Return how a scheduler's own program ended. Raises Silent where it does not answer, RunnerError
    with ``install``, what to do about it, where it is not there. ``given``: its standard input."""
    try:
        # A program that is told to wait for so long says itself that it was too short.
        return subprocess.run(
            [*argv], input=given, capture_output=True, text=True, timeout=CALL_S + 10, check=False
        )
    except FileNotFoundError:
        raise RunnerError(f"There is no {argv[0]} on this machine; {install}.") from None
    except subprocess.TimeoutExpired:
        raise Silent(f"{argv[0]} did not answer within {CALL_S:g} s") from None


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
            for update in _updates(scheduler, jobs):
                # Popped: the outcome names launches in the order in which they ended.
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
        scheduler.note(jobs)
    except BaseException:
        # Also where they cannot be noted: no later command would know of them.
        scheduler.cancel(new)
        raise
    return {launch.launch_id: jobs[launch.launch_id] for launch in launches}


def _updates(scheduler: Scheduler, jobs: Mapping[str, str]) -> Iterator[Update]:
    try:
        yield from scheduler.states(dict(jobs))
    except Silent as error:
        yield from (Update(name, "waiting", f"{error.what}; asking again") for name in [*jobs])


def good_cells(plan: Plan, job: ExecutorJob, launch_id: str) -> tuple[int, int]:
    """Return how many cells of a launch are good in the results folder, and how many were asked
    for."""
    cells = next(launch.cells for launch in job.launches if launch.launch_id == launch_id)
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

    @property
    def path(self) -> Path:
        """The file in which it is kept what was submitted."""
        return self.layout.root / f".{self.scheduler}.json"

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the file's lock while jobs are submitted, so that two commands never submit the same
        launch.
        """
        (self.layout.root / "logs").mkdir(parents=True, exist_ok=True)
        with FileLock(self.path.with_suffix(".lock")):
            yield

    def read(self, kind: type[Written]) -> Written | None:
        """Read the file, which holds a ``kind``; None where nothing was submitted. RunnerError where it
        is damaged."""
        try:
            return msgspec.json.decode(self.path.read_bytes(), type=kind)
        except FileNotFoundError:
            return None
        except (OSError, msgspec.DecodeError, UnicodeDecodeError) as error:
            raise RunnerError(
                f"{self.path} cannot be read ({error}); look at `{self.shown_by}`, then remove it."
            ) from None

    def write(self, written: Mapping[str, Any]) -> None:
        """Replace the file as a whole."""
        write_whole(self.path, json.dumps(written, indent=1))

    @abstractmethod
    def submitted(self) -> Mapping[str, Submitted]:
        """Return what was submitted, by launch. Raises Silent."""

    @abstractmethod
    def cancel(self, jobs: Sequence[str]) -> None:
        """End jobs; those that are over already are left. Raises RunnerError."""

    def log(self, launch_id: str, lines: int) -> list[str] | None:
        """Return what a launch printed last; None where it has not started."""
        return end_of(self.layout.log(launch_id, self.scheduler), lines)

    def follow(self, launch_id: str) -> Iterator[str]:
        """Return an iterator over what a launch prints from now on."""
        return news(self.layout.log(launch_id, self.scheduler))


def end_of(path: Path, lines: int) -> list[str] | None:
    """Return the last lines of a file; None where there is none."""
    if not path.exists():
        return None
    with path.open(encoding="utf-8", errors="replace") as file:
        return [text.rstrip("\n") for text in deque(file, maxlen=lines)]


def last_printed(lines: Path | Sequence[str]) -> str:
    """Return the last line, of a log or of these lines, that says something."""
    printed = (end_of(lines, _LAST_LINES) or []) if isinstance(lines, Path) else lines
    return next(
        (line.strip()[:300] for line in reversed(printed) if line.strip()), "nothing printed"
    )


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
