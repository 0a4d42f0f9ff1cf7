"""The levels of a series over nights: where they begin, and how far nights lie apart by chance.

Levels are those that leave the least squares of the nights around them, where each further level
has to explain PRICE x log(nights) times the variance of a night (exact optimal partitioning: Jackson
et al. 2005, doi:10.1109/LSP.2001.838216). The night is the unit of noise: its variance is that of the
nights around their levels. Where nights are not shown to differ by more than their repeats (F test),
the repeats lend their degrees of freedom; they never make the variance smaller.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

import numpy as np
from numpy.typing import NDArray
from scipy.special import fdtrc, stdtr

from analysis.nightly.nights import Night

Floats = NDArray[np.float64]
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
        if nights is None or self.repeats is None:
            return nights
        return _together(nights, self.repeats)

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
        return Noise(max(LEAST_VARIANCE, squares(self.means, starts) / dof), dof)

    def spans(self, first: int) -> tuple[Span, ...]:
        """Return the nights of each level from the night ``first`` on."""
        starts = [first, *(start for start in self.starts if start > first)]
        return tuple(zip(starts, [*starts[1:], len(self.means)], strict=True))


def levels(nights: Sequence[Night]) -> Levels:
    """Cut a series, oldest night first, into its levels."""
    means = np.array([night.mean for night in nights], dtype=np.float64)
    repeats = _repeats(nights)
    if len(means) < FEWEST_NIGHTS:
        return Levels(means, (0,), repeats)
    variance = max(_of_steps(means), repeats.variance if repeats else 0.0)
    starts = _partition(means, variance)
    found = squares(means, starts) / max(1, len(means) - len(starts))
    # Too small a guess of the noise gives too many levels: tell them anew with a larger one.
    starts = _partition(means, found) if found > variance else starts
    known = Levels(means, starts, repeats, starts[1:])
    return replace(known, chosen=tuple(_unsure(known)))


def _unsure(known: Levels) -> Iterator[int]:
    """Yield the starts of levels that chance may have made."""
    noise, spans = known.noise(), known.spans(0)
    for before, after in zip(spans, spans[1:], strict=False):
        move = known.means[slice(*after)].mean() - known.means[slice(*before)].mean()
        error = sum(1 / (end - first) for first, end in (before, after)) ** 0.5
        chance = 2 * len(known.means)
        if noise is None or chance * stdtr(
            noise.dof, -abs(move) / error / noise.variance**0.5) > _SURE:  # fmt: skip
            yield after[0]


def squares(means: Floats, starts: Sequence[int]) -> float:
    """Return the sum of the squared distances of the nights from their levels."""
    ends = [*starts[1:], len(means)]
    parts = [means[start:end] for start, end in zip(starts, ends, strict=True)]
    return float(sum(((part - part.mean()) ** 2).sum() for part in parts))


def _of_steps(means: Floats) -> float:
    """Estimate a night's variance from the steps between neighbouring nights; their median ignores
    a move."""
    median = float(np.median(np.abs(np.diff(means))))
    return max(LEAST_VARIANCE, (median / _MEDIAN_DISTANCE) ** 2 / 2)


def _repeats(nights: Sequence[Night]) -> Noise | None:
    dof = [night.repeats - 1 for night in nights]
    if not sum(dof):
        return None
    within = sum(d * night.variance for d, night in zip(dof, nights, strict=True) if d)
    each = fmean(1 / night.repeats for night in nights)
    return Noise(max(LEAST_VARIANCE, within / sum(dof) * each), sum(dof))


def _together(nights: Noise, repeats: Noise) -> Noise:
    if not _alike(nights, repeats):
        return nights
    return Noise(max(nights.variance, repeats.variance), nights.dof + repeats.dof)


def _alike(nights: Noise, repeats: Noise) -> bool:
    """Return whether chance explains that nights differ by more than their repeats."""
    ratio = nights.variance / repeats.variance
    return float(fdtrc(nights.dof, repeats.dof, ratio)) >= ALIKE


def _partition(means: Floats, variance: float) -> tuple[int, ...]:
    """Return the first nights of the levels that cost least: their squares, and a price for
    each."""
    count = len(means)
    price = PRICE * np.log(count) * variance
    costs = _costs(means)
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


def _costs(means: Floats) -> Floats:
    """Return (nights, nights): the squared distances from their mean of the nights from the
    column's to the row's, both included."""
    # Around their middle: differences of large sums lose digits.
    centred = means - means.mean()
    sums, square_sums = (
        np.concatenate([[0.0], np.cumsum(values)]) for values in (centred, centred**2)
    )
    ends = np.arange(1, len(means) + 1)[:, None]
    length = np.maximum(1, ends - np.arange(len(means))[None, :])
    return np.asarray(
        square_sums[1:, None] - square_sums[None, :-1]
        - (sums[1:, None] - sums[None, :-1]) ** 2 / length
    )  # fmt: skip
