"""Tables as Parquet files and as views: rows are checked, sorted and written once; our connections to DuckDB.

Warehouses of another schema version too: up to version 3 a generation was one DuckDB file,
``warehouse-<n>.duckdb``.
"""

import json
import os
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from warehouse.errors import DraftboardError, WarehouseDamaged, WarehouseOutdated
from warehouse.storage.cache import name_of
from warehouse.storage.current import require_current, save, start_writing, take_back
from warehouse.storage.draft import BATCHES, REJECTIONS
from warehouse.storage.files import (
    BUNDLE,
    COMPRESSION,
    PRIVATE,
    TABLES,
    database_explained,
    full_disk_explained,
    publish,
    remove_private,
    sha256_of,
)
from warehouse.storage.lists import (
    SCHEMA_VERSION,
    File,
    Generation,
    Segment,
    is_old,
    load,
    no_current,
    number_of,
    unreadable,
)

SQL = Path(__file__).parents[1] / "sql"
THREADS = min(4, os.cpu_count() or 1)
#: The one older version whose tables are those of today.
CONVERTIBLE = 3
#: So many segments of like size become one, so that a reader opens few files and a row is written
#: again only a few times: 8 segments of up to 7 cells, of up to 63, and so on.
CROWD = 8
#: Segments of more cells are left alone.
LARGE = 8192
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


@cache
def sql_text(name: str) -> str:
    """Return the text of ``<name>.sql``, which lies in a folder of ``warehouse/sql``."""
    return next(SQL.rglob(f"{name}.sql")).read_text(encoding="utf-8")


def memory_connection() -> duckdb.DuckDBPyConnection:
    """Open an in-memory connection: UTC, few threads, nothing fetched from the net. It keeps the
    footers of Parquet files, which never change under their names.
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


def over_batch(connection: duckdb.DuckDBPyConnection, rows: pa.Table, sql: str) -> None:
    """Run a statement over rows, which it calls ``batch``. The names in it are ours, never a user's."""
    connection.register("batch", rows)
    connection.execute(sql)
    connection.unregister("batch")


def quoted(path: Path) -> str:
    """Return a path as a literal, where no parameter is taken."""
    return "'" + str(path).replace("'", "''") + "'"


def confine(connection: duckdb.DuckDBPyConnection, paths: Iterable[Path]) -> None:
    """Let a connection reach no file but those in these folders, and no network, from now on."""
    folders = ", ".join(quoted(path.absolute()) for path in paths)
    connection.execute(f"set allowed_directories = [{folders}]")
    connection.execute("set enable_external_access = false")


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
        if not files:
            # An empty table made of a schema alone imports pandas.
            nothing = pa.Table.from_batches([], schema)
            over_batch(connection, nothing, f"create table {name} as from batch")
            continue
        paths = ", ".join(quoted((root / TABLES).absolute() / file.file) for file in files)
        try:
            connection.execute(
                f"create view {name} as from read_parquet([{paths}], hive_partitioning = false, "
                f"union_by_name = true){_YOUNGER.get(name, '')}"
            )
        except duckdb.Error as error:
            connection.close()
            raise unreadable(root, error) from error
    return connection


def write_segment(root: Path, tables: dict[str, pa.Table]) -> Segment:
    """Write whole sources as files of their own. Raises DraftboardError where a row is not as
    ``schema.sql`` asks; then nothing is listed."""
    with memory_connection() as connection:
        connection.execute(sql_text("schema"))
        try:
            for name in BATCHES:
                if name in tables and tables[name].num_rows:
                    insert = f"insert into {name} by name select * from batch"
                    over_batch(connection, tables[name], insert)
        except duckdb.ConstraintException as error:
            raise DraftboardError(
                f"A row does not keep the warehouse's rules ({str(error).splitlines()[0]}); "
                f"nothing was published: please report it with the file that was ingested."
            ) from error
        return _write_all(connection, root)


def merged(root: Path, segments: Collection[Segment]) -> Segment:
    """Return one segment with the rows of several."""
    with attach_parts(root, Generation(0, segments=tuple(segments))) as connection:
        return _write_all(connection, root)


def without(root: Path, segment: Segment, source_ids: Collection[str]) -> Segment | None:
    """Return the segment without some sources: itself where it has none of them, None where it has
    no others.
    """
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
        pq.write_table(rows, private, compression=COMPRESSION, row_group_size=65_536)
        path = folder / f"{name}-{sha256_of(private)}.parquet"
        publish(private, path)
    finally:
        private.unlink(missing_ok=True)
    return File(path.name, rows.num_rows, path.stat().st_size)


@dataclass(frozen=True)
class Batch:
    """Everything that one commit changes; ``rejections``: all of them, None where they stay."""

    tables: dict[str, pa.Table] = field(default_factory=dict)
    forgotten: Sequence[str] = ()
    rejections: pa.Table | None = None


def publish_generation(root: Path, base: Generation, number: int, batch: Batch) -> Generation:
    """Publish generation ``number``: ``base`` changed by ``batch``. It lists the last one's files and those
    of what came; nothing is copied."""
    segments, next_cell, rejections = list(base.segments), base.next_cell, base.rejections
    try:
        if batch.forgotten:
            left = [without(root, segment, batch.forgotten) for segment in segments]
            segments = [segment for segment in left if segment is not None]
        if batch.tables:
            segments.append(write_segment(root, batch.tables))
            highest = pc.max(batch.tables["cells"].column("cell")).as_py()
            next_cell = max(next_cell, 0 if highest is None else int(highest) + 1)
        if batch.rejections is not None:
            rejections = None
            if batch.rejections.num_rows:
                rejections = write_table(root, "rejections", batch.rejections)
        made = Generation(number, next_cell, tuple(_settled(root, segments)), rejections)
    except duckdb.Error as error:
        raise database_explained(error, root) from error
    save(root, made)
    return made


def _settled(root: Path, segments: list[Segment]) -> list[Segment]:
    while True:
        tiers: dict[int, list[Segment]] = {}
        for segment in segments:
            if segment.cells < LARGE:
                tier, cells = 0, segment.cells
                while cells >= CROWD:
                    cells, tier = cells // CROWD, tier + 1
                tiers.setdefault(tier, []).append(segment)
        crowd = next((alike for alike in tiers.values() if len(alike) >= CROWD), None)
        if crowd is None:
            return segments
        segments = [*(s for s in segments if s not in crowd), merged(root, crowd)]


@dataclass
class WriterBase:
    """What a writer needs to know of the generation that it goes on from: its sources by their ids,
    and its rejections by their paths.
    """

    sources: set[str] = field(default_factory=set)
    rejections: dict[str, str] = field(default_factory=dict)
    rejected_at: dict[str, datetime] = field(default_factory=dict)


def read_base(root: Path, generation: Generation) -> WriterBase:
    """Return what a generation holds."""
    with attach_parts(root, generation) as connection:
        sources = connection.sql("select source_id from sources").to_arrow_table()
        rejected = connection.sql("from rejections").to_arrow_table().to_pylist()
    return WriterBase(
        sources=set(sources.column("source_id").to_pylist()),
        rejections={row["path"]: row["reason"] for row in rejected},
        rejected_at={row["path"]: row["rejected_at"] for row in rejected},
    )


# --- Warehouses of another schema version, and what a warehouse of any was read from.


def require_our_schema(root: Path, name: str) -> None:
    """Raise WarehouseOutdated, naming the command that helps, unless the generation is of our
    version; FileNotFoundError where it has gone."""
    version = schema_version(root, name)
    if version == SCHEMA_VERSION:
        return
    place = name_of(root)
    if (root / BUNDLE).exists():
        what = "ask whoever shared this bundle for a new one"
    elif version == CONVERTIBLE:
        what = f"convert it with: draftboard warehouse convert --warehouse {place}"
    elif version is not None and version > SCHEMA_VERSION:
        what = "nothing was written: update Draftboard on this machine"
    else:
        what = f"read its results again with: draftboard ingest --rebuild --warehouse {place}"
    raise WarehouseOutdated(
        f"The warehouse {place} has schema version {version or 'unknown'} and this Draftboard "
        f"needs {SCHEMA_VERSION}; {what}"
    )


def schema_version(root: Path, name: str) -> int | None:
    """Return the version of a generation; None where it does not say."""
    if not is_old(name):
        return load(root / name).schema_version
    with _attach_old(root / name) as connection:
        try:
            row = connection.execute("select schema_version from store.meta").fetchone()
        except duckdb.CatalogException:
            return None
    return row[0] if row else None


def _attach_old(path: Path) -> duckdb.DuckDBPyConnection:
    """Open a connection with the database at ``path`` attached read-only as ``store``, and no way to
    other files: it may be somebody else's, and hold views that would read them. Raises
    FileNotFoundError where it is not there, WarehouseDamaged where it is not a database.
    """
    connection = memory_connection()
    try:
        connection.execute("attach $path as store (read_only)", {"path": str(path)})
        confine(connection, [])
    except duckdb.Error as error:
        connection.close()
        if not path.exists():
            raise FileNotFoundError(path) from error
        raise _no_database(path, error) from error
    return connection


def _no_database(path: Path, error: Exception) -> WarehouseDamaged:
    return WarehouseDamaged(
        f"{path} cannot be read as a database ({str(error).splitlines()[0]}); start anew "
        f"with: draftboard ingest PATHS --rebuild --warehouse {path.parent}"
    )


#: Tables that ``convert`` reads, and the generation that it writes.
STEPS = len(BATCHES) + 2


def convert(root: Path, advance: Callable[[int], None] = lambda done: None) -> Generation | None:
    """Make a warehouse of schema version 3 one of ours, without its raw files: publish what it holds as the
    next generation; None where it is ours already.

    Only under the writer's lock. The old database stays until ``gc``; killed before the end, the warehouse
    is what it was. ``advance`` gets 1 for each of ``STEPS``. Raises WarehouseMissing, and WarehouseOutdated
    for versions below 3.
    """
    remove_private(root)
    name = start_writing(root, rebuild=False)
    take_back(root)
    if name is None:
        raise no_current(root)
    if not is_old(name):
        return None
    if schema_version(root, name) != CONVERTIBLE:
        require_our_schema(root, name)
    tables = {}
    with _attach_old(root / name) as connection:
        try:
            for table in (*BATCHES, "rejections"):
                tables[table] = connection.sql(f"from store.{table}").to_arrow_table()
                advance(1)
        except duckdb.Error as error:
            raise _no_database(root / name, error) from error
    rejections = tables.pop("rejections").select(REJECTIONS.names).cast(REJECTIONS)
    with full_disk_explained(root):
        batch = Batch(tables, rejections=rejections)
        made = publish_generation(root, Generation(0), (number_of(name) or 0) + 1, batch)
    advance(1)
    return made


@dataclass(frozen=True)
class HeldSource:
    """One source of a warehouse of any schema, enough to read it again: where it lay, and what ``--set``
    said of it."""

    source_id: str
    path: Path
    settings: dict[str, Any]


def held_sources(root: Path) -> tuple[HeldSource, ...]:
    """Return the sources of the published generation in the order in which they came.

    Raises WarehouseMissing where there is none, WarehouseDamaged where it does not list them.
    """
    name = require_current(root)
    try:
        with (
            _attach_old(root / name) if is_old(name) else attach_parts(root, load(root / name))
        ) as connection:
            rows = connection.execute(
                "select source_id, path, settings from store.sources order by ingested_at, path"
            ).fetchall()
    except (duckdb.Error, FileNotFoundError) as error:
        raise WarehouseDamaged(
            f"The warehouse {name_of(root)} does not say what it was read from "
            f"({str(error).splitlines()[0]}); start anew with: draftboard ingest PATHS --rebuild "
            f"--warehouse {name_of(root)}"
        ) from error
    return tuple(
        HeldSource(source, Path(path), json.loads(settings)) for source, path, settings in rows
    )
