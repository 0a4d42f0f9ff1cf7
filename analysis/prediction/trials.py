"""Every measured K and load, predicted from all the others: what the bands of a forecast rest on.

All points of one K are withheld together, and all of one load: what a question asks for has no
neighbour of its own kind either.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from analysis.prediction.posterior import Spread
from analysis.prediction.reach import range_of
from analysis.prediction.rows import Floats, Mask, Numbers, Points
from analysis.prediction.step_time import Fit
from analysis.prediction.usual import Asked, Timing, Usual, asked_of, deviations, timing, widened

LeftOut = Literal["k", "concurrency"]
#: What is compared of each point: the prediction's name and the point's.
COMPARED: dict[str, str] = {
    "mean_length": "length", "itl": "itl", "ttft": "ttft", "output_throughput": "output_throughput",
}  # fmt: skip
#: The errors that were found are averaged with so many imagined groups that just met their bands.
TRUSTED = 10.0


@dataclass(frozen=True, eq=False)
class Group:
    """All points of one K, or of one load: ``chosen`` of one dataset, ``fitted`` of all that are
    fitted together."""

    left_out: LeftOut
    value: float
    chosen: Mask
    fitted: Mask


def groups_of(mine: Points, fitted: Points) -> tuple[Group, ...]:
    """Return every K above 0 and every load of a dataset, where there are several and without it a
    speculative point is left."""
    groups = []
    names: tuple[LeftOut, ...] = ("k", "concurrency")
    for name in names:
        values: Floats = getattr(mine, name)
        levels = np.unique(values[values > 0])
        for value in levels if len(levels) > 1 else ():
            if ((mine.k > 0) & (values != value)).any():
                same = getattr(fitted, name) == value
                groups.append(Group(name, float(value), values == value, same))
    return tuple(groups)


@dataclass(frozen=True, eq=False)
class Trial:
    """Withheld points, one a row, with their predictions; ``group``: each one's place in
    ``groups``."""

    groups: tuple[Group, ...]
    group: Numbers
    points: Points
    predicted: Timing

    def widths(self) -> dict[str, float]:
        """Return by metric how many times as wide its band must be to suit the errors that were
        found, moderated (Smyth 2004, doi:10.2202/1544-6115.1027)."""
        widths = {"mean_length": 1.0}  # Counted, not timed: it has no noise of its own.
        for metric in [name for name in COMPARED if name not in widths]:
            band: Spread = getattr(self.predicted, metric)
            squares = deviations(band, getattr(self.points, COMPARED[metric])) ** 2
            means = np.bincount(self.group, squares) / np.bincount(self.group)
            widths[metric] = float(np.sqrt((TRUSTED + means.sum()) / (TRUSTED + len(means))))
        return widths


def trial(usual: Usual, groups: tuple[Group, ...], fits: tuple[Fit, Fit], alone: bool) -> Trial:
    """Predict what was withheld, with the times of a step and of a first token (``fits``) and with
    what the remaining points say of acceptance, lengths and ramp. ``alone``: the fits saw this
    dataset and no other."""
    mine, counted = usual.points, usual.positions
    asked = []
    for each in groups:
        others = getattr(counted, each.left_out) != each.value
        rest = Usual(mine.where(~each.chosen), counted.where(others))
        asked.append(asked_of(rest, mine.k[each.chosen], mine.concurrency[each.chosen]))
    columns = zip(*(vars(each).values() for each in asked), strict=True)
    every = Asked(*(np.concatenate(column) for column in columns))
    group, row = np.nonzero([each.chosen for each in groups])
    step, first = (fit.without(every, group).spread() for fit in fits)
    if not alone:
        # How long steps and first tokens of the rest take relative to the fits, which saw others.
        left, at = np.nonzero([~each.chosen for each in groups])
        rest_of = mine.where(at)
        scales = []
        for fit, times in zip(fits, (rest_of.step, rest_of.ttft), strict=True):
            missed = np.log(times / fit.without(rest_of, left).mean())
            scales.append(np.exp(np.bincount(left, missed) / np.bincount(left)))
        step, first = step.times(scales[0][group]), first.times(scales[1][group])
    return Trial(groups, group, mine.where(row), timing(step, first, every))


# --- The withheld points that a user could have asked for, with the bands that he would have got.


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
    near, inside = [], []
    for group in trial.groups:
        rest = range_of(getattr(mine, group.left_out)[~group.chosen & (mine.k > 0)])
        near.append(rest.near(group.value))
        inside.append(rest.low < group.value < rest.high)
    askable, surrounded = np.array(near)[trial.group], np.array(inside)[trial.group]
    points, rows = trial.points, []
    for metric, measure in COMPARED.items():
        factors = widening(widths[metric], ~surrounded)
        band = widened(getattr(trial.predicted, metric), factors)
        # A baseline yields one token a step by definition: it would flatter the average.
        counted = askable & ((points.k > 0) | (metric != "mean_length"))
        for row in np.flatnonzero(counted):
            rows.append(Withheld(
                trial.groups[trial.group[row]].left_out,
                int(points.k[row]), int(points.concurrency[row]), bool(surrounded[row]), metric,
                float(getattr(points, measure)[row]),
                *(float(values[row]) for values in (band.middle, band.low, band.high)),
            ))  # fmt: skip
    return tuple(rows)


def widening(width: float, beyond: Mask) -> Floats:
    """Return how many times as wide each band is made; beyond the measured range never narrower."""
    return np.where(beyond, max(width, 1.0), width)
