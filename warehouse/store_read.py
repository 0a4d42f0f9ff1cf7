"""Reading the warehouse: one published generation as views over its files, a cursor per query.

Runs that are excluded by name (``annotations``) are left out of every filtered query: the macro
``chosen`` of ``sql/chosen.sql`` stands beside the generation and knows them.
"""

import os
import threading
import weakref
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import duckdb
import pyarrow as pa

from warehouse import annotations
from warehouse.errors import WarehouseDamaged
from warehouse.kept import Kept
from warehouse.store_cache import name_of
from warehouse.store_files import REQUESTS, TABLES, pin
from warehouse.store_list import (
    File,
    Generation,
    current_generation,
    current_name,
    lists,
    load,
    no_current,
)
from warehouse.store_old import require_our_schema
from warehouse.store_remote import have
from warehouse.store_tables import attach_parts, confine, sql_text, unreadable

_ATTEMPTS = 5
_EXCLUDED = pa.schema([
    ("run_id", pa.string()), ("source_id", pa.string()), ("reason", pa.string()),
    ("author", pa.string()), ("excluded_at", pa.timestamp("us", "UTC")),
])  # fmt: skip


@dataclass(frozen=True)
class Opened:
    """One generation with all its tables as ``store``; its files stay until this is let go of."""

    generation: Generation
    connection: duckdb.DuckDBPyConnection

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.connection.close()


def open_newest(root: Path) -> Opened:
    """Open the published generation. Raises as ``Reader`` does."""
    name = ""
    # A writer may retire the generation between the look at CURRENT and the pin.
    for _ in range(_ATTEMPTS):
        name = current_name(root) or ""
        if not name:
            raise no_current(root)
        require_our_schema(root, name)
        try:
            pinned = pin(root / name)
        except FileNotFoundError:
            continue
        try:
            connection = attach_parts(root, generation := load(root / name))
            connection.execute("use memory")
        except BaseException:
            os.close(pinned)
            raise
        opened = Opened(generation, connection)
        weakref.finalize(opened, os.close, pinned)
        return opened
    raise WarehouseDamaged(
        f"{name_of(root)}/{name}, which CURRENT names, is missing; "
        f"run draftboard warehouse check --warehouse {name_of(root)}."
    )


def listed_files(root: Path) -> set[str]:
    """Return the request files of every generation that is there: readers may still be at work on
    an old one.

    Raises WarehouseDamaged where one of them cannot be read.
    """
    names: set[str] = set()
    for generation in lists(root):
        with attach_parts(root, generation) as connection:
            rows = connection.execute("select file from store.request_files").fetchall()
        names.update(str(row[0]) for row in rows)
    return names


def excluded_table(root: Path) -> pa.Table:
    """Return the runs that are excluded by name: run_id, source_id, reason, author, excluded_at
    (UTC)."""
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
    that are excluded by name, which nobody else sees. ``kept`` holds what was made of it.

    Raises WarehouseMissing, WarehouseOutdated or WarehouseDamaged when it cannot be read.
    """

    def __init__(self, root: Path, everything: bool = False) -> None:
        self.root = Path(root)
        self._everything = everything
        self._annotated = ""
        self._guard = threading.Lock()
        self.kept: Kept[Reader] = Kept(most=8)
        self._opened = self._open_current()

    @property
    def generation(self) -> int:
        """The number of the generation that is read."""
        return self._opened.generation.number

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the files that the reader keeps."""
        with self._guard:
            self._opened.connection.close()

    def refresh(self) -> bool:
        """Follow CURRENT and the exclusions; return True if one of them moved.

        Queries under way finish on what they began with.
        """
        if not self._is_behind():
            return False
        with self._guard:
            moved = self._is_behind()
            if moved:
                self._opened, self.kept = self._open_current(), Kept(most=8)
            return moved

    def query(self, name: str, **parameters: Any) -> pa.Table:
        """Return the rows of ``warehouse/sql/<name>.sql``, on a cursor of its own.

        Raises WarehouseDamaged where a request file that it needs is missing or unreadable.
        """
        with self._guard:
            opened = self._opened  # Held, and its files with it, until the rows are here.
            cursor = opened.connection.cursor()
        try:
            cursor.execute("set search_path = 'memory.main,store.main'")
            return _table(cursor, sql_text(name), parameters)
        except (duckdb.IOException, duckdb.InvalidInputException) as error:
            raise unreadable(self.root, error) from error
        finally:
            cursor.close()

    def request_files(self, cell_ids: Iterable[str]) -> list[Path]:
        """Return the Parquet files that hold the requests of these cells, each once."""
        found = self.query("request_files", cell_ids=list(cell_ids))
        names = dict.fromkeys(found.column("file").to_pylist())
        have(self.root, names)
        return [self.root.absolute() / REQUESTS / Path(name).name for name in names]

    def files(self) -> list[File]:
        """Return every file of a table that this generation lists."""
        return self._opened.generation.files()

    def _is_behind(self) -> bool:
        return (
            current_generation(self.root) != self.generation
            or annotations.exclusions_version(self.root) != self._annotated
        )

    def _open_current(self) -> Opened:
        opened = open_newest(self.root)
        # Read before they are applied: whoever adds one in between makes this reader look again.
        self._annotated = annotations.exclusions_version(self.root)
        leave_out(opened.connection, self.root, self._everything)
        confine(opened.connection, [self.root / TABLES, self.root / REQUESTS])
        return opened


def _table(cursor: duckdb.DuckDBPyConnection, text: str, parameters: dict[str, Any]) -> pa.Table:
    relation = cursor.sql(text, params=parameters or None)
    return relation.to_arrow_table()
