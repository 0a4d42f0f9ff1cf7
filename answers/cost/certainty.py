"""From how sure a throughput is to how sure whole GPUs and a year's money are."""

from collections.abc import Callable
from dataclasses import dataclass
from math import exp, inf, log

from analysis.evidence.words import GAIN, LIKELY_GAIN, LIKELY_LOSS, LOSS, OPEN, Word
from answers.cost.values import Amount
from answers.decide.values import Difference, Saving

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
