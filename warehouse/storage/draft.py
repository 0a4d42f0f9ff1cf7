"""A source that was read and is not in the warehouse yet: what whoever reads hands to the writer.

Making one needs no database and no lock, so that another process than the writer's can do it.
"""

import json
import math
import os
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from warehouse.catalogue import METRICS, STATISTICS
from warehouse.contract import FACT_KEYS, arm_label
from warehouse.errors import InvalidInput
from warehouse.rows import REQUEST_SCHEMA, Cell, Source, in_schema
from warehouse.storage.files import COMPRESSION, PRIVATE, REQUESTS, sha256_of, sync

# --- Rows of ingest turned into Arrow tables, one per table of the store; bad rows are refused here.


_INT, _TEXT, _REAL, _BOOL = pa.int64(), pa.string(), pa.float64(), pa.bool_()
_TIME = pa.timestamp("us", "UTC")
_JSON_FACTS = ("server_args", "engine_settings", "speculative_config")
_FACT_TYPES: dict[str, pa.DataType] = {
    **dict.fromkeys(FACT_KEYS, _TEXT),
    **dict.fromkeys(("repeat", "gpu_count", "tensor_parallel_size", "seed", "max_tokens"), _INT),
    **dict.fromkeys(("concurrency", "num_speculative_tokens"), _INT),
    **dict.fromkeys(("temperature", "top_p", "rate"), _REAL),
    **dict.fromkeys(("prefix_caching", "ignore_eos", "synthetic_acceptance"), _BOOL),
}
_COUNTS = ("requests_made", "completed", "errored", "incomplete")
_CELL_TEXTS = (
    "run_id", "load_generator", "load_generator_version", "schema_generation",
    "reported_definition", "stop_reason", "status",
)  # fmt: skip

#: The columns of each batch, by table of ``schema.sql``.
BATCHES: dict[str, pa.Schema] = {
    "sources": pa.schema(
        {
            **dict.fromkeys(("source_id", "path", "format", "provenance"), _TEXT),
            **dict.fromkeys(("commands", "environment", "settings", "report_config"), _TEXT),
            "bytes": _INT,
            "ingested_at": _TIME,
        }
    ),
    "request_files": pa.schema({"file": _TEXT, "sha256": _TEXT, "rows": _INT, "bytes": _INT}),
    "cells": pa.schema(
        {
            "cell": _INT,
            "cell_id": _TEXT,
            "source_id": _TEXT,
            "index": _INT,
            "arm_label": _TEXT,
            "comparable_as": _TEXT,
            "flags": _INT,
            **_FACT_TYPES,
            **dict.fromkeys(_CELL_TEXTS, _TEXT),
            **dict.fromkeys(_COUNTS, _INT),
            "requests_complete": _BOOL,
            "started_at": _TIME,
            "order": _INT,
            "duration": _REAL,
        }
    ),
    "cell_requests": pa.schema({"cell": _INT, "file": _TEXT, "rows": _INT}),
    "measurements": pa.schema(
        {
            **{"cell": _INT, "origin": _TEXT, "metric": _TEXT, "statistic": _TEXT},
            **{"value": _REAL, "preferred": _BOOL},
        }
    ),
    "acceptance": pa.schema(
        {
            **{"cell": _INT, "source": _TEXT, "drafts": _INT, "draft_tokens": _INT},
            **{"accepted_tokens": _INT, "rate": _REAL, "mean_length": _REAL},
        }
    ),
    "acceptance_by_position": pa.schema(
        {"cell": _INT, "source": _TEXT, "position": _INT, "rate": _REAL}
    ),
    "flags": pa.schema({"cell": _INT, "name": _TEXT, "severity": _TEXT, "sentence": _TEXT}),
    "samples": pa.schema({"cell": _INT, "at": _REAL, "name": _TEXT, "value": _REAL}),
}

#: The columns of ``rejections``, which are kept apart from the sources.
REJECTIONS = pa.schema({"path": _TEXT, "reason": _TEXT, "rejected_at": _TIME})

#: Counted by the server, so canonical whatever the report holds.
_OF_THE_SERVER = (
    "acceptance_rate", "mean_acceptance_length", "kv_cache_tokens", "prefix_cache_hit_rate",
)  # fmt: skip
_DICTIONARY = [f.name for f in REQUEST_SCHEMA if pa.types.is_dictionary(f.type)]

#: Rows by table. Those of ``measurements``, a hundred per cell, are tuples in their schema's order.
TableRows = dict[str, list[Any]]


def as_table(name: str, rows: Sequence[Any]) -> pa.Table:
    """Return the rows as one batch. Raises InvalidInput where a number is beyond range."""
    try:
        if rows and isinstance(rows[0], tuple):
            columns = zip(*rows, strict=True)
            arrays = map(pa.array, map(list, columns), BATCHES[name].types)
            return pa.table(list(arrays), schema=BATCHES[name])
        return pa.Table.from_pylist(list(rows), schema=BATCHES[name])
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError) as error:
        raise InvalidInput(
            f"A value of {name} is beyond what can be stored ({error}); correct it in the report."
        ) from error


def _add_cell(rows: TableRows, number: int, source_id: str, cell: Cell) -> None:
    given = cell.measurements
    _check_measurements(cell)
    canonical = {(m.metric, m.statistic) for m in given if m.origin == "canonical"}
    facts = {key: getattr(cell.facts, key) for key in FACT_KEYS}
    for key in _JSON_FACTS:
        facts[key] = None if facts[key] is None else json.dumps(facts[key], sort_keys=True)
    started = cell.started_at
    measured = {metric for metric, _ in canonical} - set(_OF_THE_SERVER)
    rows["cells"].append(
        {
            **facts,
            **{key: getattr(cell, key) for key in (*_CELL_TEXTS, *_COUNTS)},
            "cell": number,
            "cell_id": cell.cell_id,
            "source_id": source_id,
            "index": cell.index,
            "arm_label": arm_label(
                cell.facts.spec_method,
                cell.facts.num_speculative_tokens,
                cell.facts.speculative_config,
            ),
            # With which cells its numbers compare: canonical where its requests were measured anew.
            "comparable_as": "canonical" if measured else f"reported: {cell.reported_definition}",
            "flags": len(cell.flags),
            "requests_complete": cell.requests_complete,
            "started_at": started.replace(tzinfo=started.tzinfo or UTC) if started else None,
            "order": cell.order,
            "duration": cell.duration,
        }
    )
    rows["measurements"] += (
        (number, m.origin, m.metric, m.statistic, m.value,
         m.origin == "canonical" or (m.metric, m.statistic) not in canonical)
        for m in given
    )  # fmt: skip
    for a in cell.acceptance:
        row = asdict(a)
        positions = row.pop("by_position")
        rows["acceptance"].append({"cell": number, **row})
        rows["acceptance_by_position"] += (
            {"cell": number, "source": a.source, "position": i, "rate": rate}
            for i, rate in enumerate(positions)
        )
    rows["flags"] += ({"cell": number, **asdict(flag)} for flag in cell.flags)
    rows["samples"] += (
        {"cell": number, **asdict(sample)} for sample in cell.samples if math.isfinite(sample.value)
    )


def _check_measurements(cell: Cell) -> None:
    counts = Counter((m.origin, m.metric, m.statistic) for m in cell.measurements)
    for _, metric, statistic in counts:
        if metric not in METRICS or statistic not in STATISTICS:
            raise InvalidInput(
                f"{metric} {statistic} of cell {cell.index} is not in the metric catalogue; "
                f"correct the reader."
            )
    for m in cell.measurements:
        if not math.isfinite(m.value):
            raise InvalidInput(
                f"{m.metric} {m.statistic} ({m.origin}) of cell {cell.index} is {m.value}, "
                f"not a number; correct the report."
            )
    if len(counts) < len(cell.measurements):
        ((origin, metric, statistic), _), *_ = counts.most_common(1)
        raise InvalidInput(
            f"{metric} {statistic} ({origin}) of cell {cell.index} is given twice; correct the report."
        )


# --- One Parquet file of requests per source: a row group per cell, private until it is whole.


class RequestFile:
    """Writes requests into ``private``, where they stay until they are published.

    Writing runs in a thread, one cell at a time, while the caller reads the next cell; what goes
    wrong there is raised by the next ``write`` or by ``whole``.
    """

    def __init__(self, root: Path) -> None:
        self.private = private_requests(root)
        self._writer: pq.ParquetWriter | None = None
        self._rows = 0
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="parquet")
        self._written: Future[None] | None = None

    def write(self, requests: pa.Table) -> None:
        """Append the requests of one cell (``rows.REQUEST_SCHEMA``) as a row group of its own."""
        if self._writer is None:
            self.private.parent.mkdir(parents=True, exist_ok=True)
            self._writer = pq.ParquetWriter(
                self.private,
                REQUEST_SCHEMA,
                compression=COMPRESSION,
                use_dictionary=[*_DICTIONARY, "prompt_hash", "category"],
            )
        if self._written is not None:
            self._written.result()
        self._written = self._thread.submit(self._writer.write_table, in_schema(requests), None)
        self._rows += requests.num_rows

    def whole(self) -> dict[str, Any] | None:
        """Write the file to its end; return its row of ``request_files``, None if nothing was
        written.

        It stays private: whoever lists it gives it its name (``placed``).
        """
        if self._writer is None or self._written is None:
            return None
        self._written.result()
        self._writer.close()
        sync(self.private)
        digest, size = sha256_of(self.private), self.private.stat().st_size
        return {"file": f"{digest}.parquet", "sha256": digest, "rows": self._rows, "bytes": size}

    def discard(self) -> None:
        """Remove the file. Harmless once it is published."""
        self.close()
        self.private.unlink(missing_ok=True)

    def close(self) -> None:
        """Let go of the file, which stays where it is."""
        self._thread.shutdown()
        if self._writer is not None and self._writer.is_open:
            # Closing writes a footer, which a full disk refuses; the file goes away either way.
            try:
                self._writer.close()
            except OSError:
                self._writer = None


def private_requests(root: Path) -> Path:
    """Return the path of a request file until it has its name: a new path with every call."""
    # The moment too: a source that waits for its commit outlives the process that read it.
    return root / REQUESTS / f"{PRIVATE}{os.getpid()}-{time.monotonic_ns()}-requests.parquet"


# --- The source itself.


@dataclass(frozen=True)
class Draft:
    """The rows of one source, its cells numbered from 0, and the private file of its requests.

    ``path``: the source's, as in ``Source``. ``requests``: whole and on the disk, and listed in the tables
    under the name that it will have; None where there are none.
    """

    source_id: str
    path: str
    tables: dict[str, pa.Table]
    requests: Path | None

    @property
    def cells(self) -> int:
        """How many cells the source has."""
        return int(self.tables["cells"].num_rows)

    @property
    def rows(self) -> int:
        """How many requests the source has."""
        if "request_files" not in self.tables:
            return 0
        return int(self.tables["request_files"].column("rows")[0].as_py())

    def numbered(self, first: int) -> "Draft":
        """Return the same draft with its cells numbered from ``first``."""
        cells, tables = self.tables["cells"].column("cell"), {}
        by = first - int(cells[0].as_py()) if self.cells else 0
        for name, table in self.tables.items():
            if by and "cell" in table.column_names:
                column, field = table.schema.get_field_index("cell"), table.schema.field("cell")
                table = table.set_column(column, field, pc.add(table.column(column), by))
            tables[name] = table
        return replace(self, tables=tables)

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


def _unpacked(
    source_id: str, path: str, packed: dict[str, list[bytes]], requests: Path | None
) -> Draft:
    tables = {
        name: pa.Table.from_batches(
            [pa.ipc.read_record_batch(pa.py_buffer(part), BATCHES[name]) for part in parts],
            BATCHES[name],
        )
        for name, parts in packed.items()
    }
    return Draft(source_id, path, tables, requests)


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


def _tables(source: Source, cells: Iterable[Cell], file: RequestFile) -> dict[str, pa.Table]:
    rows: TableRows = {name: [] for name in BATCHES}
    for number, cell in enumerate(cells):
        _add_cell(rows, number, source.source_id, cell)
        if cell.requests is not None and cell.requests.num_rows:
            file.write(cell.requests)
            rows["cell_requests"].append({"cell": number, "rows": cell.requests.num_rows})
    # After the cells: which ``--categories`` a source used stands in its settings only then.
    row = asdict(source)
    as_json = {
        key: json.dumps(row[key], sort_keys=True, default=str)
        for key in ("commands", "environment", "settings", "report_config")
    }
    rows["sources"].append({**row, **as_json, "ingested_at": datetime.now(UTC)})
    if len({row["cell_id"] for row in rows["cells"]}) != len(rows["cells"]):
        raise InvalidInput(f"{source.path} holds a cell twice; correct the reader of its format.")
    if (written := file.whole()) is not None:
        rows["request_files"] = [written]
        rows["cell_requests"] = [{**row, "file": written["file"]} for row in rows["cell_requests"]]
    there = (name for name in BATCHES if rows[name] or name == "cells")
    return {name: as_table(name, rows[name]) for name in there}
