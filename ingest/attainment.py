"""How much of what was offered was served: a measurement of cells with a rate or a trace."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from warehouse.loads import load_of
from warehouse.rows import COMPLETED, Cell, Measurement, Origin

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
