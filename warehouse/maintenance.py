"""Keeping a warehouse in order: what it holds, whether it is whole, compacting, keeping less, collecting."""

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from operator import itemgetter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from warehouse.errors import InvalidInput, WarehouseBusy
from warehouse.storage.cache import is_copy, name_of, store_of
from warehouse.storage.collect import collect
from warehouse.storage.current import have, placed, require_current, save
from warehouse.storage.draft import BATCHES, RequestFile
from warehouse.storage.files import (
    PRIVATE,
    REQUESTS,
    TABLES,
    full_disk_explained,
    sha256_of,
)
from warehouse.storage.lists import (
    Segment,
    generations,
    is_old,
    listed_requests,
    lists,
    load,
    retire,
)
from warehouse.storage.lock import WriterLock
from warehouse.storage.tables import attach_parts, merged, sql_text, write_table
from warehouse.store import Reader, open_newest

#: Requests of a file, and cells of a segment, where there are so many.
TARGET_ROWS = 1_000_000
TARGET_CELLS = 32_768
#: The flag of a cell whose requests went.
FLAG = "requests_removed"
#: Seconds for which a file that nothing lists is left alone: a writer may be about to list it.
GRACE = 3600.0


# --- Rewriting a warehouse without changing what it says: few large request files, few segments.


def compact(root: Path) -> int:
    """Merge small segments, and small request files to about ``TARGET_ROWS`` each; returns how many
    request files were merged.

    Only under the writer's lock. The old files stay for readers still at work.
    """
    base = load(root / require_current(root))
    with full_disk_explained(root):
        made: dict[Path, str] = {}
        segments, merged_files = [], 0
        for group in _batches(base.segments, TARGET_CELLS, lambda segment: segment.cells):
            large = group[0] if len(group) == 1 else merged(root, group)
            segment, count = _with_few_files(root, large, made)
            segments.append(segment)
            merged_files += count
        if tuple(segments) != base.segments:
            with placed(root, made):
                save(root, base.followed_by(segments))
    return merged_files


def _batches(given: Sequence[Any], most: int, size: Callable[[Any], int]) -> list[list[Any]]:
    """Return neighbours in groups, each of ``most`` in all or of a single one."""
    groups: list[list[Any]] = []
    total = 0
    for member in given:
        total += size(member)
        if not groups or total > most:
            groups.append([])
            total = size(member)
        groups[-1].append(member)
    return groups


def _with_few_files(root: Path, segment: Segment, made: dict[Path, str]) -> tuple[Segment, int]:
    """Return the segment with its requests in few files, and how many were merged. ``made`` gets the
    private files that were written, with the names that they are to have.
    """
    files = _rows_of(root, segment, "request_files").to_pylist()
    listed: list[dict[str, Any]] = []
    moved: dict[str, str] = {}
    for group in _batches(files, TARGET_ROWS, itemgetter("rows")):
        if len(group) == 1:
            listed.append(group[0])
            continue
        names = [row["file"] for row in group]
        listed.append(_copied_requests(root, names, made))
        moved |= dict.fromkeys(names, listed[-1]["file"])
    if not moved:
        return segment, 0
    cells = _rows_of(root, segment, "cell_requests").to_pylist()
    places = [{**row, "file": moved.get(row["file"], row["file"])} for row in cells]
    changed = {"request_files": listed, "cell_requests": places}
    return _rewritten(root, segment, changed), len(moved)


def _rewritten(
    root: Path, segment: Segment, changed: Mapping[str, list[dict[str, Any]]]
) -> Segment:
    """Return the segment with other rows in some tables, in their files' own types."""
    tables = dict(segment.tables)
    for name, rows in changed.items():
        tables.pop(name, None)
        if rows:
            table = pa.Table.from_pylist(rows, _rows_of(root, segment, name).schema)
            tables[name] = write_table(root, name, table)
    return Segment(segment.cells, tables)


def _rows_of(root: Path, segment: Segment, table: str) -> pa.Table:
    """Return the rows of a table; none, and its columns, where the segment has no file of it."""
    if table in segment.tables:
        return pq.read_table(root / TABLES / segment.tables[table].file)
    schema = BATCHES[table]
    if "cell" in schema.names:
        # Files have the database's types, which hold a cell's number in fewer bytes.
        cell = pq.read_schema(root / TABLES / segment.tables["cells"].file).field("cell")
        schema = schema.set(schema.get_field_index("cell"), cell)
    return schema.empty_table()


def _copied_requests(
    root: Path,
    names: Sequence[str],
    made: dict[Path, str],
    cells: Collection[str] | None = None,
) -> dict[str, Any]:
    """Write the requests of some files, with ``cells`` only theirs, into one; return its row of
    ``request_files``. ``made`` gets the private file, with the name that it is to have.
    """
    out = RequestFile(root)
    have(root, names)
    try:
        for name in names:
            with pq.ParquetFile(root / REQUESTS / name) as file:
                # A row group is a cell; it stays one, so that one cell can be read alone.
                for group in range(file.num_row_groups):
                    table: pa.Table = file.read_row_group(group)
                    if cells is None or table.column("cell_id")[0].as_py() in cells:
                        out.write(table)
        row = out.whole()
    finally:
        out.close()
    assert row is not None  # What is listed holds requests.
    made[out.private] = row["file"]
    return row


# --- Requests of old runs go, their measurements stay: what is kept of a warehouse that grows each night.


def keep(root: Path, since: datetime | None, nights: int | None, days: float | None) -> int:
    """Publish a generation that lists only the requests of runs ``since`` a moment (UTC), of the newest
    ``nights`` of each study, and of the last ``days``; return how many cells have none any more.

    A run that one of the rules names keeps its requests; None names none. Only under the writer's lock.
    The files of the others go with ``gc``. Raises InvalidInput where no rule is given, and LostRace.
    """
    if since is None and nights is None and days is None:
        raise InvalidInput("Nothing says what is to be kept; name at least one rule.")
    base, now = load(root / require_current(root)), datetime.now(UTC)
    last = None if days is None else now - timedelta(days=days)
    with full_disk_explained(root):
        with attach_parts(root, base) as connection:
            # From then on every run keeps its requests.
            given = {"since": min(filter(None, (since, last)), default=None), "nights": nights}
            rows = connection.execute(sql_text("outlived_requests"), given).fetchall()
        going = {int(cell): str(file) for cell, _, file in rows}
        if not going:
            return 0
        made: dict[Path, str] = {}
        sentence = (
            f"The requests of this cell were removed on {now:%Y-%m-%d} (draftboard warehouse keep): its "
            "measurements stay, and what is computed from requests is not shown for it; ingest --replace "
            "reads them again from its report."
        )
        segments = [_without_requests(root, one, going, sentence, made) for one in base.segments]
        with placed(root, made):
            save(root, base.followed_by(segments))
    return len(going)


def _without_requests(
    root: Path, segment: Segment, going: Mapping[int, str], sentence: str, made: dict[Path, str]
) -> Segment:
    """Return the segment without the requests of some cells, each of which is flagged. A file of
    which a part goes is written again; ``made`` gets these, with the names that they are to have.
    """
    cells = _rows_of(root, segment, "cells")
    cell_ids = {
        row["cell"]: row["cell_id"] for row in cells.select(["cell", "cell_id"]).to_pylist()
    }
    numbers = [number for number in cell_ids if number in going]
    if not numbers:
        return segment
    places = [
        row
        for row in _rows_of(root, segment, "cell_requests").to_pylist()
        if row["cell"] not in going
    ]
    cells_of: dict[str, set[str]] = {}
    for row in places:
        cells_of.setdefault(row["file"], set()).add(cell_ids[row["cell"]])
    files = {
        row["file"]: row
        for row in _rows_of(root, segment, "request_files").to_pylist()
        if row["file"] in cells_of
    }
    for name in files.keys() & set(going.values()):
        files[name] = _copied_requests(root, [name], made, cells_of[name])
    flags = _rows_of(root, segment, "flags").to_pylist()
    flags += [{"cell": n, "name": FLAG, "severity": "info", "sentence": sentence} for n in numbers]
    count, at = cells.column("flags"), cells.schema.get_field_index("flags")
    flagged = pc.is_in(cells.column("cell"), pa.array(numbers, cells.schema.field("cell").type))
    counted = pc.add(count, flagged.cast(count.type))
    changed = {
        "flags": sorted(flags, key=itemgetter("cell")),
        "request_files": sorted(files.values(), key=itemgetter("file")),
        "cell_requests": [{**row, "file": files[row["file"]]["file"]} for row in places],
    }
    with_flags = write_table(
        root, "cells", cells.set_column(at, cells.schema.field("flags"), counted)
    )
    return _rewritten(root, Segment(segment.cells, segment.tables | {"cells": with_flags}), changed)


# --- What a warehouse holds, whether it is whole, and what goes that nobody needs.


@dataclass(frozen=True)
class WarehouseFinding:
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
            "segments": len(load(root / require_current(root)).segments),
            "table_bytes": sum(path.stat().st_size for path in (root / TABLES).iterdir()),
            **counts,
        }


def check(root: Path, on_busy: Callable[[str], None] | None = None) -> list[WarehouseFinding]:
    """Return everything that is wrong: missing or altered files, orphans, broken references.

    While a writer is at work its files look like orphans: they are not judged, and ``on_busy`` gets
    one sentence that says so.
    """
    with open_newest(root) as opened:
        tables = [
            {"file": file.file, "sha256": file.sha256, "rows": file.rows, "bytes": file.bytes}
            for file in opened.generation.files()
        ]
    findings = _not_whole(root, TABLES, tables)
    if findings:
        return findings  # What the tables say of the rest cannot be relied upon.
    with Reader(root) as reader:
        findings = _not_whole(root, REQUESTS, reader.query("listed_files").to_pylist())
        findings += (
            WarehouseFinding("reference", row["place"], f"{row['rows']} rows point to nothing.")
            for row in reader.query("broken_references").to_pylist()
        )
    if is_copy(root):
        return findings  # A bucket keeps what older generations list.
    try:
        with WriterLock(root).held(wait=False, on_wait=None):
            held = lists(root)
            listed = {file.file for one in held for file in one.files()}
            listed |= listed_requests(root, held)
            findings += (
                WarehouseFinding(
                    "orphan", path.name, "No generation lists this file; gc removes it."
                )
                for path in (*_parquet(root / TABLES), *_parquet(root / REQUESTS))
                if path.name not in listed
            )
    except (WarehouseBusy, OSError):
        if on_busy is not None:
            on_busy(f"{root} cannot be locked, a writer may be at work: orphans were not judged.")
    return findings


def _parquet(folder: Path) -> list[Path]:
    return [p for p in sorted(folder.glob("*.parquet")) if not p.name.startswith(PRIVATE)]


def _not_whole(
    root: Path, folder: str, listed: Sequence[Mapping[str, Any]]
) -> list[WarehouseFinding]:
    """Return a finding for each file that is missing or is not what was written: of a copy, in its
    store.
    """
    store = store_of(root) if is_copy(root) else None
    findings = []
    for row in listed:
        path, name = root / folder / row["file"], "altered"
        sentence = "Its content is not what was written."
        if store is not None:
            digest = store.digest(f"{folder}/{row['file']}")
            if digest == row["sha256"]:
                continue
            if digest is None:
                name, sentence = "missing", "It is not in the store."
        else:
            try:
                if path.stat().st_size == row["bytes"] and sha256_of(path) == row["sha256"]:
                    if pq.read_metadata(path).num_rows == row["rows"]:
                        continue
                    sentence = "It does not hold the rows that are listed."
            except OSError as error:
                name, sentence = "missing", f"It cannot be read ({error.strerror or error})."
        findings.append(WarehouseFinding(name, row["file"], sentence))
    return findings


def collect_garbage(root: Path, current: int, grace: float = GRACE) -> list[str]:
    """Remove old generations, databases of old versions, and request files that no generation
    has listed for ``grace`` seconds; of a warehouse in an object store there and in the copy.

    Only under the writer's lock. Returns the names of what was removed, for a copy those of its store.
    """
    with full_disk_explained(root):
        there = collect(root, grace) if is_copy(root) else None
        removed = retire(root, current)
        # What a conversion left: CURRENT names a list by now.
        old = [root / name for name in generations(root) if is_old(name)]
        listed = listed_requests(root, lists(root))
        oldest = time.time() - grace
        old += (
            path
            for path in _parquet(root / REQUESTS)
            if path.name not in listed and path.stat().st_mtime <= oldest
        )
        for path in old:
            path.unlink()
        return [*removed, *(path.name for path in old)] if there is None else there
