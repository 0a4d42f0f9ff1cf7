"""Keeping a warehouse in order: what it holds, whether it is whole, compacting, collecting."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq

from warehouse.errors import WarehouseBusy
from warehouse.store_cache import is_copy, name_of, store_of
from warehouse.store_collect import collect
from warehouse.store_files import PRIVATE, REQUESTS, TABLES, full_disk_explained, sha256_of
from warehouse.store_list import current_name, generations, is_old, lists, load
from warehouse.store_lock import WriterLock
from warehouse.store_read import Reader, listed_files
from warehouse.store_turnover import retire

if TYPE_CHECKING:
    from warehouse.store_object import ObjectStore

GRACE = 3600.0
"""Seconds for which a file that nothing lists is left alone: a writer may be about to list it."""


@dataclass(frozen=True)
class Finding:
    """Something wrong with a warehouse: what, and where."""

    name: str
    where: str
    sentence: str


def info(root: Path) -> dict[str, Any]:
    """Return what the warehouse holds, and how large it is on the disk (bytes)."""
    with Reader(root) as reader:
        counts: dict[str, Any] = reader.query("overview").to_pylist()[0]
        return {
            "path": name_of(root),
            "generation": reader.generation,
            "generations": sorted(generations(root).values()),
            "segments": len(load(root / (current_name(root) or "")).segments),
            "table_bytes": sum(path.stat().st_size for path in (root / TABLES).iterdir()),
            **counts,
        }


def check(root: Path, on_busy: Callable[[str], None] | None = None) -> list[Finding]:
    """Return everything that is wrong: missing or altered files, orphans, broken references.

    While a writer is at work its files look like orphans: they are not judged, and ``on_busy`` gets
    one sentence that says so.
    """
    look = partial(_check_object, store_of(root)) if is_copy(root) else partial(_check_file, root)
    findings = [found for row in _table_files(root) for found in look(TABLES, row)]
    if findings:
        return findings  # What the tables say of the rest cannot be relied upon.
    with Reader(root) as reader:
        listed = reader.query("listed_files").to_pylist()
        findings = [found for row in listed for found in look(REQUESTS, row)]
        for row in reader.query("broken_references").to_pylist():
            findings.append(
                Finding("reference", row["place"], f"{row['rows']} rows point to nothing.")
            )
    if is_copy(root):
        return findings  # A bucket keeps what older generations list.
    try:
        with WriterLock(root).held(wait=False, on_wait=None):
            return findings + _orphans(root)
    except (WarehouseBusy, OSError):
        if on_busy is not None:
            on_busy(f"{root} cannot be locked, a writer may be at work: orphans were not judged.")
    return findings


def _table_files(root: Path) -> list[dict[str, Any]]:
    with Reader(root) as reader:
        files = reader.files()
    return [
        {"file": one.file, "sha256": one.sha256, "rows": one.rows, "bytes": one.bytes}
        for one in files
    ]


def _orphans(root: Path) -> list[Finding]:
    """Return the files that no generation lists. Only under the writer's lock."""
    tables = {file.file for one in lists(root) for file in one.files()}
    return [
        Finding("orphan", path.name, "No generation lists this file; gc removes it.")
        for folder, listed in ((TABLES, tables), (REQUESTS, listed_files(root)))
        for path in sorted((root / folder).glob("*.parquet"))
        if path.name not in listed and not path.name.startswith(PRIVATE)
    ]


def _check_object(store: "ObjectStore", folder: str, row: dict[str, Any]) -> Iterator[Finding]:
    found = store.digest(f"{folder}/{row['file']}")
    if found is None:
        yield Finding("missing", row["file"], "It is not in the store.")
    elif found != row["sha256"]:
        yield Finding("altered", row["file"], "Its content is not what was written.")


def _check_file(root: Path, folder: str, row: dict[str, Any]) -> Iterator[Finding]:
    path = root / folder / row["file"]
    try:
        if path.stat().st_size != row["bytes"] or sha256_of(path) != row["sha256"]:
            yield Finding("altered", row["file"], "Its content is not what was written.")
        elif pq.read_metadata(path).num_rows != row["rows"]:
            yield Finding("altered", row["file"], "It does not hold the rows that are listed.")
    except OSError as error:
        yield Finding("missing", row["file"], f"It cannot be read ({error.strerror or error}).")


def collect_garbage(root: Path, current: int, grace: float = GRACE) -> list[str]:
    """Remove old generations, databases of old versions, and request files that no generation
    has listed for ``grace`` seconds; of a warehouse in an object store there and in the copy.

    Only under the writer's lock. Returns the names of what was removed, for a copy those of its store.
    """
    with full_disk_explained(root):
        there = collect(root, grace) if is_copy(root) else None
        removed = [*retire(root, current), *_old_databases(root)]
        listed = listed_files(root)
        oldest = time.time() - grace
        for path in sorted((root / REQUESTS).glob("*.parquet")):
            unneeded = path.name not in listed and not path.name.startswith(PRIVATE)
            if unneeded and path.stat().st_mtime <= oldest:
                path.unlink()
                removed.append(path.name)
        here = removed
        return here if there is None else there


def _old_databases(root: Path) -> list[str]:
    """Remove the databases that a conversion left: CURRENT names a list by now. Return their
    names."""
    old = [name for name in generations(root) if is_old(name)]
    for name in old:
        (root / name).unlink()
    return old
