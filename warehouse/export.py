"""One plain copy of a warehouse, for people who want to query it themselves."""

import os
import shutil
from pathlib import Path

import duckdb
import pyarrow.parquet as pq

from warehouse.errors import DraftboardError
from warehouse.store_files import (
    PRIVATE,
    REQUESTS,
    full_disk_explained,
    generation_name,
    publish,
)
from warehouse.store_read import Reader, memory_connection

TABLES: tuple[str, ...] = (
    "sources", "cells", "measurements", "acceptance", "acceptance_by_position", "flags", "samples",
    "rejections",
)  # fmt: skip


def export(root: Path, out: Path) -> list[Path]:
    """Write ``out``: one database (``*.duckdb``, with a table ``requests``), or Parquet files.

    Nothing that exists is overwritten. Returns the files written.
    """
    if out.exists():
        raise DraftboardError(f"{out} is there already; name a new file or folder with --out.")
    with full_disk_explained(out), Reader(root) as reader:
        out.parent.mkdir(parents=True, exist_ok=True)
        if out.suffix == ".duckdb":
            return [_database(reader, out)]
        return _folder(reader, out)


def _database(reader: Reader, out: Path) -> Path:
    private = out.with_name(f"{PRIVATE}{os.getpid()}-{out.name}")
    shutil.copyfile(reader.root / generation_name(reader.generation), private)
    files = _request_paths(reader)
    try:
        with duckdb.connect(str(private)) as connection:
            if files:
                connection.execute(
                    "create table requests as from read_parquet($files::varchar[])",
                    {"files": files},
                )
            connection.execute("checkpoint")
        publish(private, out)
    except duckdb.IOException as error:
        raise OSError(str(error)) from error
    finally:
        private.unlink(missing_ok=True)
    return out


def _folder(reader: Reader, out: Path) -> list[Path]:
    out.mkdir()
    written = []
    with memory_connection() as connection:
        connection.execute(
            "attach $path as store (read_only)",
            {"path": str(reader.root / generation_name(reader.generation))},
        )
        for name in TABLES:
            path = out / f"{name}.parquet"
            pq.write_table(connection.sql(f"from store.{name}").to_arrow_table(), path)
            written.append(path)
    (out / REQUESTS).mkdir()
    for file in _request_paths(reader):
        written.append(Path(shutil.copy2(file, out / REQUESTS)))
    return written


def _request_paths(reader: Reader) -> list[str]:
    names = reader.query("listed_files").column("file").to_pylist()
    return [str(reader.root / REQUESTS / name) for name in names]
