"""Reading the warehouse: one published generation, attached read-only, a cursor per query.

Runs that are excluded by name (``annotations``) are left out of every filtered query: the macro
``chosen`` of ``sql/chosen.sql`` stands beside the attached generation and knows them.
"""

import os
import threading
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import duckdb
import pyarrow as pa

from warehouse import annotations
from warehouse.errors import WarehouseDamaged, WarehouseOutdated
from warehouse.store_files import (
    BUNDLE,
    REQUESTS,
    SCHEMA_VERSION,
    current_generation,
    generation_name,
    generations,
    no_current,
)

SQL = Path(__file__).parent / "sql"
THREADS = min(4, os.cpu_count() or 1)
_ATTEMPTS = 5
_EXCLUDED = pa.schema([
    ("run_id", pa.string()), ("source_id", pa.string()), ("reason", pa.string()),
    ("author", pa.string()), ("excluded_at", pa.timestamp("us", "UTC")),
])  # fmt: skip


@cache
def sql_text(name: str) -> str:
    """The text of ``warehouse/sql/<name>.sql``."""
    return (SQL / f"{name}.sql").read_text(encoding="utf-8")


def memory_connection() -> duckdb.DuckDBPyConnection:
    """An in-memory connection with our settings: UTC, few threads, nothing fetched from the net."""
    connection = duckdb.connect(
        ":memory:",
        config={
            "threads": THREADS,
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
        },
    )
    connection.execute("load icu; set global TimeZone = 'UTC'")
    return connection


def attach(path: Path) -> duckdb.DuckDBPyConnection:
    """A fresh in-memory connection with the database at ``path`` attached read-only as ``store``.

    Raises FileNotFoundError where it is not there, WarehouseDamaged where it is not a database.
    """
    if not path.exists():
        raise FileNotFoundError(path)
    connection = memory_connection()
    try:
        connection.execute("attach $path as store (read_only)", {"path": str(path)})
    except duckdb.Error as error:
        connection.close()
        if not path.exists():
            raise FileNotFoundError(path) from error
        raise WarehouseDamaged(
            f"{path} cannot be opened as a database ({str(error).splitlines()[0]}); "
            f"run draftboard warehouse check --warehouse {path.parent}."
        ) from error
    return connection


def confine(connection: duckdb.DuckDBPyConnection, folder: Path) -> None:
    """Let a connection reach no file but those in ``folder``, and no network, from now on.

    A generation may be somebody else's, and hold views that would read what it likes.
    """
    # A setting takes no parameter.
    quoted = str(folder.absolute()).replace("'", "''")
    connection.execute(f"set allowed_directories = ['{quoted}']")
    connection.execute("set enable_external_access = false")


def listed_files(root: Path) -> set[str]:
    """Request files of every generation that is there: readers may still be at work on an old one.

    A generation that cannot be opened lists nothing: it serves no reader either.
    """
    names: set[str] = set()
    for path in generations(root).values():
        try:
            with attach(path) as connection:
                rows = connection.execute("select file from store.request_files").fetchall()
        except (WarehouseDamaged, FileNotFoundError, duckdb.Error):
            continue
        names.update(str(row[0]) for row in rows)
    return names


def require_our_schema(connection: duckdb.DuckDBPyConnection, root: Path) -> None:
    """Raise WarehouseOutdated, naming the command that rebuilds, unless the schema is ours."""
    try:
        row = connection.execute("select schema_version from store.meta").fetchone()
    except duckdb.CatalogException:
        row = None
    version = row[0] if row else None
    if version == SCHEMA_VERSION:
        return
    what = (
        "ask whoever shared this bundle for a new one"
        if (root / BUNDLE).exists()
        else f"read its results again with: draftboard ingest --rebuild --warehouse {root}"
    )
    raise WarehouseOutdated(
        f"The warehouse {root} has schema version {version or 'unknown'} and this Draftboard "
        f"needs {SCHEMA_VERSION}; {what}"
    )


def excluded_table(root: Path) -> pa.Table:
    """run_id, source_id, reason, author, excluded_at (UTC): the runs that are excluded by name."""
    rows = [
        {
            "run_id": target.run_id, "source_id": target.source_id, "reason": event.text,
            "author": event.author, "excluded_at": event.at,
        }
        for target, event in annotations.excluded_runs(root).items()
    ]  # fmt: skip
    return pa.Table.from_pylist(rows, schema=_EXCLUDED)


def leave_out(connection: duckdb.DuckDBPyConnection, root: Path, everything: bool = False) -> None:
    """Tell a connection with an attached ``store`` of our schema which runs are excluded by name.

    It gets the table ``excluded_runs``, the table ``left_out`` of their cells, which stays empty
    for ``everything``, and the macro ``chosen``.
    """
    connection.execute(sql_text("chosen"))
    excluded = excluded_table(root)
    if excluded.num_rows == 0:
        return
    connection.register("batch", excluded)
    connection.execute("insert into excluded_runs by name select * from batch")
    connection.unregister("batch")
    if not everything:
        connection.execute(
            "insert into left_out "
            "select cell from store.cells semi join excluded_runs using (run_id, source_id)"
        )


class Reader:
    """One generation of a warehouse, safe to share between threads; ``everything``: with the runs
    that are excluded by name, which nobody else sees.

    Raises WarehouseMissing, WarehouseOutdated or WarehouseDamaged when it cannot be read.
    """

    def __init__(self, root: Path, everything: bool = False) -> None:
        self.root = Path(root)
        self.generation = 0
        self._everything = everything
        self._annotated = ""
        self._guard = threading.Lock()
        self._connection = self._open_current()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the files."""
        with self._guard:
            self._connection.close()

    def refresh(self) -> bool:
        """Follow CURRENT and the exclusions; True if one of them moved.

        Queries under way finish on what they began with.
        """
        if not self._is_behind():
            return False
        with self._guard:
            moved = self._is_behind()
            if moved:
                self._connection = self._open_current()
            return moved

    def query(self, name: str, **parameters: Any) -> pa.Table:
        """The rows of ``warehouse/sql/<name>.sql``, on a cursor of its own.

        Raises WarehouseDamaged where a request file that it needs is missing or unreadable.
        """
        with self._guard:
            cursor = self._connection.cursor()
        try:
            cursor.execute("set search_path = 'memory.main,store.main'")
            return _table(cursor, sql_text(name), parameters)
        except (duckdb.IOException, duckdb.InvalidInputException) as error:
            raise WarehouseDamaged(
                f"The warehouse {self.root} cannot be read ({str(error).splitlines()[0]}); "
                f"run draftboard warehouse check --warehouse {self.root}."
            ) from error
        finally:
            cursor.close()

    def request_files(self, cell_ids: Iterable[str]) -> list[Path]:
        """The Parquet files that hold the requests of these cells, each once."""
        found = self.query("request_files", cell_ids=list(cell_ids))
        names = dict.fromkeys(found.column("file").to_pylist())
        return [self.root.absolute() / REQUESTS / name for name in names]

    def _is_behind(self) -> bool:
        return (
            current_generation(self.root) != self.generation
            or annotations.exclusions_version(self.root) != self._annotated
        )

    def _open_current(self) -> duckdb.DuckDBPyConnection:
        # A writer may retire the generation between the look at CURRENT and the attach.
        path = self.root
        for _ in range(_ATTEMPTS):
            generation = current_generation(self.root)
            if generation is None:
                raise no_current(self.root)
            path = self.root / generation_name(generation)
            try:
                connection = attach(path)
            except FileNotFoundError:
                continue
            require_our_schema(connection, self.root)
            # Read before they are applied: whoever adds one in between makes this reader look again.
            self._annotated = annotations.exclusions_version(self.root)
            leave_out(connection, self.root, self._everything)
            confine(connection, self.root / REQUESTS)
            self.generation = generation
            return connection
        raise WarehouseDamaged(
            f"{path}, which CURRENT names, is missing; "
            f"run draftboard warehouse check --warehouse {self.root}."
        )


def _table(cursor: duckdb.DuckDBPyConnection, text: str, parameters: dict[str, Any]) -> pa.Table:
    relation = cursor.sql(text, params=parameters or None)
    return relation.to_arrow_table()
