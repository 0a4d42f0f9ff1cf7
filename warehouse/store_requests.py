"""One Parquet file of requests per source: a row group per cell, private until it is whole."""

import os
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from warehouse.rows import REQUEST_SCHEMA
from warehouse.store_files import PRIVATE, REQUESTS, put
from warehouse.store_tables import COMPRESSION

_DICTIONARY = [f.name for f in REQUEST_SCHEMA if pa.types.is_dictionary(f.type)]


class RequestFile:
    """Writes the requests of one source; nothing of it is visible before ``finish``.

    Writing runs in a thread, one cell at a time, while the caller reads the next cell; what goes
    wrong there is raised by the next ``write`` or by ``finish``.
    """

    def __init__(self, root: Path) -> None:
        self._folder = root / REQUESTS
        self._private = self._folder / f"{PRIVATE}{os.getpid()}-requests.parquet"
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
        if self._writer is None:
            return None
        self._wait()
        self._writer.close()
        return put_requests(self._private, self._rows)

    def discard(self) -> None:
        """Leave nothing behind. Harmless after ``finish``."""
        self._thread.shutdown()
        if self._writer is not None and self._writer.is_open:
            # Closing writes a footer, which a full disk refuses; the file goes away either way.
            try:
                self._writer.close()
            except OSError:
                self._writer = None
        self._private.unlink(missing_ok=True)

    def _wait(self) -> None:
        if self._written is not None:
            self._written.result()


def put_requests(private: Path, rows: int) -> dict[str, Any]:
    """Publish a finished file. Return its row of ``request_files``."""
    path = put(private, private.parent)
    return {"file": path.name, "sha256": path.stem, "rows": rows, "bytes": path.stat().st_size}


def parquet_writer(path: Path) -> pq.ParquetWriter:
    """A writer of request files with the one set of options that all of them share."""
    path.parent.mkdir(parents=True, exist_ok=True)
    return pq.ParquetWriter(
        path, REQUEST_SCHEMA, compression=COMPRESSION, use_dictionary=[*_DICTIONARY, "prompt_hash"]
    )
