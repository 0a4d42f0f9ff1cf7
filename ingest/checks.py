"""What every cell goes through before it is taken in: zeros that nobody counted, the share that
was served, which acceptance is shown, and numbers that cannot be true, which are rejected.
"""

import itertools
import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from analysis.drafts.acceptance import cross_check
from analysis.flags.lints import lint
from warehouse.catalogue import (
    LONGEST_CELL_S,
    METRICS,
    MOST_REQUESTS,
    PERCENTILES,
    REQUEST_METRICS,
    Metric,
    percentile_label,
)
from warehouse.errors import InvalidInput
from warehouse.loads import load_of
from warehouse.rows import COMPLETED, Acceptance, Cell, Measurement, Origin

# --- Zeros that stand for what nobody counted: load generators write 0 where they have no value.


#: Of a completed request none of these is 0. A rate of requests may be.
_NEVER_ZERO = frozenset(
    {"output_throughput", "total_throughput", "ttft", "itl", "tpot", "chunk_gap",
     "request_latency", "prompt_tokens", "output_tokens"}
)  # fmt: skip


def without_uncounted(cell: Cell) -> Cell:
    """Return the cell without reported metrics whose mean of completed requests is 0: they are
    unknown.

    A server without streaming has no first token, one that says no usage no tokens; GuideLLM and
    ``vllm bench`` then report 0 for every statistic.
    """
    unknown = {
        m.metric
        for m in cell.measurements
        if (m.origin, m.statistic, m.value) == ("reported", "mean", 0) and m.metric in _NEVER_ZERO
    }
    if not unknown:
        return cell
    kept = (m for m in cell.measurements if m.origin != "reported" or m.metric not in unknown)
    return replace(cell, measurements=tuple(kept))


# --- How much of what was offered was served: a measurement of cells with a rate or a trace.


_METRIC = "request_attainment"


def with_attainment(cell: Cell) -> Cell:
    """Return the cell with its attainment; unchanged where no rate was offered, none is known, or
    the load was over too soon to tell.

    Of a trace it is the time in which its requests came over that in which they were completed: 1
    where a server keeps up, less where they pile up.
    """
    facts = cell.facts
    load = load_of(facts.load_profile, facts.concurrency, facts.rate, facts.trace)
    starts, ends = (_completed(cell, column) for column in ("start", "end"))
    both_known = starts.size > 0 and starts.size == ends.size
    # Requests came for less than the median one took: a server that takes all of them at once
    # completes all of them late and together, at many times the rate.
    if load is None or (both_known and np.ptp(starts) < np.median(ends - starts)):
        return cell
    came, done = (float(np.ptp(one)) if one.size else 0.0 for one in (starts, ends))
    found: dict[Origin, float] = {}
    if load.kind == "trace":
        if came and done:
            found["canonical"] = came / done
    elif load.offered_rate is not None:
        # From the first completion to the last: over the whole window a server that keeps up would
        # seem not to, for the time that its last requests take.
        if done > 0:
            found["canonical"] = (ends.size - 1) / done / load.offered_rate
        for m in cell.measurements:
            if (m.origin, m.metric, m.statistic) == ("reported", "request_throughput", "mean"):
                found.setdefault("reported", m.value / load.offered_rate)
    more = (Measurement(origin, _METRIC, "mean", value) for origin, value in found.items())
    return replace(cell, measurements=(*cell.measurements, *more))


def _completed(cell: Cell, column: str) -> NDArray[np.float64]:
    """Return a column of the completed requests in the window; empty where not all requests are
    known."""
    if cell.requests is None or not cell.requests_complete:
        return np.empty(0)
    rows = cell.requests
    inside = (rows["status"].to_numpy() == COMPLETED) & rows["in_window"].to_numpy()
    times: NDArray[np.float64] = rows[column].to_numpy().astype(np.float64)[inside]
    return np.asarray(times[~np.isnan(times)])


# --- Which of several counts of a cell's acceptance is shown, and what the others say about it.


_ORDER = ("counters", "requests", "vllm_bench")
_METRICS = ("acceptance_rate", "mean_acceptance_length")


def finished(cell: Cell) -> Cell:
    """Return the cell with its best acceptance among the measurements and with all flags."""
    counts = tuple(sorted(cell.acceptance, key=lambda a: _ORDER.index(a.source)))
    values = [
        m for m in cell.measurements if not (m.origin == "canonical" and m.metric in _METRICS)
    ]
    usable = next((a for a in counts if a.drafts or a.rate is not None), None)
    if usable is not None:
        values += [
            Measurement("canonical", metric, "mean", value)
            for metric, value in zip(_METRICS, (usable.rate, usable.mean_length), strict=True)
            if value is not None
        ]
    flags = (*cell.flags, *cross_check(counts))
    cell = replace(cell, acceptance=counts, measurements=tuple(values), flags=flags)
    # Each once: a format and a lint may raise the same doubt.
    return replace(cell, flags=tuple(dict.fromkeys((*flags, *lint(cell)))))


# --- What makes a cell broken rather than doubtful: numbers that cannot be true. Those are rejected.


#: Two readings of one clock may differ by its resolution.
_CLOCK = 1e-6
#: What reports round away, as a share and in a metric's unit.
_ROUNDED, _ROUNDED_BY = 0.01, 0.011
_RISING = ("min", *PERCENTILES, "max")


def require_storable(cell: Cell) -> None:
    """Raise InvalidInput with the first impossible number of the cell."""
    for wrong in _impossible(cell):
        raise InvalidInput(
            f"Benchmark {cell.index} of this report has {wrong}, which cannot be; the file was "
            "altered or its clock jumped, so measure it again."
        )


def _impossible(cell: Cell) -> Iterator[str]:
    if cell.duration is not None and not 0 <= cell.duration <= LONGEST_CELL_S:
        yield f"a duration of {cell.duration:g} s"
    for name in ("requests_made", "completed", "errored", "incomplete"):
        if not 0 <= (getattr(cell, name) or 0) <= MOST_REQUESTS:
            yield f"{getattr(cell, name):.15g} requests {name.removeprefix('requests_')}"
    for acceptance in cell.acceptance:
        yield from _impossible_acceptance(acceptance)
    for one in cell.measurements:
        # How far values spread is no value: it may be below the lowest, but never below zero.
        metric, is_spread = METRICS[one.metric], one.statistic == "std"
        if not (0 <= one.value <= metric.highest if is_spread else _plausible(metric, one.value)):
            what = f"{'standard deviation of the ' * is_spread}{metric.label}"
            yield f"a {what} of {one.value:g} {metric.unit}"
    for sample in cell.samples:
        if sample.value < 0:
            yield f"a sample of {sample.name} of {sample.value:g}"
    yield from _disordered(cell)
    if cell.requests is not None:
        yield from _impossible_requests(cell.requests)


def _impossible_requests(requests: pa.Table) -> Iterator[str]:
    for name in REQUEST_METRICS:
        metric = METRICS[name]
        for value in pc.min_max(requests.column(name)).as_py().values():
            if not _plausible(metric, value):
                yield f"a request with a {metric.label} of {value:g} {metric.unit}"


def _impossible_acceptance(a: Acceptance) -> Iterator[str]:
    rate, length = METRICS["acceptance_rate"], METRICS["mean_acceptance_length"]
    if any(not _plausible(rate, one) for one in (a.rate, *a.by_position)):
        yield "an acceptance rate outside 0 to 1"
    if any((count or 0) < 0 for count in (a.drafts, a.draft_tokens, a.accepted_tokens)):
        yield "a negative count of draft tokens"
    if a.draft_tokens is not None and (a.accepted_tokens or 0) > a.draft_tokens:
        yield f"{a.accepted_tokens:.15g} accepted of {a.draft_tokens:.15g} drafted tokens"
    if not _plausible(length, a.mean_length):
        yield f"a mean acceptance length of {a.mean_length:g}"


def _disordered(cell: Cell) -> Iterator[str]:
    found: dict[tuple[str, str], dict[str, float]] = {}
    for one in cell.measurements:
        found.setdefault((one.origin, one.metric), {})[one.statistic] = one.value
    for (_, key), values in found.items():
        known = [(name, values[name]) for name in _RISING if name in values]
        for (low, lower), (high, upper) in itertools.pairwise(known):
            if upper < lower - max(_ROUNDED * abs(lower), _ROUNDED_BY):
                yield (
                    f"a {METRICS[key].label} whose {percentile_label(high)} ({upper:g}) is below "
                    f"its {percentile_label(low)} ({lower:g} {METRICS[key].unit})"
                )


def _plausible(metric: Metric, value: float | None) -> bool:
    """Return whether a value may be true; an unknown one may. An infinite one never is."""
    if value is None:
        return True
    return metric.lowest - _CLOCK <= value <= metric.highest + _CLOCK and math.isfinite(value)
