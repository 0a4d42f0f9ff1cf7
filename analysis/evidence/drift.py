"""A drift within one cell: acceptance or speed that changes little by little over an hour or more.

The cell is cut into blocks of equal time; a line is fitted to the logarithms of their values. What
neighbouring blocks have in common (r, the first autocorrelation of the residuals, Kendall's 1954
correction for its bias) leaves fewer independent blocks: n (1 - r) / (1 + r), as for a mean of a
first-order process.
"""

from dataclasses import dataclass

import numpy as np

from analysis.percentiles import Floats

#: Of less than half an hour chance makes a drift in up to one cell of ten, where noise lasts minutes.
SHORTEST_S = 1800.0
BLOCKS = 30
#: A drift is named where chance makes one as large in fewer than one cell of two hundred, …
FALSE_ALARMS = 0.005
#: … and where the cell's end is so far from its beginning (ratio); less harms nobody.
LEAST = 0.02
_MOST_ALIKE = 0.9


@dataclass(frozen=True)
class Drift:
    """How a cell's value changes while it is measured. ``per_hour``: the change an hour (ratio,
    negative: falls), with its 95 % interval."""

    per_hour: float
    low: float
    high: float
    p_value: float
    hours: float

    @property
    def named(self) -> bool:
        """Whether the drift is sure and large enough to be told."""
        over_all = abs(np.log1p(self.per_hour)) * self.hours
        return self.p_value <= FALSE_ALARMS and bool(over_all >= np.log1p(LEAST))


def drift(at: Floats, above: Floats, below: Floats) -> Drift | None:
    """Return the drift of sum(``above``) / sum(``below``) over the moments ``at`` (unix s).

    For a rate of acceptance: tokens accepted and drafted since the sample before; for a time per
    token: a request's seconds and tokens. None where the cell is shorter than SHORTEST_S, or fewer
    than half of the blocks hold anything.
    """
    if at.size < BLOCKS or np.ptp(at) < SHORTEST_S:
        return None
    block = np.minimum(((at - at.min()) / np.ptp(at) * BLOCKS).astype(np.int64), BLOCKS - 1)
    tops, bottoms = (np.bincount(block, weights, BLOCKS) for weights in (above, below))
    filled = np.flatnonzero((tops > 0) & (bottoms > 0))
    if filled.size < BLOCKS / 2:
        return None
    hours = float(np.ptp(at)) / 3600
    return _line((filled + 0.5) / BLOCKS * hours, np.log(tops[filled] / bottoms[filled]), hours)


def _line(x: Floats, y: Floats, hours: float) -> Drift | None:
    """Return the slope of y (logs) over x (hours), with what neighbours have in common taken
    out."""
    # Only cells of half an hour need it, and every process that reads a report would load it.
    from scipy.special import stdtr, stdtrit

    moved, count = x - x.mean(), len(x)
    squares = float((moved**2).sum())
    slope = float(moved @ y) / squares
    rest = y - y.mean() - slope * moved
    alike = _alike(rest)
    independent = count * (1 - alike) / (1 + alike)
    freedom = max(1.0, independent - 2)
    variance = float((rest**2).sum()) / max(1.0, count - 2)
    error = np.sqrt(variance / squares * (1 + alike) / (1 - alike))
    if not error > 0:
        return None
    p_value = 2 * float(stdtr(freedom, -abs(slope) / error))
    reach = float(stdtrit(freedom, 0.975)) * error
    ends = np.expm1([slope, slope - reach, slope + reach])
    return Drift(float(ends[0]), float(ends[1]), float(ends[2]), p_value, hours)


def _alike(rest: Floats) -> float:
    """Return the first autocorrelation, 0 to _MOST_ALIKE, corrected upwards since short series show
    too little of it."""
    count, total = len(rest), float((rest**2).sum())
    if total <= 0:
        return 0.0
    seen = float(rest[1:] @ rest[:-1]) / total
    return float(np.clip(seen + (1 + 4 * seen) / count, 0.0, _MOST_ALIKE))
