"""Warehouses of another schema version, and what a warehouse of any was read from.

Up to version 3 a generation was one DuckDB file, ``warehouse-<n>.duckdb``.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from warehouse.errors import WarehouseDamaged, WarehouseOutdated
from warehouse.store_cache import name_of
from warehouse.store_files import BUNDLE
from warehouse.store_list import SCHEMA_VERSION, current_name, is_old, load, no_current
from warehouse.store_rows import BATCHES, REJECTIONS
from warehouse.store_tables import attach_parts, confine, memory_connection

#: The one version whose tables are those of today.
CONVERTIBLE = 3


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
    with attach_old(root / name) as connection:
        try:
            row = connection.execute("select schema_version from store.meta").fetchone()
        except duckdb.CatalogException:
            return None
    return row[0] if row else None


def attach_old(path: Path) -> duckdb.DuckDBPyConnection:
    """Open a connection with the database at ``path`` attached read-only as ``store``, and no way
    to other files: it may be somebody else's, and hold views that would read them.

    Raises FileNotFoundError where it is not there, WarehouseDamaged where it is not a database.
    """
    if not path.exists():
        raise FileNotFoundError(path)
    connection = memory_connection()
    try:
        connection.execute("attach $path as store (read_only)", {"path": str(path)})
        confine(connection, [])
    except duckdb.Error as error:
        connection.close()
        if not path.exists():
            raise FileNotFoundError(path) from error
        raise _unreadable(path, error) from error
    return connection


def _unreadable(path: Path, error: Exception) -> WarehouseDamaged:
    return WarehouseDamaged(
        f"{path} cannot be read as a database ({str(error).splitlines()[0]}); start anew "
        f"with: draftboard ingest PATHS --rebuild --warehouse {path.parent}"
    )


def old_tables(path: Path, advance: Callable[[int], None]) -> tuple[dict[str, pa.Table], pa.Table]:
    """Return every table of a generation of version 3, and its rejections; ``advance`` gets 1 for
    each."""
    with attach_old(path) as connection:
        try:
            tables = {}
            for name in (*BATCHES, "rejections"):
                tables[name] = connection.sql(f"from store.{name}").to_arrow_table()
                advance(1)
        except duckdb.Error as error:
            raise _unreadable(path, error) from error
    rejections = tables.pop("rejections").select(REJECTIONS.names).cast(REJECTIONS)
    return tables, rejections


# --- What a warehouse of any schema was read from: enough to read it all again.


@dataclass(frozen=True)
class Known:
    """One source: where it lay, and what ``--set`` said of it."""

    source_id: str
    path: Path
    settings: dict[str, Any]


def known_sources(root: Path) -> tuple[Known, ...]:
    """Return the sources of the published generation in the order in which they came.

    Raises WarehouseMissing where there is none, WarehouseDamaged where it does not list them.
    """
    name = current_name(root)
    if name is None:
        raise no_current(root)
    try:
        with (
            attach_old(root / name) if is_old(name) else attach_parts(root, load(root / name))
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
    return tuple(Known(one, Path(path), json.loads(settings)) for one, path, settings in rows)
