"""A series over nights as a run chart: its levels, the noise around them, and what changed when.

The band is that of an individuals chart (Shewhart; Wheeler, "Understanding Variation", 1993): the
level plus or minus three standard deviations of a night, the same noise by which the gate judges.
"""

from dataclasses import dataclass
from datetime import datetime
from math import sqrt

import numpy as np

from analysis.matching.difference import Change, differences
from analysis.nightly.nights import Series
from analysis.nightly.regressions import Assessment
from warehouse.catalogue import METRICS

SIGMAS = 3.0


@dataclass(frozen=True, slots=True)
class Point:
    """One night in the metric's own unit. ``value``: geometric mean of the repeats; ``part``: the
    number of its ``level``; ``low`` and ``high``: the noise band, None where nothing tells the noise;
    ``changed``: the configuration against the night before; ``cell_id``: its first cell."""

    night: str
    at: datetime
    value: float
    repeats: int
    part: int
    level: float
    low: float | None
    high: float | None
    changed: tuple[Change, ...]
    cell_id: str | None


def points(one: Assessment) -> tuple[Point, ...]:
    """Return the nights of a series as points, oldest first."""
    known, nights = one.known, one.series.nights
    parts = np.searchsorted(known.starts, np.arange(len(nights)), side="right") - 1
    levels = np.array([known.means[parts == part].mean() for part in parts])
    noise = known.noise()
    room = None if noise is None else SIGMAS * sqrt(noise.variance)
    lows, highs = (None, None) if room is None else _ends(one.series, levels, room)
    values, middles = (_natural(logs, one.series) for logs in (known.means, levels))
    return tuple(
        Point(
            night.label, night.at.to_pydatetime(), float(values[place]), night.repeats,
            int(parts[place]), float(middles[place]), None if lows is None else float(lows[place]),
            None if highs is None else float(highs[place]), changed, night.cell.get("cell_id"),
        )
        for place, (night, changed) in enumerate(zip(nights, steps(one.series), strict=True))
    )  # fmt: skip


def steps(series: Series) -> list[tuple[Change, ...]]:
    """Return what changed with each night against the one before it; nothing with the first."""
    nights = series.nights
    later = zip(nights, nights[1:], strict=False)
    return [(), *(differences(before.cell, after.cell) for before, after in later)]


def _ends(series: Series, levels: np.ndarray, room: float) -> tuple[np.ndarray, np.ndarray]:
    ends = [_natural(levels + side * room, series) for side in (-1, 1)]
    return np.minimum(*ends), np.maximum(*ends)


def _natural(logs: np.ndarray, series: Series) -> np.ndarray:
    """Convert turned logs (more is better) back to the metric's unit."""
    sign = -1.0 if METRICS[series.metric].better == "lower" else 1.0
    natural: np.ndarray = np.exp(sign * logs)
    return natural
