"""The files of a warehouse's folder, and the lock of its one writer.

Files are immutable, under the hash of their content; one pointer, CURRENT, is replaced. Everything that
touches them goes through here, so that an object store can stand in for a folder.
"""

import errno
import fcntl
import hashlib
import os
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from warehouse.errors import DraftboardError, InvalidInput, WarehouseBusy

CURRENT = "CURRENT"
TABLES = "tables"
REQUESTS = "requests"
DERIVED = "derived"
PUBLISHED = "published"
LOCK = "lock"
#: A folder with this file is a bundle, which somebody shared: it is read, and never changed.
BUNDLE = "bundle.json"
COMPRESSION = "zstd"
#: The name of every file under construction begins with this; the next writer removes what a kill left.
PRIVATE = "tmp-"

_PRIVATE_FOLDER = re.compile(rf"{PRIVATE}\d+-draftboard-.+")
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
#: Seconds between two calls of ``while_waiting``.
_PIECE_S = 0.5
#: Nobody stays in line without waiting for the writer for longer than this: seconds.
_BRIEFLY_S = 0.2


def refuse_bundle(root: Path) -> None:
    """Raise InvalidInput where the folder is a bundle."""
    if (root / BUNDLE).exists():
        raise InvalidInput(
            f"{root} is a shared bundle and is never changed: name another --warehouse."
        )


def publish(private: Path, final: Path) -> None:
    """Make a finished private file visible under its final name, durably."""
    sync(private)
    private.replace(final)
    sync(final.parent)


def pointer_here(root: Path) -> str | None:
    """Return what CURRENT names in this folder, whatever stands in the store that it is a copy of; None
    where there is no warehouse."""
    try:
        return (root / CURRENT).read_text(encoding="utf-8", errors="replace").strip()
    except (FileNotFoundError, NotADirectoryError):
        return None


def point(root: Path, name: str) -> None:
    """Replace what CURRENT names: the one file that ever changes."""
    private = root / f"{PRIVATE}{CURRENT}"
    private.write_text(name + "\n", encoding="utf-8")
    publish(private, root / CURRENT)


def pin(path: Path) -> int:
    """Keep a generation's list, and so all that it lists, until the returned descriptor is closed.

    The system closes it when its process dies. Raises FileNotFoundError where the list has gone.
    """
    descriptor = os.open(path, os.O_RDONLY)
    if not _locked(descriptor, fcntl.LOCK_SH) or not path.exists():
        os.close(descriptor)
        raise FileNotFoundError(path)
    return descriptor


def remove_unpinned(path: Path) -> bool:
    """Remove a generation's list, unless a reader keeps it."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        free = _locked(descriptor, fcntl.LOCK_EX)
        if free:
            path.unlink()
        return free
    finally:
        os.close(descriptor)


def _locked(descriptor: int, how: int) -> bool:
    try:
        fcntl.flock(descriptor, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        # A network file system without locks: there readers rely on the old generations that stay.
        return True
    return True


def sync(path: Path) -> None:
    """Force a file or a folder to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sha256_of(path: Path) -> str:
    """Return sha256 (hex) of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def remove_private(root: Path) -> None:
    """Remove what a killed writer left half made. Only under the writer's lock."""
    for folder in (root, root / TABLES, root / REQUESTS, root / DERIVED):
        for path in folder.glob(f"{PRIVATE}*"):
            path.unlink(missing_ok=True)
    for path in (root / PUBLISHED).glob(".*"):
        path.unlink(missing_ok=True)


@contextmanager
def full_disk_explained(root: Path) -> Iterator[None]:
    """Turn a full disk, or a folder that may not be written, into a sentence."""
    try:
        yield
    except OSError as error:
        raise _explained(error, root) from error


def database_explained(error: Exception, root: Path) -> Exception:
    """Return what to raise for an error of the database while it writes into ``root``."""
    text = str(error).splitlines()[0]
    full = _explained(OSError(text), root)
    if isinstance(full, DraftboardError):
        return full
    return DraftboardError(
        f"The database in {root} could not be written ({text}): nothing was published and what "
        f"was there before is untouched; run draftboard warehouse check, then try again."
    )


def _explained(error: OSError, root: Path) -> Exception:
    if error.errno in _FULL or any(os.strerror(number) in str(error) for number in _FULL):
        return DraftboardError(
            f"The disk of {root} is full: nothing was published and what was there before is "
            f"untouched; free some space and run the same command again."
        )
    if isinstance(error, PermissionError) or error.errno == errno.EROFS:
        return DraftboardError(
            f"{error.filename or root} may not be written; choose another --warehouse or change "
            f"its permissions."
        )
    return error


@contextmanager
def private_beside(out: Path) -> Iterator[Path]:
    """Make an empty folder on the disk of ``out`` for the block, for what is being written for somebody;
    it is removed at the end with what is left in it.

    Whoever works in one holds a lock on it, so that what killed ones left in the same place can be told
    from it; that is removed first.
    """
    out.parent.mkdir(parents=True, exist_ok=True)
    for left in out.parent.glob(f"{PRIVATE}*"):
        if not _PRIVATE_FOLDER.fullmatch(left.name):
            continue
        with suppress(OSError):
            descriptor = os.open(left, os.O_RDONLY | os.O_DIRECTORY)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(left, ignore_errors=True)
            finally:
                os.close(descriptor)
    place = out.with_name(f"{PRIVATE}{os.getpid()}-draftboard-{out.name}")
    place.mkdir()
    descriptor = os.open(place, os.O_RDONLY)
    try:
        # On a file system without locks it stays when it is killed: better than one in use removed.
        with suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)
        os.close(descriptor)


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
            with self._line.acquire(timeout=_BRIEFLY_S):
                self._lock.acquire(timeout=0)
        except Timeout as error:
            try:
                pid = int((self._root / f"{LOCK}.holder").read_text(encoding="utf-8"))
                busy = f"Process {pid} is writing to {self._root}"
            except (OSError, ValueError):
                busy = f"Another process is writing to {self._root}"
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
                lock.acquire(timeout=_PIECE_S)
            except Timeout:
                self._while_waiting()
            else:
                return

    def _sign(self) -> None:
        # Only said to who waits: on a full disk the lock holds all the same, for who makes room.
        with suppress(OSError):
            (self._root / f"{LOCK}.holder").write_text(str(os.getpid()), encoding="utf-8")

    def _release(self) -> None:
        if self.is_held:
            (self._root / f"{LOCK}.holder").unlink(missing_ok=True)
            self._lock.release()
