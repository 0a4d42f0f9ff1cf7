"""Rows that are neither a share of trials nor a loss against a limit."""

from collections.abc import Sequence
from dataclasses import replace
from math import inf, sqrt

import numpy as np
from scipy.stats import norm

from tests.truth.row import LEVEL, Row, mean_at_most
from tests.truth.studies import Floats


def ratio_at_most(family: str, what: str, part: Floats, whole: Floats, limit: float) -> Row:
    """The ratio of two means over the same trials; the interval is that of the delta method."""
    ratio = float(part.mean() / whole.mean())
    error = float((part - ratio * whole).std(ddof=1)) / (float(whole.mean()) * sqrt(len(part)))
    half = float(norm.ppf((1 + LEVEL) / 2)) * error
    goal = f"≤ {limit:.2f} of it"
    return Row(family, what, ratio, ratio - half, ratio + half, goal, ratio - half <= limit)


def mean_printed(family: str, what: str, values: Floats) -> Row:
    """A mean that has no goal."""
    return replace(mean_at_most(family, what, values.tolist(), inf), goal="printed")


def points_at_most(family: str, what: str, values: Sequence[float], limit: float) -> Row:
    """A mean in points of a percentage."""
    found = mean_at_most(family, what, np.asarray(values).tolist(), limit)
    return replace(found, goal=f"≤ {limit * 100:.1f} points")
