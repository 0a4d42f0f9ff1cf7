"""What makes a cell broken rather than doubtful: numbers that cannot be true. Those are rejected."""

import itertools
import math
from collections.abc import Iterator

import pyarrow.compute as pc

from warehouse.catalogue import (
    LONGEST_CELL_S,
    METRICS,
    MOST_REQUESTS,
    PERCENTILES,
    REQUEST_METRICS,
    Metric,
    percentile_label,
)  # fmt: skip
from warehouse.errors import InvalidInput
from warehouse.rows import Acceptance, Cell, Measurement

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
