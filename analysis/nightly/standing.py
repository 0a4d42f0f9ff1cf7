"""Where a series stands: its last nights against the best level since a reference.

A level of the past counts from three nights on. The last nights are looked at in four ways: the last
one, two and three nights, and the last level. The error rate is shared among them, three quarters of
what is left for each; the place of a level was chosen among all nights, and pays for that as well.
A regression that was shown stays one until its end is shown, or until it is accepted.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from math import log2, sqrt

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtr, stdtrit

from analysis.nightly.levels import PRICE, Levels, Span, squares

#: The share of false alarms among nights on which nothing changed.
FALSE_ALARMS = 0.01
#: Nights that make a level to hold others against.
LEVEL_NIGHTS = 3
#: How many last nights are looked at, and the share of the error rate that this look gets.
WINDOWS = ((1, 0.75), (2, 0.1875), (3, 0.046875))
LEVEL_SHARE = 0.015625


@dataclass(frozen=True, slots=True)
class Reference:
    """The nights from which a series is judged. ``first``: the night from which levels count;
    ``through``: the last one that is accepted."""

    first: int = 0
    through: int = 0


@dataclass(frozen=True, slots=True)
class Step:
    """The nights of ``after`` against those of ``before``: the gain in logs (more is better), its
    95 % interval, and the one-sided p value of a loss."""

    before: Span
    after: Span
    gain: float
    low: float
    high: float
    p_value: float


@dataclass(frozen=True, slots=True)
class Standing:
    """What the last nights of a series show. ``step``: the last nights against the best level;
    ``worse``: a loss beyond the budget is shown; ``excluded``: such a loss is ruled out; ``since``:
    the night (a place) from which it is worse; ``p_value``: of the surest look, for all looks
    together."""

    step: Step
    worse: bool
    excluded: bool
    since: int | None
    p_value: float


def compare(known: Levels, before: Span, after: Span) -> Step | None:
    """Compare two stretches of nights by a t test whose noise is that of all nights; None without a
    noise."""
    noise = known.noise(after[0])
    if noise is None:
        return None
    gain = float(known.means[slice(*after)].mean() - known.means[slice(*before)].mean())
    error = sqrt(noise.variance * sum(1 / (end - start) for start, end in (before, after)))
    half = float(stdtrit(noise.dof, 0.975)) * error
    return Step(
        before, after, gain, gain - half, gain + half, float(stdtr(noise.dof, gain / error))
    )


def stand(known: Levels, reference: Reference, budget: float) -> Standing | None:
    """Return where the series stands; ``budget``: the loss in logs that is still fine, above zero.

    None where no night comes after the reference, or nothing tells the noise.
    """
    now = _now(known, reference)
    if now is None:
        return None
    looks = sorted(_looks(known, reference), key=lambda look: look[0])
    losses = [look for look in looks if look[1].gain < -budget and look[0] <= FALSE_ALARMS]
    excluded = _is_excluded(known, reference, now, budget)
    past = _past(known, reference, budget)
    if losses:
        # Of several losses that of the last whole level tells best since when it is worse.
        level = known.spans(reference.first)[-1]
        seen = next((step for _, step in losses if step.after == level), losses[0][1])
        since = _since(known, reference, _began(known, reference, seen), past, budget)
        return Standing(seen, True, False, since, losses[0][0])
    if past is not None and not excluded:
        return Standing(now, True, False, past[0], past[1])
    return Standing(now, False, excluded, None, looks[0][0])


def _began(known: Levels, reference: Reference, seen: Step) -> int:
    """Return the night from which the last level is as it is in the nights that were seen: the cut
    that leaves the least squares around what was before and what is now."""
    level, end = known.spans(reference.first)[-1]
    before = known.means[slice(*seen.before)] if seen.before[1] <= level else known.means[:0]
    first = max(level + (not before.size), reference.through + 1)

    def left(cut: int) -> float:
        old = np.concatenate([before, known.means[level:cut]])
        return squares(np.concatenate([old, known.means[cut:end]]), (0, len(old)))

    return min(range(first, seen.after[0] + 1), key=left)


def best(known: Levels, reference: Reference, end: int) -> Span:
    """Return the best level since the reference before the night ``end``; all nights where none is
    long enough to be one."""
    spans = [(start, min(stop, end)) for start, stop in known.spans(reference.first) if start < end]
    long = [span for span in spans if span[1] - span[0] >= LEVEL_NIGHTS]
    mean = known.means
    return max(long, key=lambda span: mean[slice(*span)].mean(), default=(spans[0][0], end))


def _now(known: Levels, reference: Reference) -> Step | None:
    """Compare the last level, where it began after the reference, else the last three nights or
    fewer, with the best level before."""
    first, end = known.spans(reference.first)[-1]
    if first <= reference.through:
        nights = min(LEVEL_NIGHTS, max(1, (end - reference.first) // 2))
        first = max(end - nights, reference.through + 1)
    if first >= end:
        return None
    return compare(known, best(known, reference, first), (first, end))


def _looks(known: Levels, reference: Reference) -> Iterator[tuple[float, Step]]:
    """Yield each look's p value, corrected for the number of looks, and what it sees."""
    level, end = known.spans(reference.first)[-1]
    places = [(end - nights, 1 / share) for nights, share in WINDOWS if end - nights >= level]
    places.append((level, (end - 1) / LEVEL_SHARE))
    for first, price in places:
        if first > reference.through:
            step = compare(known, best(known, reference, first), (first, end))
            if step is not None:
                yield min(1.0, step.p_value * price), step


def _is_excluded(known: Levels, reference: Reference, now: Step, budget: float) -> bool:
    """Return whether neither the level nor the last three nights can be worse by more than the
    budget."""
    level, end = now.after
    lows = [now.low]
    if end - level > LEVEL_NIGHTS:
        first = end - LEVEL_NIGHTS
        recent = compare(known, best(known, reference, first), (first, end))
        lows += [recent.low] if recent else []
    return min(lows) > -budget


def _past(known: Levels, reference: Reference, budget: float) -> tuple[int, float] | None:
    """Return the first night and the p value of a regression that levels before the last one showed
    and that none of them showed to have ended."""
    shown: tuple[int, float] | None = None
    for start, end in known.spans(reference.first)[1:-1]:
        if end - start < LEVEL_NIGHTS or start <= reference.through:
            continue
        step = compare(known, best(known, reference, start), (start, end))
        if step is None:
            continue
        p_value = _of_level(known, step)
        if step.gain < -budget and p_value <= FALSE_ALARMS:
            shown = (_since(known, reference, start, shown, budget), p_value)
        elif step.low > -budget:
            shown = None
    return shown


def _of_level(known: Levels, step: Step) -> float:
    return min(1.0, step.p_value * (len(known.means) - 1) / LEVEL_SHARE)


def _since(
    known: Levels, reference: Reference, start: int, past: tuple[int, float] | None, budget: float
) -> int:
    """Return the night since which it is worse: that of the earlier regression, unless it became
    worse once more."""
    if past is None:
        return start
    spans = [span for span in known.spans(reference.first) if span[0] < start]
    first, end = spans[-1]
    again = compare(known, (first, min(end, start)), (start, len(known.means)))
    return start if again is not None and again.gain < -budget else past[0]


# --- A drift: the nights become slower little by little, so that no night stands out.
#
# From some night on a slope is fitted (a broken line: level, then slope). It is named where it is
# sure at the rate of false alarms, for all the nights at which it may have begun and all the stretches
# that were looked at, and where no step explains the nights clearly better. A step that is exp(3/2)
# = 4.5 times as likely explains them clearly better.


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
