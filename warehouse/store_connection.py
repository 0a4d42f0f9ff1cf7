"""Connections to DuckDB with our settings, and the text of our queries."""

import os
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import duckdb

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
