"""Rewriting a warehouse without changing what it says: few large request files, few segments."""

from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from warehouse.store_files import REQUESTS, TABLES, full_disk_explained, sync
from warehouse.store_list import Generation, Segment, current_name, load, no_current
from warehouse.store_placing import placed
from warehouse.store_remote import have
from warehouse.store_requests import parquet_writer, private_requests, row_of
from warehouse.store_tables import merged, write_table
from warehouse.store_turnover import save

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
