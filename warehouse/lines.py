"""Files that are only ever added to, a JSON object a line, beside the generations."""

import os
from pathlib import Path
from typing import TypeVar

import msgspec

from warehouse.errors import WarehouseBusy
from warehouse.store_cache import append as append_remote
from warehouse.store_cache import is_copy
from warehouse.store_files import full_disk_explained, refuse_bundle, sync
from warehouse.store_list import current_generation, no_current
from warehouse.store_remote import follow

#: Nobody holds the lock for longer than a few lines take to write.
_WAIT = 10.0
Line = TypeVar("Line")


def append(root: Path, name: str, lines: bytes) -> None:
    """Write lines behind the others, durably; several processes may do so at once.

    Raises WarehouseMissing where there is no warehouse, WarehouseBusy where another process keeps
    the file locked, and a sentence for a full disk.
    """
    # Imported here, so that whoever only reads does without it.
    from filelock import FileLock, Timeout

    refuse_bundle(root)
    if current_generation(root) is None:
        raise no_current(root)
    if is_copy(root):
        append_remote(root, name, lines)
        return
    lock = FileLock(
        (root / name).with_suffix(".lock"), fallback_to_soft=False, preserve_lock_file=True
    )
    with full_disk_explained(root):
        try:
            with lock.acquire(timeout=_WAIT):
                _append(root / name, lines)
        except Timeout as error:
            raise WarehouseBusy(
                f"Another process has kept {lock.lock_file} locked for {_WAIT:g} s; try again."
            ) from error


def read(path: Path, kind: type[Line]) -> list[Line]:
    """Return the lines of a file as values of one kind; none where there is no file. A line that is
    no such value, such as one that is only half written, is passed over."""
    if is_copy(path.parent):
        follow(path.parent)
    try:
        lines = path.read_bytes().split(b"\n")
    except (FileNotFoundError, NotADirectoryError):
        return []
    known = (_value(line, kind) for line in lines if line.strip())
    return [value for value in known if value is not None]


def _value(line: bytes, kind: type[Line]) -> Line | None:
    try:
        return msgspec.json.decode(line, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def _append(path: Path, lines: bytes) -> None:
    new = not path.exists()
    descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o644)
    size = os.fstat(descriptor).st_size
    try:
        if _is_half_written(descriptor):
            lines = b"\n" + lines
        while lines:
            lines = lines[os.write(descriptor, lines) :]
        os.fsync(descriptor)
    except OSError:
        # A line that does not fit is taken back whole.
        os.ftruncate(descriptor, size)
        if new:
            path.unlink()
        raise
    finally:
        os.close(descriptor)
    if new:
        sync(path.parent)


def _is_half_written(descriptor: int) -> bool:
    """Return whether the last line has no end: a writer was killed in the middle of it."""
    size = os.fstat(descriptor).st_size
    return size > 0 and os.pread(descriptor, 1, size - 1) != b"\n"
