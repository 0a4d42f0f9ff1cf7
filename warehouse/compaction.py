"""Rewriting a warehouse without changing what it says: few large request files, sorted tables."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from warehouse.store_files import PRIVATE, REQUESTS, full_disk_explained, publish, sha256_of
from warehouse.store_publish import publish_changed
from warehouse.store_read import Reader
from warehouse.store_requests import parquet_writer

TARGET_ROWS = 1_000_000
_FILES = pa.schema(
    {"file": pa.string(), "sha256": pa.string(), "rows": pa.int64(), "bytes": pa.int64()}
)
_MOVES = pa.schema({"old": pa.string(), "new": pa.string()})


def compact(root: Path, target: int = TARGET_ROWS) -> int:
    """Merge small request files to about ``target`` rows each; returns how many files were merged.

    Only under the writer's lock. The old files stay until ``gc``, for readers still at work.
    """
    with Reader(root) as reader:
        base = reader.generation
        listed = reader.query("listed_files").to_pylist()
    groups = [group for group in _groups(listed, target) if len(group) > 1]
    if not groups:
        return 0
    with full_disk_explained(root):
        files = [_merge(root, group) for group in groups]
        moves = [
            {"old": old, "new": file["file"]}
            for file, group in zip(files, groups, strict=True)
            for old in group
        ]
        publish_changed(root, base, base + 1, lambda c: _rewrite(c, files, moves))
    return len(moves)


def _groups(listed: list[dict[str, Any]], target: int) -> Iterator[list[str]]:
    group: list[str] = []
    rows = 0
    for row in listed:
        if group and rows + row["rows"] > target:
            yield group
            group, rows = [], 0
        group.append(row["file"])
        rows += row["rows"]
    yield group


def _merge(root: Path, names: list[str]) -> dict[str, Any]:
    private = root / REQUESTS / f"{PRIVATE}{os.getpid()}-merged.parquet"
    rows = 0
    with parquet_writer(private) as writer:
        for name in names:
            with pq.ParquetFile(root / REQUESTS / name) as file:
                # A row group is a cell; it stays one, so that one cell can be read alone.
                for group in range(file.num_row_groups):
                    table = file.read_row_group(group)
                    writer.write_table(table.cast(writer.schema))
                    rows += table.num_rows
    digest = sha256_of(private)
    size = private.stat().st_size
    publish(private, private.with_name(f"{digest}.parquet"))
    return {"file": f"{digest}.parquet", "sha256": digest, "rows": rows, "bytes": size}


def _rewrite(
    connection: duckdb.DuckDBPyConnection,
    files: list[dict[str, Any]],
    moves: list[dict[str, str]],
) -> None:
    connection.register("files", pa.Table.from_pylist(files, schema=_FILES))
    connection.register("moves", pa.Table.from_pylist(moves, schema=_MOVES))
    connection.execute("insert into request_files by name select * from files")
    connection.execute(
        "create temp table placed as select cell, new as file, rows from cell_requests "
        "join moves on old = file"
    )
    # Foreign keys are checked statement by statement: take out, then put back.
    connection.execute("delete from cell_requests where cell in (select cell from placed)")
    connection.execute("insert into cell_requests by name select * from placed")
    connection.execute("delete from request_files where file in (select old from moves)")
    connection.execute(
        "create temp table sorted as from measurements order by metric, statistic, cell"
    )
    connection.execute("truncate measurements")
    connection.execute("insert into measurements by name select * from sorted")
