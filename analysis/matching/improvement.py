"""The one definition of improvement, and the mean that suits ratios."""

from collections.abc import Iterable
from math import exp, log
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from warehouse.catalogue import Better


def improvements(baseline: ArrayLike, new: ArrayLike, better: ArrayLike) -> NDArray[np.float64]:
    """Return how much better each ``new`` is, as a ratio; positive is better, always.

    Higher is better: new / baseline - 1. Lower is better: 1 - new / baseline. NaN where neither
    direction is better, or where the baseline is not above zero. ``better``: words of the
    catalogue, one for all or one for each.
    """
    known = np.asarray(baseline, dtype=np.float64)
    ratio = np.asarray(new, dtype=np.float64) / np.where(known > 0, known, np.nan)
    direction: NDArray[Any] = np.asarray(better, dtype=object)
    signed = np.where(direction == "lower", 1 - ratio, np.nan)
    return np.where(direction == "higher", ratio - 1, signed)


def improvement(baseline: float, new: float, better: Better) -> float | None:
    """Return how much better ``new`` is, as ``improvements``; None where that says NaN."""
    found = float(improvements(baseline, new, better))
    return None if np.isnan(found) else found


def geometric_mean(values: Iterable[float]) -> float | None:
    """Return exp(mean(log(values))); None for no values or where one is not above zero."""
    given = list(values)
    if not given or not all(value > 0 for value in given):
        return None
    return exp(sum(map(log, given)) / len(given))
