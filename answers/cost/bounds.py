"""Service levels worth asking about: bounds that some of the measured loads keep and some do not."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import exp, inf, log

import numpy as np
import pandas as pd

from analysis.evidence.words import GAIN, LIKELY_GAIN, LIKELY_LOSS, LOSS, OPEN, Word
from answers.cost.values import Amount
from answers.decide.values import Difference, Saving
from warehouse import queries
from warehouse.catalogue import JUDGED_PER_REQUEST, METRICS
from warehouse.filters import Filters
from warehouse.store_read import Reader

#: Quantiles of the normal distribution, 0.90 over 0.975. Those of t with few degrees of freedom lie
#: closer to the middle, so that the 90 % end is never too near.
_NEARER = 1.2816 / 1.9600
_BETTER: tuple[Word, Word] = (GAIN, LIKELY_GAIN)
_WORSE: tuple[Word, Word] = (LOSS, LIKELY_LOSS)


@dataclass(frozen=True)
class Ends:
    """How many times the baseline's throughput an arm makes: as expected, and at both ends of the
    plain, the study-adjusted and the one-sided 90 % interval (None: nothing repeats)."""

    expected: float
    plain: tuple[float, float] | None
    adjusted: tuple[float, float] | None
    likely: tuple[float, float] | None


def ends_of(saving: Saving, difference: Difference) -> Ends:
    """Return the ends of a decision's saving, from the difference in throughput behind it."""
    plain = _both(difference.low, difference.high)
    return Ends(
        1 / (1 - saving.per_output_token),
        plain,
        _both(difference.adjusted_low, difference.adjusted_high),
        None if plain is None else _nearer(*plain),
    )


def _both(low: float | None, high: float | None) -> tuple[float, float] | None:
    return None if low is None or high is None else (1 + low, 1 + high)


def _nearer(low: float, high: float) -> tuple[float, float]:
    if not 0 < low <= high < inf:
        return low, high
    middle, half = (log(low) + log(high)) / 2, (log(high) - log(low)) / 2 * _NEARER
    return exp(middle - half), exp(middle + half)


def amount(saved: Callable[[float], float], ends: Ends, saving: Saving) -> Amount:
    """Return what is ``saved`` at so many times the baseline's throughput, with interval and word.

    Whole GPUs come in steps: a settled gain of throughput may free none. So the word is the
    saving's only where an end of its interval still saves (or loses) something, and never surer.
    """
    value = saved(ends.expected)
    low, high = (None, None) if ends.plain is None else map(saved, ends.plain)
    return Amount(value, low, high, _word(saved, ends, saving.word, value))


def _word(saved: Callable[[float], float], ends: Ends, word: Word, value: float) -> Word:
    settled, likely = _BETTER if value > 0 else _WORSE
    sign, end = (1, 0) if value > 0 else (-1, 1)
    if word not in (settled, likely) or ends.adjusted is None or ends.likely is None:
        return OPEN
    if word == settled and sign * saved(ends.adjusted[end]) > 0:
        return settled
    return likely if sign * saved(ends.likely[end]) > 0 else OPEN


_STATISTICS: tuple[str, ...] = ("p50", "p95", "p99")
#: Of the values measured, which shares an offered bound lets pass.
_SHARES = (0.25, 0.5, 0.75)
_FIRST = ("ttft", "p95"), ("itl", "p95")


@dataclass(frozen=True)
class Offered:
    """What a reader can ask for. ``bounds`` to choose from, ``ttft:p95<200ms`` among them;
    ``first``: a service level in the middle of what was measured, None where no latency was."""

    bounds: tuple[str, ...]
    first: str | None


def offered(reader: Reader, filters: Filters) -> Offered:
    """Return the bounds worth asking about for the cells that the filters keep."""
    return offered_of(
        queries.measurements(reader, filters, JUDGED_PER_REQUEST, _STATISTICS).to_pandas()
    )


def offered_of(rows: pd.DataFrame) -> Offered:
    """Return the bounds worth asking about for these measurements (metric, statistic, value)."""
    every = [_bounds(rows, m, s, _SHARES) for m in JUDGED_PER_REQUEST for s in _STATISTICS]
    first = [
        text for metric, statistic in _FIRST for text in _bounds(rows, metric, statistic, (0.5,))
    ]
    return Offered(tuple(text for texts in every for text in texts), "; ".join(first) or None)


def _bounds(rows: pd.DataFrame, metric: str, statistic: str, shares: Sequence[float]) -> list[str]:
    own = rows[(rows["metric"] == metric) & (rows["statistic"] == statistic)]
    values = own["value"].dropna()
    if values.empty:
        return []
    limits = dict.fromkeys(_round(float(value)) for value in values.quantile(list(shares)))
    unit = METRICS[metric].unit
    return [f"{metric}:{statistic}<{limit}{unit}" for limit in limits if float(limit) > 0]


def _round(value: float) -> str:
    """Round up to two digits, as a person would write a bound."""
    if value <= 0:
        return "0"
    step = 10.0 ** (np.floor(np.log10(value)) - 1)
    return f"{np.ceil(value / step) * step:.6g}"
