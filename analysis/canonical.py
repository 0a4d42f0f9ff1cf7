"""One definition of every measurement, recomputed from the requests of a cell.

The formulas are those of GuideLLM >= 0.7.4, so a cell of any release can be set beside any other.
"""

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from analysis.percentiles import Floats, nearest_rank
from warehouse.catalogue import METRICS, QUANTILES
from warehouse.rows import COMPLETED, Measurement

Columns = Mapping[str, NDArray[Any]]

_PER_REQUEST = {key: metric.request for key, metric in METRICS.items() if metric.request}
#: Unix seconds in a float are good to about a quarter of a microsecond.
CLOCK_RESOLUTION = 1e-6


@dataclass(frozen=True)
class Window:
    """The measured window, in the clock of the requests; None: the extent of the requests."""

    start: float | None
    end: float | None


class _Requests:
    """The columns that a formula of the catalogue reads, by name."""

    def __init__(self, columns: Columns) -> None:
        done = columns["status"] == COMPLETED
        last, ends, n = columns["last_token"], ends_of(columns), columns["output_tokens"]
        self.columns: Columns = {
            **columns,
            "ended": np.where(done, ends, np.nan),
            "finished": np.where(done, np.where(np.isnan(last), columns["end"], last), np.nan),
            "tokens": np.where(n > 0, n, np.nan),
            "gaps": np.where(n > 1, n - 1, np.nan),
        }

    def __getattr__(self, name: str) -> NDArray[Any]:
        return self.columns[name]


def with_latencies(columns: Columns, window: Window) -> dict[str, NDArray[Any]]:
    """Add every metric of the catalogue that a request has a value of, and ``in_window`` (bool).

    ``columns`` holds ``status`` (object) and float64 arrays of one length with NaN for unknown:
    ``start``, ``first_token``, ``last_token``, ``end``, ``prompt_tokens``, ``output_tokens``.
    """
    read = _Requests(columns)
    values = {key: one.value(read) for key, one in _PER_REQUEST.items() if key not in columns}
    begin, finish = _bounds(columns, window)
    inside = _overlaps(columns["start"], ends_of(columns), begin, finish)
    return {**columns, **values, "in_window": inside}


def canonical(
    columns: Columns, window: Window, errored: int, completed: int
) -> tuple[Measurement, ...]:
    """Return every canonical measurement of a cell, from the columns that ``with_latencies`` takes
    or, for the same window, returns.

    Optional columns: ``iterations`` (streamed chunks per request) places the tokens of a chunk
    together at the window's edges, as GuideLLM does, without it every token stands alone; ``turn``
    (of a session, from 1) tells the times to the first token of first and later turns apart.
    ``errored`` and ``completed`` count the whole run. What cannot be computed is left out.
    """
    full = columns if "in_window" in columns else with_latencies(columns, window)
    begin, finish = _bounds(columns, window)
    values = {
        **_rates(full, begin, finish),
        **_concurrency(full, begin, finish),
        **_error_rate(errored, completed),
        **_distributions(full, begin, finish),
    }
    return tuple(
        Measurement("canonical", metric, statistic, float(value))
        for (metric, statistic), value in values.items()
        if np.isfinite(value)
    )


Values = dict[tuple[str, str], float]


def ends_of(columns: Columns) -> Floats:
    """Return when each request ended: at its last token where nothing else is known."""
    end: Floats = np.where(np.isnan(columns["end"]), columns["last_token"], columns["end"])
    return end


def _bounds(columns: Columns, window: Window) -> tuple[float, float]:
    starts, ends = columns["start"], ends_of(columns)
    begin = window.start if window.start is not None else _extreme(starts, "min")
    finish = window.end if window.end is not None else _extreme(ends, "max")
    return begin, finish


def _extreme(values: Floats, which: str) -> float:
    known = values[~np.isnan(values)]
    return float(getattr(known, which)()) if known.size else float("nan")


def _overlaps(start: Floats, end: Floats, begin: float, finish: float) -> NDArray[np.bool_]:
    """Return which requests overlap the window; touching it is enough, and a request of unknown
    start counts at its end."""
    known_start = np.where(np.isnan(start), end, start)
    inside: NDArray[np.bool_] = (end >= begin) & (known_start <= finish)
    return inside


def _rates(full: Columns, begin: float, finish: float) -> Values:
    length = finish - begin
    if not length > 0:
        return {}
    done = {k: v[full["status"] == COMPLETED] for k, v in full.items()}
    ends = ends_of(done)
    first = np.where(np.isnan(done["first_token"]), ends, done["first_token"])
    prompt = _counted(done["prompt_tokens"]) * ((first >= begin) & (first <= finish))
    output = _tokens_inside(done, begin, finish) if np.any(done["output_tokens"] > 0) else np.nan
    ended = np.count_nonzero((ends >= begin) & (ends <= finish))
    return {
        ("output_throughput", "mean"): output / length,
        ("total_throughput", "mean"): (output + prompt.sum()) / length,
        ("request_throughput", "mean"): ended / length,
    }


def _counted(tokens: Floats) -> Floats:
    """Return token counts with 0 for an unknown one; all unknown where no request states a
    count."""
    return np.nan_to_num(tokens) if np.any(tokens > 0) else np.full_like(tokens, np.nan)


def _tokens_inside(done: Columns, begin: float, finish: float) -> float:
    """Return the output tokens in the window: one at a request's first token, the rest in even
    steps to its last."""
    n = np.nan_to_num(done["output_tokens"])
    steps = np.nan_to_num(done.get("iterations", n)) - 1
    steps = np.where(np.isnan(done.get("iterations", n)), n - 1, steps)
    first, last = done["first_token"], done["last_token"]
    spread = (steps >= 1) & (n > 1) & ~np.isnan(first) & ~np.isnan(last)
    at = np.where(np.isnan(last), ends_of(done), last)
    at_once = np.sum(n[~spread & (at >= begin) & (at <= finish)])
    first, last, n, steps = first[spread], last[spread], n[spread], steps[spread]
    firsts = np.count_nonzero((first >= begin) & (first <= finish))
    gap = np.maximum(last - first, CLOCK_RESOLUTION) / steps
    upto = np.floor((finish - first + CLOCK_RESOLUTION) / gap).clip(0, steps)
    before = np.ceil((begin - first - CLOCK_RESOLUTION) / gap).clip(1, steps + 1) - 1
    rest = np.sum((upto - before).clip(0) * (n - 1) / steps)
    return float(at_once + firsts + rest)


def _concurrency(full: Columns, begin: float, finish: float) -> Values:
    if not finish > begin:
        return {}
    shared = np.minimum(ends_of(full), finish) - np.maximum(full["start"], begin)
    return {("achieved_concurrency", "mean"): np.nansum(shared.clip(0)) / (finish - begin)}


def _error_rate(errored: int, completed: int) -> Values:
    ended = errored + completed
    return {("error_rate", "mean"): errored / ended} if ended else {}


def _distributions(full: Columns, begin: float, finish: float) -> Values:
    """Return the distributions of each metric over its own requests: first-token metrics are
    windowed by the first token."""
    done = full["status"] == COMPLETED
    start, first, end = full["start"], full["first_token"], ends_of(full)
    overlapping = done & full["in_window"]
    prefilled = done & _overlaps(start, first, begin, finish)
    decoding = done & _overlaps(first, end, begin, finish)
    counted = {"in flight": overlapping, "first token": prefilled, "producing": decoding}
    read = _Requests(full)
    described = [
        _describe(key, full[key], counted[one.counted], one.weight and one.weight(read))
        for key, one in _PER_REQUEST.items()
    ]
    turn = full.get("turn", np.full(len(done), np.nan))
    described += [
        _describe(key, full["ttft"], prefilled & which)
        for key, which in (("ttft_first_turn", turn == 1), ("ttft_later_turns", turn > 1))
    ]
    return dict(itertools.chain.from_iterable(values.items() for values in described))


def _describe(
    metric: str, values: Floats, kept: NDArray[np.bool_], weights: Floats | None = None
) -> Values:
    kept = kept & ~np.isnan(values)
    if weights is not None:
        kept = kept & (weights > 0)
    if not kept.any():
        return {}
    x, w = values[kept], None if weights is None else weights[kept]
    mean = np.average(x, weights=w)
    named = {
        "mean": mean,
        "std": np.sqrt(np.average((x - mean) ** 2, weights=w)),
        "min": x.min(),
        "max": x.max(),
        **dict(zip(QUANTILES, nearest_rank(x, tuple(QUANTILES.values()), w), strict=True)),
    }
    return {(metric, statistic): float(value) for statistic, value in named.items()}
