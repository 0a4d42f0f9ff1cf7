"""Tables as Parquet files and as views: rows are checked, sorted and written once; our connections to DuckDB."""

import os
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from warehouse.errors import DraftboardError, WarehouseDamaged
from warehouse.store_cache import name_of, said_of
from warehouse.store_files import COMPRESSION, PRIVATE, TABLES, put
from warehouse.store_list import File, Generation, Segment
from warehouse.store_rows import BATCHES, REJECTIONS

# --- Connections to DuckDB with our settings, and the text of our queries.


SQL = Path(__file__).parent / "sql"
THREADS = min(4, os.cpu_count() or 1)


@cache
def sql_text(name: str) -> str:
    """Return the text of ``warehouse/sql/<name>.sql``."""
    return (SQL / f"{name}.sql").read_text(encoding="utf-8")


def memory_connection() -> duckdb.DuckDBPyConnection:
    """Open an in-memory connection: UTC, few threads, nothing fetched from the net.

    It keeps the footers of Parquet files, which never change under their names.
    """
    connection = duckdb.connect(
        ":memory:",
        config={
            "threads": THREADS,
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
        },
    )
    connection.execute(
        "load icu; set global TimeZone = 'UTC'; set global parquet_metadata_cache = true"
    )
    return connection


def quoted(path: Path) -> str:
    """Return a path as a literal, where no parameter is taken."""
    return "'" + str(path).replace("'", "''") + "'"


def confine(connection: duckdb.DuckDBPyConnection, paths: Iterable[Path]) -> None:
    """Let a connection reach no file but those in these folders, and no network, from now on."""
    folders = ", ".join(quoted(path.absolute()) for path in paths)
    connection.execute(f"set allowed_directories = [{folders}]")
    connection.execute("set enable_external_access = false")


# --- Tables as Parquet files: rows are checked, sorted and written once, and read as views.


_ROW_GROUP = 65_536
#: In what order rows lie in a file, so that a page's query reads few row groups.
_ORDER = {
    **dict.fromkeys(BATCHES, "cell"),
    "sources": "ingested_at, path",
    "request_files": "file",
    "measurements": "metric, statistic, cell",
    "samples": 'cell, name, "at"',
}
_SCHEMAS = {**BATCHES, "rejections": REJECTIONS}
#: Columns that files may lack although their version is ours: they are younger than it.
_YOUNGER = {"cells": " union all by name select null::varchar as engine_settings where false"}


def write_segment(root: Path, tables: dict[str, pa.Table]) -> Segment:
    """Write whole sources as files of their own. Raises DraftboardError where a row is not as
    ``schema.sql`` asks; then nothing is listed."""
    with memory_connection() as connection:
        connection.execute(sql_text("schema"))
        try:
            for name in BATCHES:
                if name in tables and tables[name].num_rows:
                    connection.register("batch", tables[name])
                    # The names are ours, never a user's.
                    connection.execute(f"insert into {name} by name select * from batch")
                    connection.unregister("batch")
        except duckdb.ConstraintException as error:
            raise DraftboardError(
                f"A row does not keep the warehouse's rules ({str(error).splitlines()[0]}); "
                f"nothing was published: please report it with the file that was ingested."
            ) from error
        return _write_all(connection, root)


def write_rejections(root: Path, rows: pa.Table) -> File | None:
    """Write the file of all rejections and return it; None where there is none."""
    return write_table(root, "rejections", rows) if rows.num_rows else None


def merged(root: Path, segments: Collection[Segment]) -> Segment:
    """Return one segment with the rows of several."""
    with attach_parts(root, Generation(0, segments=tuple(segments))) as connection:
        return _write_all(connection, root)


def without(root: Path, segment: Segment, source_ids: Collection[str]) -> Segment | None:
    """Return the segment without some sources: itself where it has none of them, None where it has
    no others."""
    with attach_parts(root, Generation(0, segments=(segment,))) as connection:
        given = {"source_ids": list(source_ids)}
        connection.execute(
            "create temp table kept as select cell, source_id from store.cells "
            "where not list_contains($source_ids::varchar[], source_id)", given,
        )  # fmt: skip
        sources = connection.execute(
            "select count(*), count(*) filter (list_contains($source_ids::varchar[], source_id)) "
            "from store.sources", given,
        ).fetchone()  # fmt: skip
        there, gone = sources or (0, 0)
        if not gone:
            return segment
        if gone == there:
            return None
        connection.execute(sql_text("kept"))
        return _write_all(connection, root)


def attach_parts(root: Path, generation: Generation) -> duckdb.DuckDBPyConnection:
    """Open a connection in which ``store`` has every table of a generation, as views over its
    files.

    Raises WarehouseDamaged where a file is missing or is no Parquet file.
    """
    connection = memory_connection()
    connection.execute("attach ':memory:' as store; use store")
    connection.execute(
        "create table meta as select $version::integer as schema_version",
        {"version": generation.schema_version},
    )
    for name, schema in _SCHEMAS.items():
        files = generation.of(name)
        if files:
            paths = ", ".join(quoted((root / TABLES).absolute() / one.file) for one in files)
            how = "hive_partitioning = false, union_by_name = true"
            text = f"create view {name} as from read_parquet([{paths}], {how})"
            text += _YOUNGER.get(name, "")
            try:
                connection.execute(text)
            except duckdb.Error as error:
                connection.close()
                raise unreadable(root, error) from error
        else:
            connection.register("nothing", pa.Table.from_batches([], schema))
            connection.execute(f"create table {name} as from nothing")
            connection.unregister("nothing")
    return connection


def unreadable(root: Path, error: Exception) -> WarehouseDamaged:
    """Return what is said where a file of a warehouse cannot be read."""
    return WarehouseDamaged(
        f"The warehouse {name_of(root)} cannot be read ({said_of(root, error)}); "
        f"run draftboard warehouse check --warehouse {name_of(root)}."
    )


def _write_all(connection: duckdb.DuckDBPyConnection, root: Path) -> Segment:
    """Write what the connection's tables of our names hold, sorted, as a segment."""
    files = {}
    for name in BATCHES:
        try:
            rows = connection.sql(f"from {name} order by {_ORDER[name]}").to_arrow_table()
        except (duckdb.IOException, duckdb.InvalidInputException) as error:
            raise unreadable(root, error) from error
        if rows.num_rows:
            files[name] = write_table(root, name, rows)
    return Segment(files["cells"].rows if "cells" in files else 0, files)


def write_table(root: Path, name: str, rows: pa.Table) -> File:
    """Write rows of a table as a file of its own, which no generation lists yet."""
    folder = root / TABLES
    folder.mkdir(parents=True, exist_ok=True)
    private = folder / f"{PRIVATE}{os.getpid()}-{name}.parquet"
    try:
        pq.write_table(rows, private, compression=COMPRESSION, row_group_size=_ROW_GROUP)
        path = put(private, folder, f"{name}-")
    finally:
        private.unlink(missing_ok=True)
    return File(path.name, rows.num_rows, path.stat().st_size)


# --- What a writer needs to know of the generation that it goes on from.


@dataclass
class Base:
    """The sources of a generation by their ids, and its rejections by their paths."""

    sources: set[str] = field(default_factory=set)
    rejections: dict[str, str] = field(default_factory=dict)
    rejected_at: dict[str, datetime] = field(default_factory=dict)


def read_base(root: Path, generation: Generation) -> Base:
    """Return what a generation holds."""
    with attach_parts(root, generation) as connection:
        known = connection.sql("select source_id from sources").to_arrow_table()
        rejected = connection.sql("from rejections").to_arrow_table().to_pylist()
    return Base(
        sources=set(known.column("source_id").to_pylist()),
        rejections={row["path"]: row["reason"] for row in rejected},
        rejected_at={row["path"]: row["rejected_at"] for row in rejected},
    )


def moved(before: Base, ours: Mapping[str, str], now: Base) -> dict[str, str]:
    """Return the rejections where another machine changed them too: theirs, with what we changed
    since ``before``."""
    old = before.rejections
    left = {path: why for path, why in now.rejections.items() if path in ours or path not in old}
    return left | {path: why for path, why in ours.items() if old.get(path) != why}
