"""The files of a warehouse's folder.

Files are immutable, under the hash of their content; one pointer, CURRENT, is replaced. Everything that
touches them goes through here, so that an object store can stand in for a folder.
"""

import errno
import fcntl
import hashlib
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from warehouse.errors import DraftboardError, InvalidInput

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


def write_whole(path: Path, text: str) -> None:
    """Write a file in one step: a kill leaves the old file or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    # Hidden, and so no private file of the store, which its next writer would remove.
    private = path.with_name(f".{PRIVATE}{path.name.lstrip('.')}")
    private.write_text(text, encoding="utf-8")
    publish(private, path)


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
