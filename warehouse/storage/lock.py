"""One writer at a time on a machine, by a file lock; and the line in which writers of several machines stand
that have lost a race for the same object store."""

import os
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from operator import attrgetter
from pathlib import Path

from filelock import FileLock, Timeout

from warehouse.errors import WarehouseBusy, WarehouseUnreachable
from warehouse.storage.cache import is_copy, store_of
from warehouse.storage.files import LOCK

#: Where in an object store writers stand in line. One that was killed there holds the next one up so long: s.
LINE, PATIENCE_S = "waiting", 10.0


class WriterLock:
    """The lock of the one writer of the warehouse at ``root``, which the system lets go of when its
    holder dies.

    Whoever waits stands in line: a second lock admits one to wait for the first, so a writer that comes
    back at once, again and again, does not keep others from their turn. One that writes for long looks
    whether somebody stands in line, and gives way. ``while_waiting`` is called again and again while it
    is waited for; what it raises ends that.
    """

    def __init__(self, root: Path, while_waiting: Callable[[], None] = lambda: None) -> None:
        self._root, self._while_waiting = root, while_waiting
        self._lock, self._line = (
            FileLock(
                root / name, fallback_to_soft=False, preserve_lock_file=True, thread_local=False
            )
            for name in (LOCK, f"{LOCK}.next")
        )

    @contextmanager
    def held(self, wait: bool, on_wait: Callable[[str], None] | None) -> Iterator[None]:
        """Hold the lock for the block; with ``wait=False`` raises WarehouseBusy if it is taken.

        ``on_wait`` gets one sentence where it must be waited for.
        """
        try:
            # Another that is only passing through is not in line; one that waits is.
            # Nobody stays in line without waiting for the writer for longer than this: seconds.
            with self._line.acquire(timeout=0.2):
                self._lock.acquire(timeout=0)
        except Timeout as error:
            busy = f"{self._holder()} is writing to {self._root}"
            if not wait:
                raise WarehouseBusy(
                    f"{busy}; try again when it is done, or leave out --no-wait to wait for it."
                ) from error
            if on_wait is not None:
                on_wait(f"{busy}; waiting for it.")
            self._acquire_in_turn()
        try:
            self._sign()
            yield
        finally:
            self._release()

    @property
    def is_held(self) -> bool:
        """Whether this process holds the lock; it does not while ``give_way`` waits, nor after that
        waited in vain."""
        return self._lock.is_locked

    @property
    def is_awaited(self) -> bool:
        """Whether another process stands in line for the lock."""
        try:
            self._line.acquire(timeout=0)
        except Timeout:
            return True
        self._line.release()
        return False

    def give_way(self) -> None:
        """Let go of the lock, and stand in line for it again."""
        self._release()
        self._acquire_in_turn()
        self._sign()

    def _acquire_in_turn(self) -> None:
        self._wait_for(self._line)
        try:
            self._wait_for(self._lock)
        finally:
            self._line.release()

    def _wait_for(self, lock: FileLock) -> None:
        while True:
            try:
                # Seconds between two calls of ``while_waiting``.
                lock.acquire(timeout=0.5)
            except Timeout:
                self._while_waiting()
            else:
                return

    def _holder(self) -> str:
        try:
            return f"Process {int((self._root / f'{LOCK}.holder').read_text(encoding='utf-8'))}"
        except (OSError, ValueError):
            return "Another process"

    def _sign(self) -> None:
        # Only said to who waits: on a full disk the lock holds all the same, for who makes room.
        with suppress(OSError):
            (self._root / f"{LOCK}.holder").write_text(str(os.getpid()), encoding="utf-8")

    def _release(self) -> None:
        if self.is_held:
            with suppress(OSError):
                (self._root / f"{LOCK}.holder").unlink()
            self._lock.release()


class WritersLine(AbstractContextManager["WritersLine"]):
    """The line of writers of several machines at the object store of the warehouse at ``root``. Whoever has
    lost a race joins it, and nobody publishes before those who stand in it longer. At a folder, where the
    lock keeps the order, it is always empty. Nobody stands in it before a race is lost.
    """

    def __init__(self, root: Path) -> None:
        self._store = store_of(root) if is_copy(root) else None
        self._name, self._joined = f"{LINE}/{secrets.token_hex(8)}", False

    def __exit__(self, *_: object) -> None:
        """Leave the line. What cannot be removed now holds the next writer up once, for PATIENCE_S."""
        if self._store is not None and self._joined:
            with suppress(WarehouseUnreachable):
                self._store.remove([self._name])

    def wait(self) -> bool:
        """Wait until nobody stands before this writer; return whether somebody did."""
        waited, until = False, time.monotonic() + PATIENCE_S
        while self._store is not None:
            line = sorted(self._store.entries(LINE), key=attrgetter("modified", "name"))
            names = [entry.name for entry in line]
            before = names[: names.index(self._name)] if self._name in names else names
            if not before:
                break
            waited = True
            if time.monotonic() > until:
                self._store.remove(before)
            time.sleep(0.2)
        return waited

    def join(self) -> None:
        """Stand at the end of the line; who stands there already keeps the place."""
        if self._store is not None:
            self._store.replace(self._name, b"", None)
            self._joined = True
