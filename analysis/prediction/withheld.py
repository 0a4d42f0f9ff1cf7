"""The withheld points that a user could have asked for, with the bands that he would have got."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from analysis.prediction.mixture import Spread
from analysis.prediction.reach import range_of
from analysis.prediction.rows import Floats, Mask, Points
from analysis.prediction.timing import widened
from analysis.prediction.trials import COMPARED, LeftOut, Trial


@dataclass(frozen=True)
class Withheld:
    """One point and metric. ``left_out``: whether all of its K or all of its load were withheld;
    ``inside``: whether the rest surrounds it (else the model had to extrapolate); ``low`` and
    ``high``: the band of the prediction."""

    left_out: LeftOut
    k: int
    concurrency: int
    inside: bool
    metric: str
    measured: float
    predicted: float
    low: float
    high: float

    @property
    def error(self) -> float:
        """The relative error: predicted / measured - 1."""
        return self.predicted / self.measured - 1

    @property
    def held(self) -> bool:
        """Whether what was measured lies within the band."""
        return self.low <= self.measured <= self.high


def withheld(trial: Trial, mine: Points, widths: dict[str, float]) -> tuple[Withheld, ...]:
    """Return a row per withheld point and metric; none for a point too far from the rest to be
    asked for.

    ``mine``: the dataset's points; ``widths``: as ``Trial.widths`` says.
    """
    if not trial.groups:
        return ()
    near, inside = _places(trial, mine)
    return tuple(
        one
        for metric in COMPARED
        for one in _rows(trial, metric, _band(trial, metric, widths, inside), (near, inside))
    )


def widening(width: float, beyond: Mask) -> Floats:
    """Return how many times as wide each band is made; beyond the measured range never narrower."""
    return np.where(beyond, max(width, 1.0), width)


def _band(trial: Trial, metric: str, widths: dict[str, float], inside: Mask) -> Spread:
    return widened(getattr(trial.found, metric), widening(widths[metric], ~inside))


def _places(trial: Trial, mine: Points) -> tuple[Mask, Mask]:
    """Return which withheld points lie near the remaining ones, and which lie between two of
    them."""
    near, inside = [], []
    for group in trial.groups:
        rest = range_of(getattr(mine, group.left_out)[~group.chosen & (mine.k > 0)])
        near.append(rest.near(group.value))
        inside.append(rest.low < group.value < rest.high)
    return np.array(near)[trial.group], np.array(inside)[trial.group]


def _rows(trial: Trial, metric: str, band: Spread, places: tuple[Mask, Mask]) -> Iterator[Withheld]:
    near, inside = places
    measured = getattr(trial.points, COMPARED[metric])
    # A baseline yields one token a step by definition: it would flatter the average.
    counted = near & ((trial.points.k > 0) | (metric != "mean_length"))
    for row in np.flatnonzero(counted):
        yield Withheld(
            trial.groups[trial.group[row]].left_out,
            int(trial.points.k[row]), int(trial.points.concurrency[row]), bool(inside[row]), metric,
            float(measured[row]),
            *(float(values[row]) for values in (band.middle, band.low, band.high)),
        )  # fmt: skip
