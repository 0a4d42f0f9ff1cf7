"""Keeping a warehouse in order: what it holds, whether it is whole, compacting, collecting."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from warehouse.errors import WarehouseBusy
from warehouse.store_files import (
    PRIVATE,
    REQUESTS,
    full_disk_explained,
    generations,
    remove_generations,
    sha256_of,
)
from warehouse.store_lock import writer_lock
from warehouse.store_read import Reader, listed_files

GRACE = 3600.0
"""Seconds for which a file that nothing lists is left alone: a writer may be about to list it."""


@dataclass(frozen=True)
class Finding:
    """Something wrong with a warehouse: what, and where."""

    name: str
    where: str
    sentence: str


def info(root: Path) -> dict[str, Any]:
    """What the warehouse holds, and how large it is on the disk (bytes)."""
    with Reader(root) as reader:
        counts: dict[str, Any] = reader.query("overview").to_pylist()[0]
        size = sum(path.stat().st_size for path in generations(root).values())
        return {
            "path": str(root),
            "generation": reader.generation,
            "generations": sorted(generations(root)),
            "database_bytes": size,
            **counts,
        }


def check(root: Path, on_busy: Callable[[str], None] | None = None) -> list[Finding]:
    """Everything that is wrong: missing or altered request files, orphans, broken references.

    While a writer is at work its files look like orphans: they are not judged, and ``on_busy``
    gets one sentence that says so.
    """
    with Reader(root) as reader:
        listed = reader.query("listed_files").to_pylist()
        findings = [found for row in listed for found in _check_file(root, row)]
        for row in reader.query("broken_references").to_pylist():
            findings.append(
                Finding("reference", row["place"], f"{row['rows']} rows point to nothing.")
            )
    try:
        with writer_lock(root, wait=False, on_wait=None):
            return findings + _orphans(root)
    except (WarehouseBusy, OSError):
        if on_busy is not None:
            on_busy(f"{root} cannot be locked, a writer may be at work: orphans were not judged.")
    return findings


def _orphans(root: Path) -> list[Finding]:
    """Only under the writer's lock."""
    listed = listed_files(root)
    return [
        Finding("orphan", path.name, "No generation lists this file; gc removes it.")
        for path in sorted((root / REQUESTS).glob("*.parquet"))
        if path.name not in listed and not path.name.startswith(PRIVATE)
    ]


def _check_file(root: Path, row: dict[str, Any]) -> Iterator[Finding]:
    path = root / REQUESTS / row["file"]
    try:
        if path.stat().st_size != row["bytes"] or sha256_of(path) != row["sha256"]:
            yield Finding("altered", row["file"], "Its content is not what was written.")
        elif pq.read_metadata(path).num_rows != row["rows"]:
            yield Finding("altered", row["file"], "It does not hold the rows that are listed.")
    except OSError as error:
        yield Finding("missing", row["file"], f"It cannot be read ({error.strerror or error}).")


def collect_garbage(root: Path, current: int, grace: float = GRACE) -> list[str]:
    """Remove generations beyond the two kept, and request files that none lists after ``grace`` s.

    Only under the writer's lock. Returns the names of what was removed.
    """
    with full_disk_explained(root):
        removed = [path.name for path in remove_generations(root, current)]
        listed = listed_files(root)
        oldest = time.time() - grace
        for path in sorted((root / REQUESTS).glob("*.parquet")):
            unneeded = path.name not in listed and not path.name.startswith(PRIVATE)
            if unneeded and path.stat().st_mtime <= oldest:
                path.unlink()
                removed.append(path.name)
        return removed
