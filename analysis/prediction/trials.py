"""Every measured K and load, predicted from all the others: what the bands of a forecast rest on.

All points of one K are withheld together, and all of one load: what a question asks for has no
neighbour of its own kind either.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from analysis.prediction.posterior import Spread
from analysis.prediction.reach import range_of
from analysis.prediction.rows import Floats, Mask, Numbers, Points, Rows
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
    return tuple(_groups(mine, fitted))


def _groups(mine: Points, fitted: Points) -> Iterator[Group]:
    names: tuple[LeftOut, ...] = ("k", "concurrency")
    for name in names:
        values: Floats = getattr(mine, name)
        known = np.unique(values[values > 0])
        for value in known if len(known) > 1 else ():
            if ((mine.k > 0) & (values != value)).any():
                yield Group(name, float(value), values == value, getattr(fitted, name) == value)


@dataclass(frozen=True, eq=False)
class Trial:
    """Withheld points, one a row, with their predictions; ``group``: each one's place in
    ``groups``."""

    groups: tuple[Group, ...]
    group: Numbers
    points: Points
    found: Timing

    def widths(self) -> dict[str, float]:
        """Return by metric how many times as wide its band must be to suit the errors that were
        found, moderated (Smyth 2004, doi:10.2202/1544-6115.1027)."""
        return {metric: self._width(metric) for metric in COMPARED}

    def _width(self, metric: str) -> float:
        if metric == "mean_length":
            return 1.0  # Counted, not timed: it has no noise of its own.
        known: Spread = getattr(self.found, metric)
        squares = deviations(known, getattr(self.points, COMPARED[metric])) ** 2
        means = np.bincount(self.group, squares) / np.bincount(self.group)
        return float(np.sqrt((TRUSTED + means.sum()) / (TRUSTED + len(means))))


def trial(usual: Usual, groups: Sequence[Group], fits: tuple[Fit, Fit], alone: bool) -> Trial:
    """Predict what was withheld, with the times of a step and of a first token (``fits``) and the
    acceptance of the rest. ``alone``: the fits saw this dataset and no other."""
    sizes = [int(one.chosen.sum()) for one in groups]
    group = np.repeat(np.arange(len(groups)), sizes)
    order = np.concatenate([np.flatnonzero(one.chosen) for one in groups] or [group])
    points = usual.points.where(order)
    asked = _joined([_asked(usual, one) for one in groups])
    step, first = (fit.without(asked.rows, group).spread() for fit in fits)
    if not alone:
        scales = _scales(usual.points, groups, fits)
        step, first = step.times(scales[0][group]), first.times(scales[1][group])
    return Trial(tuple(groups), group, points, timing(step, first, asked))


def _asked(usual: Usual, group: Group) -> Asked:
    """Ask for the points of a group with what the remaining points say of acceptance, lengths and
    ramp."""
    counted, mine = usual.positions, usual.points
    others = getattr(counted, group.left_out) != group.value
    rest = Usual(mine.where(~group.chosen), counted.where(others))
    return asked_of(rest, mine.k[group.chosen], mine.concurrency[group.chosen])


def _joined(parts: Sequence[Asked]) -> Asked:
    rows = (np.concatenate(c) for c in zip(*(vars(p.rows).values() for p in parts), strict=True))
    return Asked(
        Rows(*rows),
        np.concatenate([part.concurrency for part in parts]),
        np.concatenate([part.kept for part in parts]),
        np.concatenate([part.doubt for part in parts]),
    )


def _scales(mine: Points, groups: Sequence[Group], fits: tuple[Fit, Fit]) -> tuple[Floats, Floats]:
    """Return by group how long a step and a first token of the rest of the dataset take, relative
    to the fits, which saw other datasets too."""
    group, row = np.nonzero([~one.chosen for one in groups])
    rest = mine.where(row)
    step, first = (fit.without(rest.rows, group).mean() for fit in fits)
    counts = np.bincount(group)
    missed = np.log(rest.step / step), np.log(rest.ttft / first)
    return np.exp(np.bincount(group, missed[0]) / counts), np.exp(
        np.bincount(group, missed[1]) / counts
    )


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
