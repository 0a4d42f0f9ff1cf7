"""The levels of a series over nights: where they begin, and how far nights lie apart by chance.

Levels are those that leave the least squares of the nights around them, where each further level
has to explain PRICE x log(nights) times the variance of a night (exact optimal partitioning: Jackson
et al. 2005, doi:10.1109/LSP.2001.838216). The night is the unit of noise: its variance is that of the
nights around their levels. Where nights are not shown to differ by more than their repeats (F test),
the repeats lend their degrees of freedom; they never make the variance smaller.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import log2, sqrt
from statistics import fmean

import numpy as np
from scipy.special import fdtrc, stdtr, stdtrit

from analysis.nightly.nights import SeriesNight, as_improvement
from analysis.percentiles import Floats

#: Nights ``(first, end)``, the end left out.
Span = tuple[int, int]

#: How many times log(nights) of a night's variance a further level must explain.
PRICE = 5.0
#: Fewer nights than this are one level: there is no telling a move from noise.
FEWEST_NIGHTS = 4
#: A variance below this is rounding (a spread of 0.0001 %).
LEAST_VARIANCE = 1e-12
#: Degrees of freedom that the place of a level costs which the nights themselves chose (Ninomiya 2005,
#: Statistics and Probability Letters 72:237), unless chance makes such a move anywhere among the nights
#: in fewer than 1 of 10,000 series: then there is but one place for it.
_OF_A_PLACE = 3
_SURE = 1e-4
#: The chance of the F test from which on nights and repeats tell the same noise.
ALIKE = 0.05
#: Standard deviations of a normal distribution in its median distance from zero.
_MEDIAN_DISTANCE = 0.6745


@dataclass(frozen=True, slots=True)
class Noise:
    """The variance of one night's mean (of logs), and the degrees of freedom that tell it."""

    variance: float
    dof: float


@dataclass(frozen=True, slots=True)
class Levels:
    """The nights of a series cut into levels. ``means``: of each night (turned logs); ``starts``:
    the first night of each level; ``repeats``: the noise of a night that its repeats alone would
    make, None where none repeats; ``chosen``: the starts whose place the nights themselves chose."""

    means: Floats
    starts: tuple[int, ...]
    repeats: Noise | None
    chosen: tuple[int, ...] = ()

    def noise(self, cut: int | None = None) -> Noise | None:
        """Return the noise of a night around the levels, with one more level from ``cut`` on.

        None where the nights are too few to tell it.
        """
        starts = self.starts if cut is None else (*self.starts, cut)
        nights = self._nights(tuple(sorted(set(starts))), cut)
        if nights is None or self.repeats is None or not _alike(nights, self.repeats):
            return nights
        return Noise(max(nights.variance, self.repeats.variance), nights.dof + self.repeats.dof)

    def beyond_repeats(self) -> float | None:
        """Return the share of a night's variance that its repeats do not explain, which more
        repeats would not take away.

        None where no night is repeated; 0 where nights are not shown to differ by more (F test).
        """
        nights = self._nights(self.starts)
        if nights is None or self.repeats is None:
            return None
        return 0.0 if _alike(nights, self.repeats) else 1 - self.repeats.variance / nights.variance

    def _nights(self, starts: tuple[int, ...], cut: int | None = None) -> Noise | None:
        chosen = sum(place != cut for place in self.chosen)
        dof = len(self.means) - len(starts) - _OF_A_PLACE * chosen
        if dof < 1:
            return None
        return Noise(max(LEAST_VARIANCE, _squares_around(self.means, starts) / dof), dof)

    def spans(self, first: int) -> tuple[Span, ...]:
        """Return the nights of each level from the night ``first`` on."""
        starts = [first, *(start for start in self.starts if start > first)]
        return tuple(zip(starts, [*starts[1:], len(self.means)], strict=True))


def cut_into_levels(nights: Sequence[SeriesNight]) -> Levels:
    """Cut a series, oldest night first, into its levels."""
    means = np.array([night.mean for night in nights], dtype=np.float64)
    dof, repeats = [night.repeats - 1 for night in nights], None
    if sum(dof):
        within = sum(d * night.variance for d, night in zip(dof, nights, strict=True) if d)
        each = fmean(1 / night.repeats for night in nights)
        repeats = Noise(max(LEAST_VARIANCE, within / sum(dof) * each), sum(dof))
    if len(means) < FEWEST_NIGHTS:
        return Levels(means, (0,), repeats)
    # The steps between neighbouring nights tell the noise; their median ignores a move.
    step = float(np.median(np.abs(np.diff(means)))) / _MEDIAN_DISTANCE
    variance = max(LEAST_VARIANCE, step**2 / 2, repeats.variance if repeats else 0.0)
    starts = _partition(means, variance)
    found = _squares_around(means, starts) / max(1, len(means) - len(starts))
    # Too small a guess of the noise gives too many levels: tell them anew with a larger one.
    starts = _partition(means, found) if found > variance else starts
    levels = Levels(means, starts, repeats, starts[1:])
    chosen, noise = [], levels.noise()
    for before, after in pairwise(levels.spans(0)):
        move = means[slice(*after)].mean() - means[slice(*before)].mean()
        error = sum(1 / (end - first) for first, end in (before, after)) ** 0.5
        if noise is not None:
            chance = stdtr(noise.dof, -abs(move) / error / noise.variance**0.5)
        if noise is None or 2 * len(means) * chance > _SURE:
            chosen.append(after[0])
    return replace(levels, chosen=tuple(chosen))


def _squares_around(means: Floats, starts: Sequence[int]) -> float:
    ends = [*starts[1:], len(means)]
    parts = [means[start:end] for start, end in zip(starts, ends, strict=True)]
    return float(sum(((part - part.mean()) ** 2).sum() for part in parts))


def _alike(nights: Noise, repeats: Noise) -> bool:
    return float(fdtrc(nights.dof, repeats.dof, nights.variance / repeats.variance)) >= ALIKE


def _partition(means: Floats, variance: float) -> tuple[int, ...]:
    """Return the first nights of the levels that cost least: their squares, and a price for
    each."""
    count = len(means)
    # Around their middle: differences of large sums lose digits.
    centred = means - means.mean()
    sums, square_sums = (
        np.concatenate([[0.0], np.cumsum(values)]) for values in (centred, centred**2)
    )
    ends = np.arange(1, count + 1)[:, None]
    length = np.maximum(1, ends - np.arange(count)[None, :])
    # (nights, nights): squared distances from their mean, of the nights from the column's to the row's.
    costs = (
        square_sums[1:, None] - square_sums[None, :-1]
        - (sums[1:, None] - sums[None, :-1]) ** 2 / length
    )  # fmt: skip
    price = PRICE * np.log(count) * variance
    least, previous = np.zeros(count + 1), np.zeros(count + 1, dtype=np.int64)
    for end in range(1, count + 1):
        choices = least[:end] + costs[end - 1, :end]
        previous[end] = choices.argmin()
        least[end] = choices[previous[end]] + price
    starts, end = [], count
    while end > 0:
        end = int(previous[end])
        starts.append(end)
    return tuple(reversed(starts))


# --- Where a series stands: its last nights against the best level since a reference.
#
# A level of the past counts from three nights on. The last nights are looked at in four ways: the last
# one, two and three nights, and the last level. The error rate is shared among them, three quarters of
# what is left for each; the place of a level was chosen among all nights, and pays for that as well.
# A regression that was shown stays one until its end is shown, or until it is accepted.


#: The share of false alarms among nights on which nothing changed.
FALSE_ALARMS = 0.01
#: Nights that make a level to hold others against.
LEVEL_NIGHTS = 3
#: How many last nights are looked at, and the share of the error rate that this look gets.
WINDOWS = ((1, 0.75), (2, 0.1875), (3, 0.046875))
LEVEL_SHARE = 0.015625


@dataclass(frozen=True, slots=True)
class ReferenceNights:
    """The nights from which a series is judged. ``first``: the night from which levels count;
    ``through``: the last one that is accepted."""

    first: int = 0
    through: int = 0


@dataclass(frozen=True, slots=True)
class LevelStep:
    """The nights of ``after`` against those of ``before``: the gain in logs (more is better), its
    95 % interval, and the one-sided p value of a loss."""

    before: Span
    after: Span
    gain: float
    low: float
    high: float
    p_value: float

    def improvements(self, metric: str) -> tuple[float, float, float]:
        """Return the gain and the ends of its interval as ratios, positive is better."""
        gain, low, high = (as_improvement(x, metric) for x in (self.gain, self.low, self.high))
        return gain, low, high


@dataclass(frozen=True, slots=True)
class SeriesStanding:
    """What the last nights of a series show. ``step``: the last nights against the best level;
    ``worse``: a loss beyond the budget is shown; ``excluded``: such a loss is ruled out; ``since``:
    the night (a place) from which it is worse; ``p_value``: of the surest look, for all looks
    together."""

    step: LevelStep
    worse: bool
    excluded: bool
    since: int | None
    p_value: float


def step_between(levels: Levels, before: Span, after: Span) -> LevelStep | None:
    """Compare two stretches of nights by a t test whose noise is that of all nights; None without a
    noise."""
    noise = levels.noise(after[0])
    if noise is None:
        return None
    gain = float(levels.means[slice(*after)].mean() - levels.means[slice(*before)].mean())
    error = sqrt(noise.variance * sum(1 / (end - start) for start, end in (before, after)))
    half = float(stdtrit(noise.dof, 0.975)) * error
    return LevelStep(
        before, after, gain, gain - half, gain + half, float(stdtr(noise.dof, gain / error))
    )


def stand(levels: Levels, reference: ReferenceNights, budget: float) -> SeriesStanding | None:
    """Return where the series stands; ``budget``: the loss in logs that is still fine, above zero.

    None where no night comes after the reference, or nothing tells the noise.
    """
    level, end = levels.spans(reference.first)[-1]
    first = level
    if level <= reference.through:
        nights = min(LEVEL_NIGHTS, max(1, (end - reference.first) // 2))
        first = max(end - nights, reference.through + 1)
    # The last level, where it began after the reference, else the last three nights or fewer.
    now = _against_best(levels, reference, first, end) if first < end else None
    if now is None:
        return None
    # Each look's p value, corrected for the number of looks, and what it sees.
    places = [(end - nights, 1 / share) for nights, share in WINDOWS if end - nights >= level]
    seen_from = [*places, (level, (end - 1) / LEVEL_SHARE)]
    steps = [(_against_best(levels, reference, at, end), price) for at, price in seen_from
             if at > reference.through]  # fmt: skip
    looks = sorted(
        ((min(1.0, step.p_value * price), step) for step, price in steps if step is not None),
        key=lambda look: look[0],
    )
    losses = [look for look in looks if look[1].gain < -budget and look[0] <= FALSE_ALARMS]
    past = _past(levels, reference, budget)
    if losses:
        # Of several losses that of the last whole level tells best since when it is worse.
        seen = next((step for _, step in losses if step.after == (level, end)), losses[0][1])
        since = _since(levels, reference, _began(levels, reference, seen), past, budget)
        return SeriesStanding(seen, True, False, since, losses[0][0])
    lows = [now.low]
    if end - first > LEVEL_NIGHTS:
        recent = _against_best(levels, reference, end - LEVEL_NIGHTS, end)
        lows += [recent.low] if recent else []
    # Neither the level nor the last three nights can be worse by more than the budget.
    excluded = min(lows) > -budget
    if past is not None and not excluded:
        return SeriesStanding(now, True, False, past[0], past[1])
    return SeriesStanding(now, False, excluded, None, looks[0][0])


def _against_best(
    levels: Levels, reference: ReferenceNights, first: int, end: int
) -> LevelStep | None:
    """Compare nights with the best level since the reference before them, with all nights before them
    where none is long enough to be one."""
    spans = [(at, min(stop, first)) for at, stop in levels.spans(reference.first) if at < first]
    long = [span for span in spans if span[1] - span[0] >= LEVEL_NIGHTS]
    before = max(
        long, key=lambda span: levels.means[slice(*span)].mean(), default=(spans[0][0], first)
    )
    return step_between(levels, before, (first, end))


def _began(levels: Levels, reference: ReferenceNights, seen: LevelStep) -> int:
    """Return the night of the last level from which on the loss that was seen holds: the cut that
    leaves the least squares around what was before and what is now."""
    level, end = levels.spans(reference.first)[-1]
    before = levels.means[slice(*seen.before)] if seen.before[1] <= level else levels.means[:0]

    def left(cut: int) -> float:
        old = np.concatenate([before, levels.means[level:cut]])
        return _squares_around(np.concatenate([old, levels.means[cut:end]]), (0, len(old)))

    earliest = max(level if before.size else level + 1, reference.through + 1)
    return min(range(earliest, seen.after[0] + 1), key=left)


def _past(levels: Levels, reference: ReferenceNights, budget: float) -> tuple[int, float] | None:
    """Return the first night and the p value of a regression that levels before the last one showed
    and that none of them showed to have ended."""
    shown: tuple[int, float] | None = None
    for start, end in levels.spans(reference.first)[1:-1]:
        if end - start < LEVEL_NIGHTS or start <= reference.through:
            continue
        step = _against_best(levels, reference, start, end)
        if step is None:
            continue
        p_value = min(1.0, step.p_value * (len(levels.means) - 1) / LEVEL_SHARE)
        if step.gain < -budget and p_value <= FALSE_ALARMS:
            shown = (_since(levels, reference, start, shown, budget), p_value)
        elif step.low > -budget:
            shown = None
    return shown


def _since(
    levels: Levels,
    reference: ReferenceNights,
    start: int,
    past: tuple[int, float] | None,
    budget: float,
) -> int:
    """Return the night since which it is worse: that of the earlier regression, unless it became
    worse once more."""
    if past is None:
        return start
    first, end = [span for span in levels.spans(reference.first) if span[0] < start][-1]
    again = step_between(levels, (first, min(end, start)), (start, len(levels.means)))
    return start if again is not None and again.gain < -budget else past[0]


# --- A drift: the nights become slower little by little, so that no night stands out.
#
# From some night on a slope is fitted (a broken line: level, then slope). It is named where it is
# sure at the rate of false alarms, for all the nights at which it may have begun and all the stretches
# that were looked at, and where no step explains the nights clearly better. A step that is exp(3/2)
# = 4.5 times as likely explains them clearly better.


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


def slope(levels: Levels, reference: ReferenceNights) -> Slope | None:
    """Return the surest drift up to the last night since the reference; None where none is
    named."""
    starts = [start for start, _ in levels.spans(reference.first)]
    count = len(levels.means)
    stretches = [start for start in starts if count - start >= DRIFT_NIGHTS]
    found = [_of_stretch(levels, start, len(stretches)) for start in stretches]
    named = [one for one in found if one is not None and one.p_value <= FALSE_ALARMS]
    return min(named, key=lambda one: one.p_value, default=None)


def _of_stretch(levels: Levels, start: int, stretches: int) -> Slope | None:
    """Return the best slope from a night of the stretch on; None where steps explain the nights
    clearly better."""
    values = levels.means[start:] - levels.means[start:].mean()
    count, total = len(values), float((values**2).sum())
    begins = np.arange(0, count - DRIFT_NIGHTS + 1)
    lines = np.maximum(0.0, np.arange(count)[None, :] - begins[:, None])
    lines -= lines.mean(axis=1, keepdims=True)
    norms = (lines**2).sum(axis=1)
    rates = lines @ values / norms
    explained = rates**2 * norms
    place = int(explained.argmax())
    rest = max(total - float(explained[place]), 1e-300)
    variance = rest / (count - 3)
    before = np.arange(1, count)
    sums = np.cumsum(values)[:-1]
    by_one_step = float((sums**2 * (1 / before + 1 / (count - before))).max())
    if rest > total - by_one_step + _CLEARLY * variance:
        return None
    # Nor may three levels or more explain them better, at the price of those beyond the first two.
    levels_from, noise = [0, *(one - start for one in levels.starts if one > start)], levels.noise()
    if len(levels_from) > 2 and noise is not None:
        price = PRICE * float(np.log(len(levels.means))) * noise.variance
        by_levels = _squares_around(levels.means[start:], levels_from)
        if rest > by_levels + price * (len(levels_from) - 2):
            return None
    t = sqrt(float(explained[place]) / variance)
    # Slopes that begin within the same doubling of length are nearly the same one.
    looks = stretches * (1 + 2 * log2(count / DRIFT_NIGHTS))
    p_value = min(1.0, 2 * float(stdtr(count - 3, -t)) * looks)
    return Slope(start + int(begins[place]), float(rates[place]), p_value)
