"""What makes a cell broken rather than doubtful: numbers that cannot be true. Those are rejected."""

import math
from collections.abc import Iterator

import pyarrow.compute as pc

from warehouse.catalogue import METRICS, REQUEST_METRICS, Metric
from warehouse.errors import InvalidInput
from warehouse.rows import Acceptance, Cell, Measurement

#: Two readings of one clock may differ by its resolution.
_CLOCK = 1e-6


def require_storable(cell: Cell) -> None:
    """Raises InvalidInput with the first impossible number of the cell."""
    for wrong in _impossible(cell):
        raise InvalidInput(
            f"Benchmark {cell.index} of this report has {wrong}, which cannot be; the file was "
            "altered or its clock jumped, so measure it again."
        )


def _impossible(cell: Cell) -> Iterator[str]:
    if cell.duration is not None and not 0 <= cell.duration < math.inf:
        yield f"a duration of {cell.duration:g} s"
    for name in ("requests_made", "completed", "errored", "incomplete"):
        if (getattr(cell, name) or 0) < 0:
            yield f"{getattr(cell, name)} requests {name.removeprefix('requests_')}"
    for acceptance in cell.acceptance:
        yield from _impossible_acceptance(acceptance)
    for measurement in cell.measurements:
        yield from _impossible_measurement(measurement)
    yield from _impossible_requests(cell)


def _impossible_acceptance(a: Acceptance) -> Iterator[str]:
    rate, length = METRICS["acceptance_rate"], METRICS["mean_acceptance_length"]
    if any(not _plausible(rate, one) for one in (a.rate, *a.by_position)):
        yield "an acceptance rate outside 0 to 1"
    if any((count or 0) < 0 for count in (a.drafts, a.draft_tokens, a.accepted_tokens)):
        yield "a negative count of draft tokens"
    if not _plausible(length, a.mean_length):
        yield f"a mean acceptance length of {a.mean_length:g}"


def _impossible_measurement(one: Measurement) -> Iterator[str]:
    # How far values spread is no value: it may be below the lowest.
    metric = METRICS[one.metric]
    if one.statistic != "std" and not _plausible(metric, one.value):
        yield f"a {metric.label} of {one.value:g} {metric.unit}"


def _impossible_requests(cell: Cell) -> Iterator[str]:
    if cell.requests is None:
        return
    for name in REQUEST_METRICS:
        ends = pc.min_max(cell.requests.column(name)).as_py()
        for value in ends.values():
            if not _plausible(METRICS[name], value):
                yield f"a request with a {METRICS[name].label} of {value:g} {METRICS[name].unit}"


def _plausible(metric: Metric, value: float | None) -> bool:
    """Whether a value may be true; an unknown one may. An infinite one never is."""
    if value is None:
        return True
    return metric.lowest - _CLOCK <= value <= metric.highest + _CLOCK and math.isfinite(value)
