"""A private folder beside what is being written for somebody: a copy of a warehouse, a bundle.

Whoever works in one holds a lock on it, so that the next can tell what a killed one left and
remove it.
"""

import fcntl
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from warehouse.store_files import PRIVATE

_NAME = re.compile(rf"{PRIVATE}\d+-draftboard-.+")


@contextmanager
def private_beside(out: Path) -> Iterator[Path]:
    """Make an empty folder on the disk of ``out`` for the block, which is removed at the end with
    what is left in it.

    What killed ones left in the same place is removed first.
    """
    out.parent.mkdir(parents=True, exist_ok=True)
    for left in out.parent.glob(f"{PRIVATE}*"):
        if _NAME.fullmatch(left.name):
            _remove_if_left(left)
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


def _remove_if_left(place: Path) -> None:
    with suppress(OSError):
        descriptor = os.open(place, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(place, ignore_errors=True)
        finally:
            os.close(descriptor)
