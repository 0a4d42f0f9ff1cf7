"""What a search promises of a winner, and what fresh launches prove.

A winner was chosen because it looked best, so what was promised leans on its luck. Launches that
were made after the choice do not.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from analysis.search.belief import Belief
from analysis.search.space import BASELINE, Floats
from analysis.search.standing import distances

#: Level of the intervals of proven gains.
LEVEL = 0.95
_HALVINGS = 40


@dataclass(frozen=True)
class Gain:
    """Log ratios (places,): the expected one, and its interval from ``low`` to ``high``."""

    mean: Floats
    low: Floats
    high: Floats

    def ratios(self, at: int) -> tuple[float, float, float]:
        """Return the gain at a place, its low and its high as ratios (0.1: a tenth more)."""
        mean, low, high = (float(np.expm1(one[at])) for one in (self.mean, self.low, self.high))
        return mean, low, high


@dataclass(frozen=True)
class Proof:
    """A winner against the baseline or the runner-up: the gain ``promised`` by the search and the one
    ``proven`` by fresh launches. ``surprise`` (places,): the chance that the truth is less than the stake below what was promised; a
    small one says that the promise was not kept there."""

    promised: Gain
    proven: Gain
    surprise: Floats

    def kept(self, tests: int) -> bool:
        """Return whether the winner keeps its promise: at no place do the fresh launches exclude what
        was promised less the stake. ``tests``: so many such comparisons are made in all; a promise
        that is true is refused at any of them with a chance of 1 - LEVEL at most (Bonferroni)."""
        return bool((self.surprise >= (1 - LEVEL) / tests).all())


def proof(
    belief: Belief,
    lead: NDArray[np.int64],
    fresh: tuple[Floats, Floats],
    stake: float,
    against: NDArray[np.int64] | None = None,
) -> Proof:
    """Return what fresh launches prove of the arms ``lead`` against others (places,), the baseline
    where nothing is said. ``fresh``: the log speeds (launches, places) of the one and of the other;
    ``stake``: ratio.

    The scatter is the one that the whole search has seen; of each size that is still likely, the
    fresh launches say how well it fits.
    """
    rival = np.full(len(lead), BASELINE) if against is None else against
    mean, spread = _ahead(belief, lead, rival)
    winner, other = fresh
    gain = winner.mean(axis=0) - other.mean(axis=0)
    share = 1 / len(winner) + 1 / len(other)
    each = share * (belief.noise + belief.shared[:, None])
    weight = belief.weight * _fit(belief, winner) * _fit(belief, other)
    weight = weight / weight.sum()
    lacking = mean - gain + np.log1p(-stake)
    return Proof(
        _interval(belief.weight, mean, spread),
        _interval(weight, np.broadcast_to(gain, each.shape), np.sqrt(each)),
        np.asarray(weight @ ndtr(-lacking / np.sqrt(spread**2 + each))),
    )


def promised(belief: Belief, lead: NDArray[np.int64], rival: NDArray[np.int64]) -> Gain:
    """Return what a search expects of some arms against others (places,), with the doubt that it has:
    a gain leans on every launch of the baseline, of which there may be one."""
    return _interval(belief.weight, *_ahead(belief, lead, rival))


def _ahead(
    belief: Belief, lead: NDArray[np.int64], rival: NDArray[np.int64]
) -> tuple[Floats, Floats]:
    """Return (sizes, places): means and standard deviations of the log ratios that the search
    expects."""
    places = np.arange(len(lead))
    mean = belief.mean[:, lead, places] - belief.mean[:, rival, places]
    variance = distances(belief, lead)[:, rival, places]
    return mean, np.sqrt(np.maximum(variance, 1e-12))


def _fit(belief: Belief, launches: Floats) -> Floats:
    """Return (sizes,): how well each size of the noise explains the scatter of an arm's
    launches."""
    off = launches - launches.mean(axis=0)
    inverse = 1 / belief.noise
    outer = 1 + belief.shared * inverse.sum(axis=1)
    square = np.einsum("lp,sp->s", off**2, inverse)
    drawn = ((off @ inverse.T) ** 2).sum(axis=0)
    det = np.log(outer) - np.log(inverse).sum(axis=1)
    told = -0.5 * (square - belief.shared / outer * drawn + (len(launches) - 1) * det)
    return np.asarray(np.exp(told - told.max()))


def _interval(weight: Floats, mean: Floats, spread: Floats) -> Gain:
    """Return the mean of a mixture of normal distributions (sizes, places), and the interval around it
    that leaves 1 - LEVEL outside."""
    middle = weight @ mean
    off = mean - middle
    low = np.zeros(len(middle))
    high = np.abs(off).max(axis=0) + spread.max(axis=0) * -ndtri((1 - LEVEL) / 2)
    for _ in range(_HALVINGS):
        reach = (low + high) / 2
        outside = weight @ (ndtr((off - reach) / spread) + ndtr((-off - reach) / spread))
        low, high = (
            np.where(outside > 1 - LEVEL, reach, low),
            np.where(outside > 1 - LEVEL, high, reach),
        )
    return Gain(middle, middle - high, middle + high)
