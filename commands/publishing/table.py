"""The table that strangers read first: one row for each cell, with what was measured most often."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from warehouse import queries
from warehouse.filters import Filters
from warehouse.store import Reader

RESULTS = "results.parquet"
_FACTS = (
    "cell_id", "study", "model", "precision", "engine", "engine_version", "gpu", "gpu_count",
    "tensor_parallel_size", "dataset", "concurrency", "rate", "arm_label", "spec_method",
    "num_speculative_tokens", "repeat", "evidence", "load_generator", "started_at", "duration",
    "completed", "errored",
)  # fmt: skip
#: Metric, statistic -> the unit stands in docs/definitions.md.
_NUMBERS = (
    ("output_throughput", "mean"), ("request_throughput", "mean"), ("ttft", "p50"),
    ("ttft", "p95"), ("itl", "p50"), ("itl", "p99"), ("request_latency", "p95"),
    ("acceptance_rate", "mean"), ("mean_acceptance_length", "mean"),
)  # fmt: skip


def write(reader: Reader, path: Path) -> pa.Table:
    """Write and return the table; Snappy, since readers in a browser know it."""
    found = results(reader)
    pq.write_table(found, path, compression="snappy")
    return found


def as_written(reader: Reader, path: Path) -> bool:
    """Return whether the table at ``path`` is what the warehouse comes to."""
    try:
        return bool(pq.read_table(path).equals(results(reader)))
    except (OSError, pa.ArrowInvalid):
        return False


def results(reader: Reader) -> pa.Table:
    """Return the table: excluded runs are left out, as in every answer."""
    cells = queries.cells(reader, Filters()).select(_FACTS)
    metrics, statistics = zip(*_NUMBERS, strict=True)
    rows = queries.measurements(reader, Filters(), metrics, statistics).to_pylist()
    known = {(r["cell_id"], r["metric"], r["statistic"]): r["value"] for r in rows}
    ids = cells.column("cell_id").to_pylist()
    for metric, statistic in _NUMBERS:
        values = [known.get((one, metric, statistic)) for one in ids]
        cells = cells.append_column(f"{metric}_{statistic}", pa.array(values, pa.float64()))
    return cells
