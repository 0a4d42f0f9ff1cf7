"""Doubts about the statistics of one metric: those of one set of values have to fit one another."""

import math
from collections.abc import Iterator

from analysis.flags.numbers import ROUNDED
from warehouse.catalogue import METRICS, QUANTILES, percentile_label
from warehouse.rows import Cell, Flag, Origin

Flags = Iterator[Flag]
Values = dict[str, float]

#: Sample standard deviations reach 0.71 of the range, those of a population half of it.
_WIDEST_STD = 0.75


def spread(cell: Cell) -> Flags:
    """Yield a flag where mean, deviation, lowest and highest value cannot belong to one set of
    values."""
    for (origin, key), values in _distributions(cell).items():
        # Of what is recomputed some means weigh requests by their tokens, and medians do not.
        why = _at_odds(values) or (_off_centre(values) if origin == "reported" else "")
        if why:
            metric = METRICS[key]
            yield Flag(
                "statistics_disagree",
                "error",
                f"The {origin} {metric.label} cannot be of one set of values: {why} {metric.unit}.",
            )


def _distributions(cell: Cell) -> dict[tuple[Origin, str], Values]:
    found: dict[tuple[Origin, str], Values] = {}
    for one in cell.measurements:
        if METRICS[one.metric].distribution:
            found.setdefault((one.origin, one.metric), {})[one.statistic] = one.value
    return found


def _at_odds(values: Values) -> str:
    low, high, mean, std = (values.get(name) for name in ("min", "max", "mean", "std"))
    if mean is not None and low is not None and mean < low - _slack(low):
        return f"a mean of {mean:g} is below the lowest, {low:g}"
    if mean is not None and high is not None and mean > high + _slack(high):
        return f"a mean of {mean:g} is above the highest, {high:g}"
    if std is not None and low is not None and high is not None:
        widest = _WIDEST_STD * (high - low)
        if std > widest + _slack(high):
            return f"a deviation of {std:g} does not fit into {low:g} to {high:g}"
    return ""


def _off_centre(values: Values) -> str:
    """Say which percentile the mean cannot have: of values from ``low`` to ``high`` the part 1 - q
    is not below the percentile q (Markov), which is at most so many deviations away (Cantelli)."""
    mean, std, high = (values.get(name) for name in ("mean", "std", "max"))
    low = values.get("min", 0.0)
    if mean is None:
        return ""
    for name, q in QUANTILES.items():
        value = values.get(name)
        if value is None:
            continue
        least, most = q * low + (1 - q) * value, math.inf
        if high is not None:
            most = q * value + (1 - q) * high
        if std is not None:
            wide = std * (1 + ROUNDED)
            least = max(least, value - wide * math.sqrt(q / (1 - q)))
            most = min(most, value + wide * math.sqrt((1 - q) / q))
        slack = _slack(max(mean, value))
        if not least - slack <= mean <= most + slack:
            deviation = "" if std is None else f" with a deviation of {std:g}"
            return f"a mean of {mean:g} and a {percentile_label(name)} of {value:g}{deviation}"
    return ""


def _slack(value: float) -> float:
    return max(ROUNDED * abs(value), 0.01)
