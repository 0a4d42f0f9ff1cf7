"""The per-request lists of ``vllm bench serve --save-detailed`` as request rows."""

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from analysis.canonical import Window, with_latencies
from warehouse.catalogue import REQUEST_METRICS
from warehouse.errors import InvalidInput
from warehouse.rows import COMPLETED, ERRORED, REQUEST_SCHEMA
from warehouse.secrets.texts import scrub_text

if TYPE_CHECKING:
    from ingest.formats.vllm_bench import Bench

Columns = dict[str, np.ndarray[Any, Any]]
_MOMENTS = ("start", "first_token", "last_token", "end")


def request_columns(bench: "Bench") -> Columns | None:
    """Return times (monotonic s), tokens, latencies and status of every request; None without the
    lists.

    Raises InvalidInput where the lists differ in length or a time is negative.
    """
    if bench.ttfts is None or bench.output_lens is None:
        return None
    _check_lengths(bench)
    completed = _completed(bench)
    start = _numbers(bench.start_times, len(bench.ttfts), 0.0)
    ttft = np.where(completed, np.asarray(bench.ttfts, dtype=np.float64), np.nan)
    end = start + np.where(completed, _latency(bench), np.nan)
    columns: Columns = {
        "status": np.where(completed, COMPLETED, ERRORED).astype(object),
        "start": start,
        "first_token": start + ttft,
        "last_token": end,
        "end": end,
        "prompt_tokens": _numbers(bench.input_lens, len(bench.ttfts), np.nan),
        "output_tokens": np.asarray(bench.output_lens, dtype=np.float64),
    }
    return with_latencies(columns, Window(None, None))


def request_table(
    cell_id: str, bench: "Bench", columns: Columns | None, keep_text: bool
) -> pa.Table | None:
    """Return the rows in REQUEST_SCHEMA; outputs only where texts are kept."""
    if columns is None:
        return None
    n = len(columns["start"])
    known = dict(_known(columns, bench))
    known["cell_id"] = pa.array([cell_id] * n)
    known["index"] = pa.array(range(n), pa.int32())
    known["error"] = pa.array(_errors(bench, n), pa.string())
    if keep_text and bench.generated_texts and len(bench.generated_texts) == n:
        known["output"] = pa.array([scrub_text(t) for t in bench.generated_texts], pa.string())
    arrays = [
        known[f.name].cast(f.type) if f.name in known else pa.nulls(n, f.type)
        for f in REQUEST_SCHEMA
    ]
    return pa.Table.from_arrays(arrays, schema=REQUEST_SCHEMA)


def _known(columns: Columns, bench: "Bench") -> list[tuple[str, pa.Array]]:
    # Without start times the moments are unknown; the latencies are not.
    known = (*REQUEST_METRICS, *(_MOMENTS if bench.start_times else ()))
    return [
        *((name, pa.array(columns[name], pa.float64(), from_pandas=True)) for name in known),
        ("status", pa.array(columns["status"].tolist(), pa.string())),
        ("in_window", pa.array(columns["in_window"].astype(bool))),
    ]


def _check_lengths(bench: "Bench") -> None:
    lists = (bench.output_lens, bench.input_lens, bench.itls, bench.start_times, bench.latencies,
             bench.errors)  # fmt: skip
    n = len(bench.ttfts or ())
    if any(member is not None and len(member) != n for member in lists):
        raise InvalidInput(
            "This vllm bench result has per-request lists of different lengths; it was altered or "
            "cut short, run the benchmark again."
        )
    if min(bench.ttfts or (0.0,)) < 0 or min(bench.latencies or (0.0,)) < 0:
        raise InvalidInput(
            "This vllm bench result has a negative duration; the clock jumped, run it again."
        )


def _completed(bench: "Bench") -> np.ndarray[Any, Any]:
    if bench.errors is not None:
        return np.asarray([not error for error in bench.errors], dtype=bool)
    return np.asarray(bench.output_lens, dtype=np.float64) > 0


def _latency(bench: "Bench") -> np.ndarray[Any, Any]:
    """Return request sent to last token, s: as stated, else first token plus the gaps after it."""
    if bench.latencies is not None:
        return np.asarray(bench.latencies, dtype=np.float64)
    gaps = bench.itls or [[] for _ in bench.ttfts or ()]
    decoding = np.asarray([sum(g) for g in gaps], dtype=np.float64)
    latency: np.ndarray[Any, Any] = np.asarray(bench.ttfts, dtype=np.float64) + decoding
    return latency


def mean_gap(bench: "Bench") -> float | None:
    """Return the mean time between two chunks of the requests that succeeded, ms; None where none
    is known."""
    done = _completed(bench)
    gaps = [own for own, good in zip(bench.itls or (), done, strict=False) if good]
    count = sum(map(len, gaps))
    return 1000 * sum(map(sum, gaps)) / count if count else None


def _numbers(values: list[Any] | None, n: int, missing: float) -> np.ndarray[Any, Any]:
    return np.full(n, missing) if values is None else np.asarray(values, dtype=np.float64)


def _errors(bench: "Bench", n: int) -> list[str | None]:
    errors = bench.errors or [None] * n
    return [scrub_text(error) if error else None for error in errors]
