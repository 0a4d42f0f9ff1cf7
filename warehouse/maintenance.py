"""Keeping a warehouse in order: what it holds, whether it is whole, compacting, keeping less, collecting."""

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from warehouse.errors import InvalidInput, WarehouseBusy
from warehouse.store_cache import is_copy, name_of, store_of
from warehouse.store_collect import collect
from warehouse.store_draft import parquet_writer, private_requests, row_of
from warehouse.store_files import PRIVATE, REQUESTS, TABLES, full_disk_explained, sha256_of, sync
from warehouse.store_list import (
    Generation,
    Segment,
    current_name,
    generations,
    is_old,
    lists,
    load,
    no_current,
)
from warehouse.store_lock import WriterLock
from warehouse.store_read import Reader, listed_files
from warehouse.store_remote import have
from warehouse.store_rows import BATCHES
from warehouse.store_tables import attach_parts, merged, sql_text, write_table
from warehouse.store_turnover import retire, save
from warehouse.store_write import placed

if TYPE_CHECKING:
    from warehouse.store_object import ObjectStore


# --- Rewriting a warehouse without changing what it says: few large request files, few segments.


#: Requests of a file, and cells of a segment, where there are so many.
TARGET_ROWS = 1_000_000
TARGET_CELLS = 32_768


def compact(root: Path, target: int = TARGET_ROWS) -> int:
    """Merge small segments, and small request files to about ``target`` rows each; returns how many
    request files were merged.

    Only under the writer's lock. The old files stay for readers still at work.
    """
    name = current_name(root)
    if name is None:
        raise no_current(root)
    base = load(root / name)
    with full_disk_explained(root):
        large = [
            (group[0] if len(group) == 1 else merged(root, group))
            for group in _groups(base.segments)
        ]
        files: dict[Path, str] = {}
        found = [_with_few_files(root, segment, target, files) for segment in large]
        segments = tuple(segment for segment, _ in found)
        if segments != base.segments:
            with placed(root, files):
                save(root, Generation(base.number + 1, base.next_cell, segments, base.rejections))
    return sum(count for _, count in found)


def _groups(segments: Sequence[Segment]) -> Iterator[list[Segment]]:
    group: list[Segment] = []
    for segment in segments:
        if group and sum(one.cells for one in group) + segment.cells > TARGET_CELLS:
            yield group
            group = []
        group.append(segment)
    if group:
        yield group


def _with_few_files(
    root: Path, segment: Segment, target: int, made_files: dict[Path, str]
) -> tuple[Segment, int]:
    """Return the segment with its requests in few files, and how many were merged.

    ``made_files`` gets the private files that were written, with the names that they are to have.
    """
    if "request_files" not in segment.tables:
        return segment, 0
    files = _rows(root, segment, "request_files")
    groups = [group for group in _small(files, target) if len(group) > 1]
    if not groups:
        return segment, 0
    made = {group: copied_requests(root, group, made_files) for group in map(tuple, groups)}
    moved = {old: row["file"] for group, row in made.items() for old in group}
    listed = [row for row in files if row["file"] not in moved] + list(made.values())
    placed = [
        {**row, "file": moved.get(row["file"], row["file"])}
        for row in _rows(root, segment, "cell_requests")
    ]
    tables = {
        name: write_table(
            root,
            name,
            pa.Table.from_pylist(rows, pq.read_schema(root / TABLES / segment.tables[name].file)),
        )
        for name, rows in (("request_files", listed), ("cell_requests", placed))
    }
    return Segment(segment.cells, segment.tables | tables), len(moved)


def _rows(root: Path, segment: Segment, table: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = pq.read_table(
        root / TABLES / segment.tables[table].file
    ).to_pylist()
    return found


def _small(files: list[dict[str, Any]], target: int) -> Iterator[list[str]]:
    group: list[str] = []
    rows = 0
    for row in files:
        if group and rows + row["rows"] > target:
            yield group
            group, rows = [], 0
        group.append(row["file"])
        rows += row["rows"]
    yield group


def copied_requests(
    root: Path,
    names: Sequence[str],
    made_files: dict[Path, str],
    cells: Collection[str] | None = None,
) -> dict[str, Any]:
    """Write the requests of some files, with ``cells`` only theirs, into one; return its row of
    ``request_files``. ``made_files`` gets the private file, with the name that it is to have."""
    private = private_requests(root)
    rows = 0
    have(root, names)
    with parquet_writer(private) as writer:
        for name in names:
            with pq.ParquetFile(root / REQUESTS / name) as file:
                # A row group is a cell; it stays one, so that one cell can be read alone.
                for group in range(file.num_row_groups):
                    table: pa.Table = file.read_row_group(group)
                    if cells is not None and table.column("cell_id")[0].as_py() not in cells:
                        continue
                    writer.write_table(table.cast(writer.schema))
                    rows += table.num_rows
    sync(private)
    row = row_of(private, rows)
    made_files[private] = row["file"]
    return row


# --- Requests of old runs go, their measurements stay: what is kept of a warehouse that grows each night.


#: The flag of a cell whose requests went.
FLAG = "requests_removed"


@dataclass(frozen=True)
class Rules:
    """Whose requests are kept: of runs ``since`` a moment (UTC), of the newest ``nights`` of each study,
    and of the last ``days``. A run that one of them names keeps its own; None names none."""

    since: datetime | None = None
    nights: int | None = None
    days: float | None = None

    def kept_since(self, now: datetime) -> datetime | None:
        """Return the moment from which on every run keeps its requests."""
        last = None if self.days is None else now - timedelta(days=self.days)
        return min(filter(None, (self.since, last)), default=None)


@dataclass(frozen=True)
class Removed:
    """The cells that have no requests any more, and in how many files these were."""

    cells: int
    files: int


def keep(root: Path, rules: Rules) -> Removed:
    """Publish a generation in which the requests of all other runs are not listed any more.

    Only under the writer's lock. Their files go with ``gc``. Raises InvalidInput where no rule is given,
    and LostRace.
    """
    if rules == Rules():
        raise InvalidInput("Nothing says what is to be kept; name at least one rule.")
    name = current_name(root)
    if name is None:
        raise no_current(root)
    base, now = load(root / name), datetime.now(UTC)
    with full_disk_explained(root):
        text = sql_text("outlived_requests")
        given = {"since": rules.kept_since(now), "nights": rules.nights}
        with attach_parts(root, base) as connection:
            rows = connection.execute(text, given).fetchall()
        going = {int(cell): str(file) for cell, _, file in rows}
        if not going:
            return Removed(0, 0)
        made: dict[Path, str] = {}
        sentence = (
            f"The requests of this cell were removed on {now:%Y-%m-%d} (draftboard warehouse keep): its "
            "measurements stay, and what is computed from requests is not shown for it; ingest --replace "
            "reads them again from its report."
        )
        segments = [_without_requests(root, one, going, sentence, made) for one in base.segments]
        with placed(root, made):
            save(
                root, Generation(base.number + 1, base.next_cell, tuple(segments), base.rejections)
            )
    return Removed(len(going), len(set(going.values())))


def _without_requests(
    root: Path, segment: Segment, going: Mapping[int, str], sentence: str, made: dict[Path, str]
) -> Segment:
    """Return the segment without the requests of some cells, each of which is flagged; ``made`` gets the
    private files of requests that were written, with the names that they are to have."""
    cells = _read(root, segment, "cells")
    numbers = [number for number in cells.column("cell").to_pylist() if number in going]
    if not numbers:
        return segment
    said = [{"cell": n, "name": FLAG, "severity": "info", "sentence": sentence} for n in numbers]
    files, places = _left(root, segment, going, made)
    flags = _read(root, segment, "flags")
    changed = {
        "cells": _flagged(cells, numbers),
        "flags": pa.concat_tables([flags, _like(flags, said)]).sort_by("cell"),
        "request_files": _like(_read(root, segment, "request_files"), files),
        "cell_requests": _like(_read(root, segment, "cell_requests"), places),
    }
    written = {
        name: write_table(root, name, rows) for name, rows in changed.items() if rows.num_rows
    }
    others = {name: file for name, file in segment.tables.items() if name not in changed}
    return Segment(segment.cells, others | written)


def _flagged(cells: pa.Table, numbers: Collection[int]) -> pa.Table:
    """Return the rows of ``cells`` with one flag more where the number is one of these."""
    more = pc.is_in(cells.column("cell"), pa.array(numbers, cells.schema.field("cell").type))
    count = cells.column("flags")
    place = cells.schema.get_field_index("flags")
    return cells.set_column(
        place, cells.schema.field("flags"), pc.add(count, more.cast(count.type))
    )


def _left(
    root: Path, segment: Segment, going: Mapping[int, str], made: dict[Path, str]
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the rows of ``request_files`` and ``cell_requests`` that stay. A file of which a part goes
    is written again."""
    names = _read(root, segment, "cells").select(["cell", "cell_id"]).to_pylist()
    cell_ids = {row["cell"]: row["cell_id"] for row in names}
    left = [
        row for row in _read(root, segment, "cell_requests").to_pylist() if row["cell"] not in going
    ]
    cells_of: dict[str, set[str]] = {}
    for row in left:
        cells_of.setdefault(row["file"], set()).add(cell_ids[row["cell"]])
    files = {
        row["file"]: row
        for row in _read(root, segment, "request_files").to_pylist()
        if row["file"] in cells_of
    }
    for name in files.keys() & set(going.values()):
        files[name] = copied_requests(root, [name], made, cells_of[name])
    places = [{**row, "file": files[row["file"]]["file"]} for row in left]
    return sorted(files.values(), key=itemgetter("file")), places


def _like(table: pa.Table, rows: Sequence[dict[str, Any]]) -> pa.Table:
    return pa.Table.from_pylist(list(rows), schema=table.schema)


def _read(root: Path, segment: Segment, table: str) -> pa.Table:
    """Return the rows of a table; none, and its columns, where the segment has no file of it."""
    if table in segment.tables:
        return pq.read_table(root / TABLES / segment.tables[table].file)
    cell = pq.read_schema(root / TABLES / segment.tables["cells"].file).field("cell")
    schema = BATCHES[table]
    # Files have the database's types, which hold a cell's number in fewer bytes.
    return schema.set(schema.get_field_index("cell"), cell).empty_table()


# --- Keeping a warehouse in order: what it holds, whether it is whole, compacting, collecting.


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
