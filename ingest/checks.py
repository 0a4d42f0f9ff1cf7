"""What every cell goes through before it is taken in: zeros that nobody counted, the share that
was served, which acceptance is shown, and numbers that cannot be true, which are rejected.
"""

import itertools
import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
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
from warehouse.rows import COMPLETED, Acceptance, Cell, Flag, Measurement, Origin

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
    the load was over too soon to tell."""
    facts = cell.facts
    load = load_of(facts.load_profile, facts.concurrency, facts.rate, facts.trace)
    if _over_too_soon(cell):
        return cell
    if load is not None and load.kind == "trace":
        return _of_trace(cell)
    if load is None or load.offered_rate is None:
        return cell
    achieved: tuple[tuple[Origin, float | None], ...] = (
        ("canonical", _completions_per_second(cell)),
        ("reported", _reported(cell)),
    )
    found = (
        Measurement(origin, _METRIC, "mean", rate / load.offered_rate)
        for origin, rate in achieved
        if rate is not None
    )
    return replace(cell, measurements=(*cell.measurements, *found))


def _of_trace(cell: Cell) -> Cell:
    """Return the cell with its attainment: the time in which its requests came over that in which
    they were completed; 1 where a server keeps up, less where they pile up."""
    came, done = (_span(cell, column) for column in ("start", "end"))
    if not came or not done:
        return cell
    found = Measurement("canonical", _METRIC, "mean", came / done)
    return replace(cell, measurements=(*cell.measurements, found))


def _over_too_soon(cell: Cell) -> bool:
    """Return whether requests came for less than the median request took.

    Of such a load nobody can tell: a server that takes all of it at once completes all of it late
    and together, at many times the rate.
    """
    starts, ends = (_completed(cell, column) for column in ("start", "end"))
    if not starts.size or starts.size != ends.size:
        return False
    return float(np.ptp(starts)) < float(np.median(ends - starts))


def _span(cell: Cell, column: str) -> float | None:
    """Return the seconds between the first and the last completed request."""
    times = _completed(cell, column)
    return float(np.ptp(times)) if times.size else None


def _completed(cell: Cell, column: str) -> NDArray[np.float64]:
    """Return a column of the completed requests in the window; empty where not all requests are
    known."""
    if cell.requests is None or not cell.requests_complete:
        return np.empty(0)
    rows = cell.requests
    inside = (rows["status"].to_numpy() == COMPLETED) & rows["in_window"].to_numpy()
    times: NDArray[np.float64] = rows[column].to_numpy().astype(np.float64)[inside]
    return np.asarray(times[~np.isnan(times)])


def _completions_per_second(cell: Cell) -> float | None:
    """Return the rate of completions from the first to the last: a server that keeps up completes
    what is offered.

    Over the whole window it would seem not to, for the time that its last requests take.
    """
    ends = _completed(cell, "end")
    span = float(np.ptp(ends)) if ends.size else 0.0
    return (ends.size - 1) / span if span > 0 else None


def _reported(cell: Cell) -> float | None:
    for m in cell.measurements:
        if (m.origin, m.metric, m.statistic) == ("reported", "request_throughput", "mean"):
            return m.value
    return None


# --- Which of several counts of a cell's acceptance is shown, and what the others say about it.


_ORDER = ("counters", "requests", "vllm_bench")
_METRICS = ("acceptance_rate", "mean_acceptance_length")


def finished(cell: Cell) -> Cell:
    """Return the cell with its best acceptance among the measurements and with all flags."""
    counts = tuple(sorted(cell.acceptance, key=lambda a: _ORDER.index(a.source)))
    cell = replace(
        cell,
        acceptance=counts,
        measurements=(*_others(cell), *_best(counts)),
        flags=(*cell.flags, *cross_check(counts)),
    )
    return replace(cell, flags=_unique((*cell.flags, *lint(cell))))


def _others(cell: Cell) -> tuple[Measurement, ...]:
    return tuple(
        m for m in cell.measurements if not (m.origin == "canonical" and m.metric in _METRICS)
    )


def _best(counts: tuple[Acceptance, ...]) -> tuple[Measurement, ...]:
    usable = [a for a in counts if a.drafts or a.rate is not None]
    if not usable:
        return ()
    values = zip(_METRICS, (usable[0].rate, usable[0].mean_length), strict=True)
    return tuple(
        Measurement("canonical", metric, "mean", value)
        for metric, value in values
        if value is not None
    )


def _unique(flags: tuple[Flag, ...]) -> tuple[Flag, ...]:
    """Keep each flag once: a format and a lint may raise the same doubt."""
    return tuple(dict.fromkeys(flags))


# --- What makes a cell broken rather than doubtful: numbers that cannot be true. Those are rejected.


#: Two readings of one clock may differ by its resolution.
_CLOCK = 1e-6
#: What reports round away, as a share and in a metric's unit.
_ROUNDED, _ROUNDED_BY = 0.01, 0.011
_RISING = ("min", *PERCENTILES, "max")
_COUNTS = ("drafts", "draft_tokens", "accepted_tokens")


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
    for measurement in cell.measurements:
        yield from _impossible_measurement(measurement)
    for sample in cell.samples:
        if sample.value < 0:
            yield f"a sample of {sample.name} of {sample.value:g}"
    yield from _disordered(cell)
    yield from _impossible_requests(cell)


def _impossible_acceptance(a: Acceptance) -> Iterator[str]:
    rate, length = METRICS["acceptance_rate"], METRICS["mean_acceptance_length"]
    if any(not _plausible(rate, one) for one in (a.rate, *a.by_position)):
        yield "an acceptance rate outside 0 to 1"
    if any((getattr(a, name) or 0) < 0 for name in _COUNTS):
        yield "a negative count of draft tokens"
    if a.draft_tokens is not None and (a.accepted_tokens or 0) > a.draft_tokens:
        yield f"{a.accepted_tokens:.15g} accepted of {a.draft_tokens:.15g} drafted tokens"
    if not _plausible(length, a.mean_length):
        yield f"a mean acceptance length of {a.mean_length:g}"


def _impossible_measurement(one: Measurement) -> Iterator[str]:
    # How far values spread is no value: it may be below the lowest, but never below zero.
    metric = METRICS[one.metric]
    spread = one.statistic == "std"
    if not (0 <= one.value <= metric.highest if spread else _plausible(metric, one.value)):
        yield (
            f"a {'standard deviation of the ' * spread}{metric.label} of {one.value:g} "
            f"{metric.unit}"
        )


def _disordered(cell: Cell) -> Iterator[str]:
    """Say which percentiles fall where they have to rise."""
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


def _impossible_requests(cell: Cell) -> Iterator[str]:
    if cell.requests is None:
        return
    for name in REQUEST_METRICS:
        ends = pc.min_max(cell.requests.column(name)).as_py()
        for value in ends.values():
            if not _plausible(METRICS[name], value):
                yield f"a request with a {METRICS[name].label} of {value:g} {METRICS[name].unit}"


def _plausible(metric: Metric, value: float | None) -> bool:
    """Return whether a value may be true; an unknown one may. An infinite one never is."""
    if value is None:
        return True
    return metric.lowest - _CLOCK <= value <= metric.highest + _CLOCK and math.isfinite(value)
