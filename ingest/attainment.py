"""How much of an offered rate of requests was served: a measurement of cells with a rate."""

from dataclasses import replace

import numpy as np

from warehouse.loads import load_of
from warehouse.rows import COMPLETED, Cell, Measurement, Origin

_METRIC = "request_attainment"


def with_attainment(cell: Cell) -> Cell:
    """The cell with its attainment; as it was where no rate was offered, or none is known."""
    facts = cell.facts
    load = load_of(facts.load_profile, facts.concurrency, facts.rate, facts.trace)
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


def _completions_per_second(cell: Cell) -> float | None:
    """From the first completion to the last: a server that keeps up completes what is offered.

    Over the whole window it would seem not to, for the time that its last requests take.
    """
    if cell.requests is None or not cell.requests_complete:
        return None
    rows = cell.requests
    done = (rows["status"].to_numpy() == COMPLETED) & rows["in_window"].to_numpy()
    ends = rows["end"].to_numpy().astype(np.float64)[done]
    ends = ends[~np.isnan(ends)]
    span = float(np.ptp(ends)) if ends.size else 0.0
    return (ends.size - 1) / span if span > 0 else None


def _reported(cell: Cell) -> float | None:
    for m in cell.measurements:
        if (m.origin, m.metric, m.statistic) == ("reported", "request_throughput", "mean"):
            return m.value
    return None
