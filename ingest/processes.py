"""Reads units in processes of their own: whatever one of them does costs that unit alone.

A process that has imported what reading needs forks them. It has no threads, no database and no
files of ours, and imports while the command imports what finding and writing need.
"""

import math
import multiprocessing
import os
import resource
import signal
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from multiprocessing import forkserver
from multiprocessing.context import ForkServerContext, ForkServerProcess
from pathlib import Path
from threading import Thread
from types import ModuleType

from pebble import CONSTS, ProcessExpired, ProcessPool

from ingest.model import Allowance, ClaimsTable, IngestOptions, ReadResult, Unit
from warehouse.errors import DraftboardError, InvalidInput

#: So often whoever waits for results gets a word, seconds.
_TICK_S = 1.0
_HOME = Path(__file__).parents[1]
#: No threads for sums of a few thousand numbers, no search of all that is installed for plugins.
_ENVIRONMENT = {
    "OPENBLAS_NUM_THREADS": "1", "PYDANTIC_DISABLE_PLUGINS": "1", "PYTHONSAFEPATH": "1",
}  # fmt: skip
# Pebble looks after its processes so often, seconds: a report that ends one waits for it, and so does
# the end of an ingest.
CONSTS.sleep_unit = 0.02


@dataclass(frozen=True)
class ReadingTask:
    """One unit to read, its place in the order of the units, and what was asked for."""

    number: int
    unit: Unit
    options: IngestOptions

    @property
    def allowed(self) -> Allowance:
        """What reading it may take."""
        return self.options.limits.of(self.unit)


#: What comes of a task; None: the warehouse holds the content already.
Answer = ReadResult | ClaimsTable | InvalidInput | None


# --- The command's side.


class _Process(ForkServerProcess):
    """Reads, and imports nothing of the module that was started, which may be any."""

    def start(self) -> None:
        main, sys.modules["__main__"] = sys.modules["__main__"], ModuleType("__main__")
        try:
            super().start()
        finally:
            sys.modules["__main__"] = main


class _Processes(ForkServerContext):
    Process = _Process


def start() -> None:
    """Start the process that forks those which read, if it does not run; it ends with this one."""
    multiprocessing.get_context("forkserver").set_forkserver_preload(
        ["ingest.reading", "ingest.processes"]
    )
    before, temporary = dict(os.environ), tempfile.tempdir
    paths = filter(None, (str(_HOME), before.get("PYTHONPATH")))
    os.environ.update(_ENVIRONMENT, PYTHONPATH=os.pathsep.join(paths))
    try:
        # The path of a socket has at most 107 bytes; below the temporary folder multiprocessing adds 33.
        if len(os.fsencode(tempfile.gettempdir())) > 107 - 33:
            tempfile.tempdir = "/tmp"
        forkserver.ensure_running()
    except OSError as error:
        raise DraftboardError(
            f"Reports are read by processes that need a temporary folder, and there is none ({error}): make "
            "room, or name a folder that may be written in TMPDIR."
        ) from error
    finally:
        tempfile.tempdir = temporary
        os.environ.clear()
        os.environ.update(before)


def answers(
    tasks: Iterator[ReadingTask], root: Path, known: frozenset[str], processes: int
) -> Iterator[tuple[ReadingTask, Answer] | None]:
    """Yield each task with what came of it, in the order in which they end; None now and then.

    Up to so many processes read for the warehouse at ``root``, which holds what is ``known``; none
    of them is left at the end. Raises DraftboardError where the warehouse cannot be written.
    """
    first = list(islice(tasks, processes))
    if not first:
        return
    start()
    pool = ProcessPool(
        len(first), initializer=_begin, initargs=(root.absolute(), Path.cwd(), known),
        context=_Processes(),
    )  # fmt: skip

    def give(task: ReadingTask) -> None:
        reading[pool.schedule(_read, (task,), timeout=task.allowed.wall_seconds)] = task

    reading: dict[Future[Answer], ReadingTask] = {}
    killed: set[int] = set()
    try:
        for task in first:
            give(task)
        while reading:
            ended, _ = wait(reading, timeout=_TICK_S, return_when=FIRST_COMPLETED)
            for future in ended:
                task = reading.pop(future)
                error = future.exception()
                was_killed = isinstance(error, ProcessExpired) and error.exitcode == -signal.SIGKILL
                if was_killed and task.number not in killed:
                    # One that was ended from outside is read again, once.
                    killed.add(task.number)
                    give(task)
                    continue
                # Before the result is looked at, so that nobody waits for that.
                if (following := next(tasks, None)) is not None:
                    give(following)
                yield task, _answer(future, error, task)
            yield None
    finally:
        pool.stop()  # type: ignore[no-untyped-call]
        pool.join()


def _answer(future: "Future[Answer]", error: BaseException | None, task: ReadingTask) -> Answer:
    match error:
        case None:
            return future.result()
        case InvalidInput():
            return error
        case TimeoutError():
            return InvalidInput(
                f"Reading this took longer than {task.allowed.wall_seconds:,.0f} s and was ended: look at "
                "its disk; if it is a result, allow more with --unit-seconds."
            )
        case ProcessExpired(exitcode=code):
            how = signal.Signals(-code).name if code < 0 else f"exit status {code}"
            reasons = {
                -signal.SIGXCPU: f"Reading this took more than {task.allowed.seconds:,.0f} s of a "
                "processor and was ended; if it is a result, allow more with --unit-seconds.",
                -signal.SIGBUS: "This became shorter while it was read, or its disk failed: take it in "
                "when it is whole.",
                -signal.SIGKILL: "The system ended the process that read this, twice, probably for want "
                "of memory: free some, or read one at a time with --workers 1.",
            }
            died = (
                f"The process that read this died of it ({how}): it is damaged, or made to do that; copy it "
                "again from its source."
            )
            return InvalidInput(reasons.get(code, died))
        case BrokenProcessPool():
            raise DraftboardError(
                "The process that starts those which read has gone, perhaps for want of memory: what was "
                "published stays; run the same command again."
            ) from None
        case _:
            raise error


# --- The side of a process that reads.


class _Job:
    """What all tasks of a process share: the warehouse, and the ids that it holds."""

    root = Path()
    known: frozenset[str] = frozenset()


def _begin(root: Path, folder: Path, known: frozenset[str]) -> None:
    _Job.root, _Job.known = root, known
    os.chdir(folder)
    # What breaks is told in an answer; a library's last words are for nobody.
    for stream in (1, 2):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream)
    # A core file of a poison would be as large as the poison.
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    Thread(target=_end_with_the_command, daemon=True).start()


def _end_with_the_command() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(0)


def _read(task: ReadingTask) -> Answer:
    """Read what a task names; whatever reading raises concerns this unit alone.
    Not above: only a process that reads needs it.
    """
    from ingest.reading import read_unit
    from ingest.stated import sentence

    known = frozenset() if task.options.replace else _Job.known
    _limit(task.allowed)
    try:
        return read_unit(task.unit, task.options, _Job.root, known)
    except MemoryError:
        raise InvalidInput(
            "Reading this takes more memory than a result of its size may "
            f"({task.allowed.memory / 1e6:,.0f} MB); if it is one, allow more with --unit-memory."
        ) from None
    except DraftboardError:
        raise
    except Exception as error:  # noqa: BLE001  # One that no reader foresaw is a rejection too.
        raise InvalidInput(sentence(error)) from None
    finally:
        # Sending what was read is no part of it, and must not be cut off.
        for kind in (resource.RLIMIT_CPU, resource.RLIMIT_DATA):
            hard = resource.getrlimit(kind)[1]
            resource.setrlimit(kind, (hard, hard))


def _limit(allowed: Allowance) -> None:
    """Let the system end this process where the next unit takes more than it may. RLIMIT_DATA,
    because a mapped report is no part of it: RLIMIT_AS would count its pages, and the resident
    size would have to be looked at from outside, after the fact.
    """
    used = resource.getrusage(resource.RUSAGE_SELF)
    most = {resource.RLIMIT_CPU: math.ceil(used.ru_utime + used.ru_stime + allowed.seconds)}
    # Elsewhere than on Linux such a limit does not reach most of what is allocated.
    with suppress(OSError):
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[5])
        most[resource.RLIMIT_DATA] = pages * resource.getpagesize() + allowed.memory
    for kind, soft in most.items():
        hard = resource.getrlimit(kind)[1]
        resource.setrlimit(
            kind, (soft if hard == resource.RLIM_INFINITY else min(soft, hard), hard)
        )
