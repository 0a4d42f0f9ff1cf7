"""One writer at a time: a file lock that the system lets go of when its holder dies.

Whoever waits stands in line: a second lock admits one to wait for the first, so a writer that comes
back at once, again and again, does not keep others from their turn.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from warehouse.errors import WarehouseBusy
from warehouse.store_files import LOCK

#: Seconds between two calls of ``while_waiting``.
_PIECE_S = 0.5
#: Nobody stays in line without waiting for the writer for longer than this: seconds.
_BRIEFLY_S = 0.2


@contextmanager
def writer_lock(
    root: Path,
    wait: bool,
    on_wait: Callable[[str], None] | None,
    while_waiting: Callable[[], None] = lambda: None,
) -> Iterator[None]:
    """Hold the writer's lock of ``root``; with ``wait=False`` raises WarehouseBusy if it is taken.

    ``on_wait`` gets one sentence where it must be waited for; ``while_waiting`` is then called
    again and again, and what it raises ends the waiting.
    """
    lock, line = _lock(root, LOCK), _lock(root, f"{LOCK}.next")
    try:
        _acquired_now(lock, line)
    except Timeout as error:
        if not wait:
            raise WarehouseBusy(
                f"{_holder(root)} is writing to {root}; try again when it is done, "
                f"or leave out --no-wait to wait for it."
            ) from error
        if on_wait is not None:
            on_wait(f"{_holder(root)} is writing to {root}; waiting for it.")
        _acquired_in_turn(lock, line, while_waiting)
    name_file = root / f"{LOCK}.holder"
    try:
        name_file.write_text(str(os.getpid()), encoding="utf-8")
        yield
    finally:
        name_file.unlink(missing_ok=True)
        lock.release()


def _lock(root: Path, name: str) -> FileLock:
    return FileLock(
        root / name, fallback_to_soft=False, preserve_lock_file=True, thread_local=False
    )


def _acquired_now(lock: FileLock, line: FileLock) -> None:
    # Another that is only passing through is not in line; one that waits is.
    line.acquire(timeout=_BRIEFLY_S)
    try:
        lock.acquire(timeout=0)
    finally:
        line.release()


def _acquired_in_turn(lock: FileLock, line: FileLock, while_waiting: Callable[[], None]) -> None:
    _acquired(line, while_waiting)
    try:
        _acquired(lock, while_waiting)
    finally:
        line.release()


def _acquired(lock: FileLock, while_waiting: Callable[[], None]) -> None:
    while True:
        try:
            lock.acquire(timeout=_PIECE_S)
        except Timeout:
            while_waiting()
        else:
            return


def _holder(root: Path) -> str:
    try:
        return f"Process {int((root / f'{LOCK}.holder').read_text(encoding='utf-8'))}"
    except (OSError, ValueError):
        return "Another process"
