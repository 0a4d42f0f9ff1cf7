"""The per-request lists of ``vllm bench serve --save-detailed`` as request rows."""

from typing import TYPE_CHECKING, Any

import numpy as np

from ingest.level import Requests
from warehouse.errors import InvalidInput

if TYPE_CHECKING:
    from ingest.formats.vllm_bench import Bench


def requests_of(bench: "Bench") -> Requests | None:
    """Return every request with its times (monotonic s) and tokens; None without the lists.

    Raises InvalidInput where the lists differ in length or a time is negative.
    """
    if bench.ttfts is None or bench.output_lens is None:
        return None
    _check_lengths(bench)
    completed = _completed(bench)
    n = len(bench.ttfts)
    start = np.asarray(bench.start_times or [0.0] * n, dtype=np.float64)
    ttft = np.where(completed, np.asarray(bench.ttfts, dtype=np.float64), np.nan)
    end = start + np.where(completed, _latency(bench), np.nan)
    texts = bench.generated_texts
    errors = bench.errors or ["no output"] * n
    return Requests(
        columns={
            "start": start, "first_token": start + ttft, "last_token": end, "end": end,
            "prompt_tokens": bench.input_lens, "output_tokens": bench.output_lens,
        },
        errors=[None if good else error for good, error in zip(completed, errors, strict=True)],
        more={"output": texts} if texts and len(texts) == n else {},
        timed=bool(bench.start_times),
    )  # fmt: skip


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
