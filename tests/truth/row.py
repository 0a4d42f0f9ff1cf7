"""One row of the truth table: a figure found over many simulated trials, held against its goal.

A row fails when its 99.9 % interval lies outside the goal: chance alone fails one row in a thousand.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import fmean, stdev

from scipy.stats import beta, norm

LEVEL = 0.999


@dataclass(frozen=True)
class Row:
    """``value`` with its 99.9 % interval from ``low`` to ``high``; ``goal`` in words."""

    family: str
    what: str
    value: float
    low: float
    high: float
    goal: str
    passed: bool


def share(  # noqa: PLR0913 - a row is what it is
    family: str,
    what: str,
    hits: int,
    trials: int,
    at_most: float | None = None,
    at_least: float | None = None,
) -> Row:
    """The share of trials that hit, against a bound or two (ratios); without a bound it passes."""
    low, high = interval(hits, trials)
    passed = (at_most is None or low <= at_most) and (at_least is None or high >= at_least)
    return Row(family, what, hits / trials, low, high, _goal(at_most, at_least), passed)


def interval(hits: int, trials: int) -> tuple[float, float]:
    """The 99.9 % interval of a share (Clopper & Pearson 1934, doi:10.1093/biomet/26.4.404)."""
    tail = (1 - LEVEL) / 2
    low = float(beta.ppf(tail, hits, trials - hits + 1)) if hits else 0.0
    high = float(beta.ppf(1 - tail, hits + 1, trials - hits)) if hits < trials else 1.0
    return low, high


def mean_at_most(family: str, what: str, values: Sequence[float], limit: float) -> Row:
    """The mean of a loss over the trials, against a limit; the interval is the normal one."""
    mean = fmean(values)
    error = stdev(values) / sqrt(len(values)) if len(values) > 1 else 0.0
    half = float(norm.ppf((1 + LEVEL) / 2)) * error
    return Row(
        family, what, mean, mean - half, mean + half, _goal(limit, None), mean - half <= limit
    )


def table(rows: Sequence[Row]) -> str:
    """The rows as text: family, what, figure with interval, goal, and whether it is met."""
    lines = [_line(row) for row in rows]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


def _line(row: Row) -> tuple[str, ...]:
    figure = f"{row.value:.2%} ({row.low:.2%} to {row.high:.2%})"
    return row.family, row.what, figure, row.goal, "met" if row.passed else "MISSED"


def _goal(at_most: float | None, at_least: float | None) -> str:
    bounds = [
        f"≥ {_bound(at_least)}" if at_least is not None else "",
        f"≤ {_bound(at_most)}" if at_most is not None else "",
    ]
    return " and ".join(filter(None, bounds)) or "printed"


def _bound(ratio: float) -> str:
    return f"{ratio:.2%}" if 0 < ratio < 0.01 else f"{ratio:.1%}"
