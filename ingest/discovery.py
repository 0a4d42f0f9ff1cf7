"""Finds what there is to ingest: result files and drops, each once, whatever links say."""

import os
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from ingest.formats.drop import is_drop
from ingest.formats.vllm_sweep import is_by_product
from warehouse.published import is_table
from warehouse.rows import Rejection

SUFFIXES = (".json", ".json.gz", ".json.zst")


@dataclass(frozen=True)
class Unit:
    """One thing to ingest: a report's file, or the folder of a drop."""

    path: Path
    is_drop: bool
    bytes: int
    """As stored; for the progress bar."""


def find_units(paths: Iterable[Path]) -> Iterator[Unit | Rejection]:
    """Every unit under the given files and folders, in the order of their names.

    A file named by the user is taken whatever its name; in folders only ``SUFFIXES`` and published
    tables count. Hidden names are passed over. Something that cannot be looked at becomes a Rejection.
    """
    seen: set[tuple[int, int]] = set()
    for path in paths:
        yield from _visit(path, seen, named=True)


def _visit(path: Path, seen: set[tuple[int, int]], named: bool) -> Iterator[Unit | Rejection]:
    try:
        status = path.stat()
    except OSError as error:
        if named or path.name.endswith(SUFFIXES):
            yield Rejection(str(path), unreadable(error))
        return
    if stat.S_ISDIR(status.st_mode):
        yield from _folder(path, status, seen)
    elif named or is_table(path) or (path.name.endswith(SUFFIXES) and not is_by_product(path)):
        yield from _file(path, status, seen)


def _folder(
    path: Path, status: os.stat_result, seen: set[tuple[int, int]]
) -> Iterator[Unit | Rejection]:
    # A folder met twice is a loop of links or a second name for the same results.
    if _met(status, seen):
        return
    if is_drop(path):
        yield Unit(path, True, sum(p.stat().st_size for p in path.iterdir() if p.is_file()))
        return
    try:
        members = sorted(p for p in path.iterdir() if not p.name.startswith("."))
    except OSError as error:
        yield Rejection(str(path), unreadable(error))
        return
    for member in members:
        yield from _visit(member, seen, named=False)


def _file(
    path: Path, status: os.stat_result, seen: set[tuple[int, int]]
) -> Iterator[Unit | Rejection]:
    if not stat.S_ISREG(status.st_mode):
        yield Rejection(str(path), "This is not a regular file; name a report or a folder.")
    elif path.name == "record.json":
        yield from _visit(path.parent, seen, named=True)
    elif not _met(status, seen):
        yield Unit(path, False, status.st_size)


def _met(status: os.stat_result, seen: set[tuple[int, int]]) -> bool:
    key = (status.st_dev, status.st_ino)
    if key in seen:
        return True
    seen.add(key)
    return False


def unreadable(error: OSError) -> str:
    """One sentence for a file that the system does not let us read."""
    said = error.strerror or type(error).__name__
    return f"This cannot be read ({said}); check the path, its links and its permissions."
