"""One plain copy of a warehouse, for people who want to query it themselves.

Nothing is left out of it: runs that are excluded by name are there, and ``excluded_runs`` and
``annotations`` say which and why.
"""

import shutil
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from warehouse.errors import DraftboardError, WarehouseDamaged
from warehouse.exclusions import annotations_table
from warehouse.store_files import REQUESTS, full_disk_explained, private_beside, publish
from warehouse.store_read import Opened, Reader, excluded_table, open_newest
from warehouse.store_remote import have
from warehouse.store_rows import BATCHES
from warehouse.store_tables import sql_text

TABLES: tuple[str, ...] = (
    "sources", "cells", "measurements", "acceptance", "acceptance_by_position", "flags", "samples",
    "rejections",
)  # fmt: skip


def export(root: Path, out: Path) -> list[Path]:
    """Write ``out``: one database (``*.duckdb``, with a table ``requests``), or Parquet files.

    Nothing that exists is overwritten, and a failure leaves nothing. Returns the files written.
    Raises WarehouseDamaged where a file of the warehouse is missing.
    """
    if out.exists():
        raise DraftboardError(f"{out} is there already; name a new file or folder with --out.")
    with full_disk_explained(out), Reader(root) as reader:
        try:
            with private_beside(out) as place:
                (_database if out.suffix == ".duckdb" else _folder)(reader, place / out.name)
                publish(place / out.name, out)
        except FileNotFoundError as error:
            raise _incomplete(reader, f"{error.filename} is missing") from error
        except duckdb.Error as error:
            # A full disk comes as such an error too; that one is said in its own sentence.
            text = str(error).splitlines()[0]
            if "No space left" in text:
                raise OSError(text) from error
            raise _incomplete(reader, text) from error
    return sorted(path for path in (out, *out.rglob("*")) if path.is_file())


def _incomplete(reader: Reader, why: str) -> WarehouseDamaged:
    return WarehouseDamaged(
        f"The warehouse {reader.root} cannot be exported ({why}), and nothing was written; "
        f"run draftboard warehouse check --warehouse {reader.root}."
    )


def _database(reader: Reader, private: Path) -> None:
    files = _request_paths(reader)
    with open_newest(reader.root) as opened:
        connection = opened.connection
        copy_tables(opened, private)
        for name, table in _said(reader.root).items():
            connection.register("batch", table)
            connection.execute(f"create table {name} as from batch")
            connection.unregister("batch")
        if files:
            connection.execute(
                "create table requests as from read_parquet($files::varchar[])",
                {"files": files},
            )
        connection.execute("use memory; detach copy")


def copy_tables(opened: Opened, path: Path) -> None:
    """Write every table into a new database at ``path``, which stays in use as ``copy``."""
    opened.connection.execute("attach $path as copy", {"path": str(path)})
    opened.connection.execute("use copy")
    opened.connection.execute(sql_text("schema"))
    for name in ("meta", *BATCHES, "rejections"):
        opened.connection.execute(f"insert into {name} by name from store.{name}")


def _folder(reader: Reader, private: Path) -> None:
    (private / REQUESTS).mkdir(parents=True)
    with open_newest(reader.root) as opened:
        for name in TABLES:
            table = opened.connection.sql(f"from store.{name}").to_arrow_table()
            pq.write_table(table, private / f"{name}.parquet")
    for name, table in _said(reader.root).items():
        pq.write_table(table, private / f"{name}.parquet")
    for file in _request_paths(reader):
        shutil.copy2(file, private / REQUESTS)


def _said(root: Path) -> dict[str, pa.Table]:
    """Return what people said of runs and nights, as tables."""
    return {"annotations": annotations_table(root), "excluded_runs": excluded_table(root)}


def _request_paths(reader: Reader) -> list[str]:
    names = reader.query("listed_files").column("file").to_pylist()
    have(reader.root, names)
    return [str(reader.root / REQUESTS / name) for name in names]
