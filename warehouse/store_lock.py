"""One writer at a time: a file lock that the system lets go of when its holder dies."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from warehouse.errors import WarehouseBusy
from warehouse.store_files import LOCK


@contextmanager
def writer_lock(root: Path, wait: bool, on_wait: Callable[[str], None] | None) -> Iterator[None]:
    """Hold the writer's lock of ``root``; with ``wait=False`` raises WarehouseBusy if it is taken."""
    lock = FileLock(
        root / LOCK, fallback_to_soft=False, preserve_lock_file=True, thread_local=False
    )
    try:
        lock.acquire(timeout=0)
    except Timeout as error:
        if not wait:
            raise WarehouseBusy(
                f"{_holder(root)} is writing to {root}; try again when it is done, "
                f"or leave out --no-wait to wait for it."
            ) from error
        if on_wait is not None:
            on_wait(f"{_holder(root)} is writing to {root}; waiting for it.")
        lock.acquire()
    name_file = root / f"{LOCK}.holder"
    try:
        name_file.write_text(str(os.getpid()), encoding="utf-8")
        yield
    finally:
        name_file.unlink(missing_ok=True)
        lock.release()


def _holder(root: Path) -> str:
    try:
        return f"Process {int((root / f'{LOCK}.holder').read_text(encoding='utf-8'))}"
    except (OSError, ValueError):
        return "Another process"
