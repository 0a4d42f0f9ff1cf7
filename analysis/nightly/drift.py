"""A drift: the nights become slower little by little, so that no night stands out.

From some night on a slope is fitted (a broken line: level, then slope). It is named where it is
sure at the rate of false alarms, for all the nights at which it may have begun and all the stretches
that were looked at, and where no step explains the nights clearly better. A step that is exp(3/2)
= 4.5 times as likely explains them clearly better.
"""

from dataclasses import dataclass
from math import log2, sqrt

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtr

from analysis.nightly.levels import PRICE, Levels, squares
from analysis.nightly.standing import FALSE_ALARMS, Reference

Floats = NDArray[np.float64]
#: A drift lasts two weeks, or it cannot be told from a step.
DRIFT_NIGHTS = 14
#: How much better (twice the log likelihood) a step explains the nights where there is no drift.
_CLEARLY = 3.0


@dataclass(frozen=True, slots=True)
class Slope:
    """A drift that began on some night. ``first``: the last night before the slope (a place);
    ``per_night``: its gain in logs."""

    first: int
    per_night: float
    p_value: float


def slope(known: Levels, reference: Reference) -> Slope | None:
    """Return the surest drift up to the last night since the reference; None where none is
    named."""
    starts = [start for start, _ in known.spans(reference.first)]
    count = len(known.means)
    stretches = [start for start in starts if count - start >= DRIFT_NIGHTS]
    found = [_of_stretch(known, start, len(stretches)) for start in stretches]
    named = [one for one in found if one is not None and one.p_value <= FALSE_ALARMS]
    return min(named, key=lambda one: one.p_value, default=None)


def _of_stretch(known: Levels, start: int, stretches: int) -> Slope | None:
    """Return the best slope from a night of the stretch on; None where steps explain the nights
    clearly better."""
    values = known.means[start:] - known.means[start:].mean()
    count, total = len(values), float((values**2).sum())
    begins = np.arange(0, count - DRIFT_NIGHTS + 1)
    rates, explained = _slopes(values, begins)
    place = int(explained.argmax())
    rest = max(total - float(explained[place]), 1e-300)
    variance = rest / (count - 3)
    if rest > total - _by_one_step(values) + _CLEARLY * variance or rest > _by_levels(known, start):
        return None
    t = sqrt(float(explained[place]) / variance)
    # Slopes that begin within the same doubling of length are nearly the same one.
    looks = stretches * (1 + 2 * log2(count / DRIFT_NIGHTS))
    p_value = min(1.0, 2 * float(stdtr(count - 3, -t)) * looks)
    return Slope(start + int(begins[place]), float(rates[place]), p_value)


def _slopes(values: Floats, begins: NDArray[np.int64]) -> tuple[Floats, Floats]:
    """Return the rate of a slope after each of ``begins``, and the sum of squares that it
    explains."""
    lines = np.maximum(0.0, np.arange(len(values))[None, :] - begins[:, None])
    lines -= lines.mean(axis=1, keepdims=True)
    norms = (lines**2).sum(axis=1)
    rates = lines @ values / norms
    return rates, rates**2 * norms


def _by_one_step(values: Floats) -> float:
    """Return the sum of squares that the best single step explains."""
    before = np.arange(1, len(values))
    sums = np.cumsum(values)[:-1]
    return float((sums**2 * (1 / before + 1 / (len(values) - before))).max())


def _by_levels(known: Levels, start: int) -> float:
    """Return the squares that a slope may leave unexplained: those that the levels leave, and the
    price of the levels beyond the first two. Infinite where there are fewer than three."""
    starts = [0, *(one - start for one in known.starts if one > start)]
    noise = known.noise()
    if len(starts) < 3 or noise is None:
        return float("inf")
    price = PRICE * float(np.log(len(known.means))) * noise.variance
    return squares(known.means[start:], starts) + price * (len(starts) - 2)
