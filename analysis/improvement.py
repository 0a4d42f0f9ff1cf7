"""The one definition of improvement, and the mean that suits ratios."""

from collections.abc import Iterable
from math import exp, log

from warehouse.catalogue import Better


def improvement(baseline: float, new: float, better: Better) -> float | None:
    """How much better ``new`` is, as a ratio; positive is better, always.

    Higher is better: new / baseline - 1. Lower is better: 1 - new / baseline. None where neither
    direction is better, or where the baseline is not above zero.
    """
    if better == "neither" or not baseline > 0:
        return None
    ratio = new / baseline
    return ratio - 1 if better == "higher" else 1 - ratio


def geometric_mean(values: Iterable[float]) -> float | None:
    """exp(mean(log(values))); None for no values or where one is not above zero."""
    given = list(values)
    if not given or not all(value > 0 for value in given):
        return None
    return exp(sum(map(log, given)) / len(given))
