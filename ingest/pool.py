"""Some processes that read, each one unit at a time; results come as they are ready.

One that dies, or takes longer than its unit may, costs that unit alone: another takes its place.
"""

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Self

from ingest.exchange import Job, Question, Refused, Result, Task, weight
from ingest.nursery import nursery
from warehouse.errors import DraftboardError

#: So often whoever waits for results gets a word, seconds.
_TICK_S = 1.0
#: A process that read a unit of so many bytes is not used again: much of its memory stays with it.
_LARGE = 64 << 20

_LATE = (
    "Reading this took longer than {:,.0f} s and was ended: look at its disk; if it is a result, "
    "allow more with --unit-seconds."
)
_HOG = (
    "Reading this took more than {:,.0f} s of a processor and was ended; if it is a result, allow "
    "more with --unit-seconds."
)
_SHORTER = "This became shorter while it was read, or its disk failed: take it in when it is whole."
_KILLED = (
    "The system ended the process that read this, twice, probably for want of memory: free some, or "
    "read one at a time with --workers 1."
)
_BROKE = (
    "The process that read this died of it ({}): it is damaged, or made to do that; copy it again "
    "from its source."
)


@dataclass(eq=False)
class _Worker:
    """One process; ``task`` is what it reads, and ``until`` the moment at which that ends."""

    connection: Connection
    pid: int
    task: Task | None = None
    until: float = 0.0
    is_late: bool = False


class Pool:
    """Up to ``processes`` processes that read for the warehouse at ``root``; none is left when the
    pool is closed."""

    def __init__(self, root: Path, processes: int) -> None:
        self._job = Job(root.absolute(), Path.cwd())
        self._most = processes
        self._workers: list[_Worker] = []
        self._again: list[Task] = []
        self._killed: set[int] = set()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for worker in tuple(self._workers):
            with suppress(DraftboardError):
                self._dismiss(worker)

    def results(
        self, tasks: Iterator[Task], is_known: Callable[[Task, str], bool]
    ) -> Iterator[tuple[Task, Result] | None]:
        """Yield each task with what came of it, in the order in which they end; None now and
        then."""
        self._feed(tasks)
        while busy := [worker for worker in self._workers if worker.task is not None]:
            ready = wait([worker.connection for worker in busy], timeout=_TICK_S)
            for worker in busy:
                if worker.connection in ready:
                    heard = self._heard(worker, is_known)
                    # Before the result is looked at, so that nobody waits for that.
                    self._feed(tasks)
                    yield heard
            self._end_late_ones()
            yield None

    def _feed(self, tasks: Iterator[Task]) -> None:
        """Give every idle process a task, while there are any."""
        while True:
            idle = next((worker for worker in self._workers if worker.task is None), None)
            if idle is None and len(self._workers) >= self._most:
                return
            task = self._again.pop() if self._again else next(tasks, None)
            if task is None:
                return
            self._give(idle or self._hired(), task)

    def _give(self, worker: _Worker, task: Task) -> None:
        worker.task, worker.is_late = task, False
        worker.until = time.monotonic() + task.allowed.wall_seconds
        # One that died while it was idle is found dead when it is listened to.
        with suppress(OSError):
            worker.connection.send(task)

    def _hired(self) -> _Worker:
        connection, pid = nursery().fork()
        worker = _Worker(connection, pid)
        self._workers.append(worker)
        connection.send(self._job)
        return worker

    def _heard(
        self, worker: _Worker, is_known: Callable[[Task, str], bool]
    ) -> tuple[Task, Result] | None:
        task = worker.task
        if task is None:
            return None
        try:
            said = worker.connection.recv()
            if isinstance(said, Question):
                worker.connection.send(is_known(task, said.source_id))
                return None
        except (EOFError, OSError):
            return self._mourned(worker, task)
        worker.task = None
        if weight(task.unit) >= _LARGE:
            self._dismiss(worker)
        return task, said

    def _mourned(self, worker: _Worker, task: Task) -> tuple[Task, Result] | None:
        """Refuse the task of a process that died; one that was killed from outside is read
        again."""
        status = self._dismiss(worker)
        if status == -signal.SIGKILL and not worker.is_late and task.number not in self._killed:
            self._killed.add(task.number)
            self._again.append(task)
            return None
        return task, Refused(_reason(status, worker.is_late, task))

    def _dismiss(self, worker: _Worker) -> int:
        """End a process and return its exit status."""
        self._workers.remove(worker)
        # One that reads does not listen; one that is dead stays as it died.
        with suppress(ProcessLookupError):
            os.kill(worker.pid, signal.SIGKILL)
        worker.connection.close()
        return nursery().reap(worker.pid)

    def _end_late_ones(self) -> None:
        for worker in self._workers:
            if worker.task is not None and time.monotonic() > worker.until:
                worker.is_late = True
                with suppress(ProcessLookupError):
                    os.kill(worker.pid, signal.SIGKILL)


def _reason(status: int, is_late: bool, task: Task) -> str:
    """Say why a unit is refused whose process ended with this status."""
    if is_late:
        return _LATE.format(task.allowed.wall_seconds)
    if status == -signal.SIGXCPU:
        return _HOG.format(task.allowed.seconds)
    known = {-signal.SIGBUS: _SHORTER, -signal.SIGKILL: _KILLED}
    if status in known:
        return known[status]
    return _BROKE.format(signal.Signals(-status).name if status < 0 else f"exit status {status}")
