"""The folder of a cell on the disk: hidden while it is measured, whole when it gets its name."""

import errno
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def fresh_folder(path: Path) -> Iterator[Path]:
    """Make an empty folder, which is gone at the end unless it was put in place."""
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir(parents=True)
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def put_in_place(folder: Path, final: Path) -> None:
    """Rename a folder: from here on it exists with all its files, also after a loss of power."""
    for path in (*folder.iterdir(), folder):
        _to_disk(path)
    folder.rename(final)
    _to_disk(final.parent)


def _to_disk(path: Path) -> None:
    opened = os.open(path, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def require_room(folder: Path, needed: int) -> None:
    """Raise OSError where the disk has less than ``needed`` bytes: better before an hour of load
    than after."""
    if shutil.disk_usage(folder).free < needed:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(folder))
