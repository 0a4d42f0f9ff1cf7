"""One Parquet file of requests per source: a row group per cell, private until it is whole."""

import os
import time
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from warehouse.rows import REQUEST_SCHEMA
from warehouse.store_files import COMPRESSION, PRIVATE, REQUESTS, publish, sha256_of, sync

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
