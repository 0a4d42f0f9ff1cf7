"""A source that was read and is not in the warehouse yet: what whoever reads hands to the writer.

Making one needs no database and no lock, so that another process than the writer's can do it.
"""

import os
import time
from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from warehouse.errors import InvalidInput
from warehouse.rows import REQUEST_SCHEMA, Cell, Source
from warehouse.store_files import COMPRESSION, PRIVATE, REQUESTS, publish, sha256_of, sync
from warehouse.store_rows import BATCHES, Rows, add_cell, as_table, source_row

# --- One Parquet file of requests per source: a row group per cell, private until it is whole.


_DICTIONARY = [f.name for f in REQUEST_SCHEMA if pa.types.is_dictionary(f.type)]


class RequestFile:
    """Writes the requests of one source; nothing of it is visible before ``finish``.

    Writing runs in a thread, one cell at a time, while the caller reads the next cell; what goes
    wrong there is raised by the next ``write`` or by ``finish``.
    """

    def __init__(self, root: Path) -> None:
        self._folder = root / REQUESTS
        self._private = private_requests(root)
        self._writer: pq.ParquetWriter | None = None
        self._rows = 0
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="parquet")
        self._written: Future[None] | None = None

    def write(self, requests: pa.Table) -> None:
        """Append the requests of one cell (``rows.REQUEST_SCHEMA``) as a row group of its own."""
        if self._writer is None:
            self._writer = parquet_writer(self._private)
        self._wait()
        ours = requests.select(REQUEST_SCHEMA.names).cast(REQUEST_SCHEMA)
        self._written = self._thread.submit(self._writer.write_table, ours, None)
        self._rows += requests.num_rows

    def finish(self) -> dict[str, Any] | None:
        """Publish the file and return its row of ``request_files``; None if nothing was written."""
        written = self.whole()
        if written is not None:
            publish(self._private, self._folder / written["file"])
        return written

    def whole(self) -> dict[str, Any] | None:
        """Write the file to its end; return its row of ``request_files``, None if nothing was
        written.

        It stays private, and is at ``private``: whoever lists it gives it its name (``placed``).
        """
        if self._writer is None:
            return None
        self._wait()
        self._writer.close()
        sync(self._private)
        return row_of(self._private, self._rows)

    @property
    def private(self) -> Path:
        """The path of the file until it is published."""
        return self._private

    def discard(self) -> None:
        """Remove the file. Harmless after ``finish``."""
        self.close()
        self._private.unlink(missing_ok=True)

    def close(self) -> None:
        """Let go of the file, which stays where it is."""
        self._thread.shutdown()
        if self._writer is not None and self._writer.is_open:
            # Closing writes a footer, which a full disk refuses; the file goes away either way.
            try:
                self._writer.close()
            except OSError:
                self._writer = None

    def _wait(self) -> None:
        if self._written is not None:
            self._written.result()


def private_requests(root: Path) -> Path:
    """Return the path of a request file until it has its name: a new path with every call."""
    # The moment too: a source that waits for its commit outlives the process that read it.
    return root / REQUESTS / f"{PRIVATE}{os.getpid()}-{time.monotonic_ns()}-requests.parquet"


def row_of(private: Path, rows: int) -> dict[str, Any]:
    """Return the row of ``request_files`` that a finished file will have."""
    digest = sha256_of(private)
    size = private.stat().st_size
    return {"file": f"{digest}.parquet", "sha256": digest, "rows": rows, "bytes": size}


def parquet_writer(path: Path) -> pq.ParquetWriter:
    """Return a writer of request files with the one set of options that all of them share."""
    path.parent.mkdir(parents=True, exist_ok=True)
    return pq.ParquetWriter(
        path, REQUEST_SCHEMA, compression=COMPRESSION, use_dictionary=[*_DICTIONARY, "prompt_hash"]
    )


# --- A source that was read and is not in the warehouse yet: what whoever reads hands to the writer.


@dataclass(frozen=True)
class Draft:
    """The rows of one source, its cells numbered from 0, and the private file of its requests."""

    source_id: str
    path: str
    """The source's, as in ``Source``."""
    tables: dict[str, pa.Table]
    requests: Path | None
    """Whole and on the disk; the tables list it under the name that it will have. None: none."""

    @property
    def cells(self) -> int:
        """How many cells the source has."""
        return int(self.tables["cells"].num_rows)

    @property
    def first(self) -> int:
        """The number of the first cell."""
        return int(self.tables["cells"].column("cell")[0].as_py()) if self.cells else 0

    @property
    def rows(self) -> int:
        """How many requests the source has."""
        if "request_files" not in self.tables:
            return 0
        return int(self.tables["request_files"].column("rows")[0].as_py())

    def numbered(self, first: int) -> "Draft":
        """Return the same draft with its cells numbered from ``first``."""
        return replace(self, tables={name: _moved(t, first) for name, t in self.tables.items()})

    def __reduce__(self) -> tuple[Any, ...]:
        # Tables of a few rows and many columns: a tenth of what pickling each column takes. Both
        # sides know the schemas.
        packed = {
            name: [batch.serialize().to_pybytes() for batch in table.combine_chunks().to_batches()]
            for name, table in self.tables.items()
        }
        return _unpacked, (self.source_id, self.path, packed, self.requests)

    def discard(self) -> None:
        """Remove the private file of the source's requests."""
        if self.requests is not None:
            self.requests.unlink(missing_ok=True)


def write_draft(root: Path, source: Source, cells: Iterable[Cell]) -> Draft:
    """Read ``cells`` one by one, and write their requests into the warehouse at ``root``.

    An exception while reading ``cells`` propagates and leaves nothing behind.
    """
    file = RequestFile(root)
    try:
        tables = _tables(source, cells, file)
        file.close()
    except BaseException:
        file.discard()
        raise
    written = file.private if "request_files" in tables else None
    return Draft(source.source_id, source.path, tables, written)


def _unpacked(
    source_id: str, path: str, packed: dict[str, list[bytes]], requests: Path | None
) -> Draft:
    tables = {name: _table(parts, BATCHES[name]) for name, parts in packed.items()}
    return Draft(source_id, path, tables, requests)


def _table(parts: list[bytes], schema: pa.Schema) -> pa.Table:
    batches = [pa.ipc.read_record_batch(pa.py_buffer(one), schema) for one in parts]
    return pa.Table.from_batches(batches, schema)


def _moved(table: pa.Table, first: int) -> pa.Table:
    if first == 0 or "cell" not in table.column_names:
        return table
    index = table.schema.get_field_index("cell")
    return table.set_column(index, table.schema.field(index), pc.add(table.column(index), first))


def _tables(source: Source, cells: Iterable[Cell], file: RequestFile) -> dict[str, pa.Table]:
    rows: Rows = {name: [] for name in BATCHES}
    rows["sources"].append(source_row(source))
    for number, cell in enumerate(cells):
        add_cell(rows, number, source.source_id, cell)
        if cell.requests is not None and cell.requests.num_rows:
            file.write(cell.requests)
            rows["cell_requests"].append({"cell": number, "rows": cell.requests.num_rows})
    _require_distinct(rows, source)
    written = file.whole()
    if written is not None:
        rows["request_files"] = [written]
        rows["cell_requests"] = [{**row, "file": written["file"]} for row in rows["cell_requests"]]
    there = (name for name in BATCHES if rows[name] or name == "cells")
    return {name: as_table(name, rows[name]) for name in there}


def _require_distinct(rows: Rows, source: Source) -> None:
    identities = [row["cell_id"] for row in rows["cells"]]
    if len(set(identities)) != len(identities):
        raise InvalidInput(f"{source.path} holds a cell twice; correct the reader of its format.")
