"""A series over nights as a run chart: its level, the noise around it, and what changed when.

The band is that of an individuals chart (Shewhart; Wheeler, "Understanding Variation", 1993): the
level plus or minus three standard deviations of a night, told by the mean step from one night to
the next / 1.128, or by the repeats within nights where these scatter more.
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from analysis.matching.difference import Change, differences
from analysis.nightly.nights import Night, Series
from analysis.nightly.regressions import Assessment
from warehouse.catalogue import METRICS

#: Expected step between two draws of one normal distribution, in standard deviations.
STEP_PER_SIGMA = 1.128
SIGMAS = 3.0


def moved(one: Assessment) -> bool:
    """Whether the level is another since ``first``: the interval of the change leaves out zero."""
    return one.first is not None and bool(one.low > 0 or one.high < 0)


def points(one: Assessment) -> pd.DataFrame:
    """One row per night, oldest first, in the metric's own unit.

    ``night``, ``at`` (UTC), ``value`` (geometric mean of the repeats), ``repeats``, ``part`` (0
    before the level moved, 1 after), ``level`` of the part, ``low`` and ``high`` of the noise band
    (NaN where nothing tells the noise), ``changed`` (the configuration against the night before).
    """
    nights = one.series.nights
    parts = _parts(one)
    means = np.array([night.mean for night in nights])
    levels = np.array([means[parts == part].mean() for part in parts])
    room = SIGMAS * _sigma(nights, means, parts)
    ends = [_natural(levels + side * room, one.series) for side in (-1, 1)]
    return pd.DataFrame(
        {
            "night": [night.label for night in nights],
            "at": [night.at for night in nights],
            "value": _natural(means, one.series),
            "repeats": [night.repeats for night in nights],
            "part": parts,
            "level": _natural(levels, one.series),
            "low": np.minimum(*ends),
            "high": np.maximum(*ends),
            "changed": ["; ".join(c.sentence for c in found) for found in steps(one.series)],
        }
    )


def steps(series: Series) -> list[tuple[Change, ...]]:
    """What changed with each night against the one before it; nothing with the first."""
    nights = series.nights
    later = zip(nights, nights[1:], strict=False)
    return [(), *(differences(before.cell, after.cell) for before, after in later)]


def _parts(one: Assessment) -> "np.ndarray[tuple[int], np.dtype[np.int64]]":
    labels = [night.label for night in one.series.nights]
    split = labels.index(one.first) if moved(one) and one.first else len(labels)
    return (np.arange(len(labels)) >= split).astype(np.int64)


def _sigma(nights: Sequence[Night], means: np.ndarray, parts: np.ndarray) -> float:
    """The standard deviation of a night's mean, in logs; NaN where nothing tells it."""
    within_a_part = np.diff(parts) == 0
    between = np.abs(np.diff(means))[within_a_part]
    repeated = [night for night in nights if night.repeats > 1]
    told = [float(between.mean()) / STEP_PER_SIGMA] if between.size else []
    if repeated:
        told.append(float(np.mean([np.sqrt(n.variance / n.repeats) for n in repeated])))
    return max(told, default=float("nan"))


def _natural(logs: np.ndarray, series: Series) -> np.ndarray:
    """From turned logs (more is better) back to the metric's unit."""
    sign = -1.0 if METRICS[series.metric].better == "lower" else 1.0
    natural: np.ndarray = np.exp(sign * logs)
    return natural
