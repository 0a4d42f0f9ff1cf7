"""One new generation: a private copy of the last one, changed, checked, and put in place."""

import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from warehouse.errors import DraftboardError
from warehouse.store_files import (
    PRIVATE,
    SCHEMA_VERSION,
    database_explained,
    generation_name,
    point_current,
    publish,
    remove_generations,
)
from warehouse.store_read import sql_text

#: Small blocks: every commit copies the file, and most tables are small.
_BLOCK = 16_384

#: In what order rows lie on the disk, so that a page's query reads few row groups.
_ORDER = {"measurements": "metric, statistic, cell", "samples": 'cell, name, "at"'}
#: Children before parents: DuckDB checks foreign keys at each statement.
_OF_A_CELL = (
    "samples", "flags", "acceptance_by_position", "acceptance", "measurements", "cell_requests",
)  # fmt: skip
_REJECTIONS = pa.schema(
    {"path": pa.string(), "reason": pa.string(), "rejected_at": pa.timestamp("us", "UTC")}
)


@dataclass(frozen=True)
class Batch:
    """Everything that one commit changes."""

    tables: dict[str, pa.Table] = field(default_factory=dict)
    forgotten: list[str] = field(default_factory=list)
    unrejected: list[str] = field(default_factory=list)
    rejected: list[dict[str, Any]] = field(default_factory=list)


def publish_generation(root: Path, base: int | None, number: int, batch: Batch) -> int:
    """Publish generation ``number``: ``base`` (None: an empty one) changed by ``batch``."""
    return publish_changed(root, base, number, lambda connection: _apply(connection, batch))


def publish_changed(
    root: Path, base: int | None, number: int, change: Callable[[duckdb.DuckDBPyConnection], None]
) -> int:
    """Publish generation ``number``: ``base`` (None: an empty one) after ``change``."""
    private = root / f"{PRIVATE}{os.getpid()}-{generation_name(number)}"
    try:
        if base is not None:
            shutil.copyfile(root / generation_name(base), private)
        _build(private, base is None, change)
        publish(private, root / generation_name(number))
    finally:
        for path in (private, private.with_name(private.name + ".wal")):
            path.unlink(missing_ok=True)
    point_current(root, number)
    remove_generations(root, number)
    return number


def create_schema(connection: duckdb.DuckDBPyConnection) -> None:
    """The empty tables of a new warehouse."""
    connection.execute(sql_text("schema"))
    connection.execute("insert into meta values ($version)", {"version": SCHEMA_VERSION})


def _build(private: Path, empty: bool, change: Callable[[duckdb.DuckDBPyConnection], None]) -> None:
    try:
        with duckdb.connect(str(private), config={"default_block_size": _BLOCK}) as connection:
            connection.execute("load icu; set TimeZone = 'UTC'")
            if empty:
                create_schema(connection)
            change(connection)
            connection.execute("checkpoint")
    except duckdb.ConstraintException as error:
        raise DraftboardError(
            f"A row does not keep the warehouse's rules ({str(error).splitlines()[0]}); nothing "
            f"was published: please report it with the file that was ingested."
        ) from error
    except duckdb.Error as error:
        raise database_explained(error, private.parent) from error


def _apply(connection: duckdb.DuckDBPyConnection, batch: Batch) -> None:
    _forget(connection, batch.forgotten)
    if batch.unrejected:
        connection.execute(
            "delete from rejections where list_contains($paths::varchar[], path)",
            {"paths": batch.unrejected},
        )
    _insert(connection, "rejections", pa.Table.from_pylist(batch.rejected, schema=_REJECTIONS))
    for name, table in batch.tables.items():
        _insert(connection, name, table)


def _insert(connection: duckdb.DuckDBPyConnection, name: str, table: pa.Table) -> None:
    if table.num_rows == 0:
        return
    connection.register("batch", table)
    order = f" order by {_ORDER[name]}" if name in _ORDER else ""
    # The names are ours (BATCHES and _ORDER), never a user's.
    connection.execute(f"insert into {name} by name select * from batch{order}")
    connection.unregister("batch")


def _forget(connection: duckdb.DuckDBPyConnection, source_ids: list[str]) -> None:
    if not source_ids:
        return
    connection.execute(
        "create temp table gone as select cell, file from cells left join cell_requests "
        "using (cell) where list_contains($source_ids::varchar[], source_id)",
        {"source_ids": source_ids},
    )
    for table in (*_OF_A_CELL, "cells"):
        connection.execute(f"delete from {table} where cell in (select cell from gone)")
    connection.execute(
        "delete from request_files where file in (select file from gone) "
        "and file not in (select file from cell_requests)"
    )
    connection.execute(
        "delete from sources where list_contains($source_ids::varchar[], source_id)",
        {"source_ids": source_ids},
    )
    connection.execute("drop table gone")
