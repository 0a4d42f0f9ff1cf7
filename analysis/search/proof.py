"""What a search promises of a winner, and what fresh launches prove.

A winner was chosen because it looked best, so what was promised leans on its luck. Launches that
were made after the choice do not.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from analysis.search.belief import Belief
from analysis.search.space import BASELINE, Aim, Floats, SeenLaunches

# --- Which arm leads at each place, and how likely another is better by more than the stake.


#: So many draws tell how likely it is that any arm is better anywhere; a power of two.
_DRAWS = 4096


@dataclass(frozen=True)
class PlaceLeaders:
    """Which arm leads at each place. ``lead`` (places,): the arm that is expected to be the best of
    those that may be taken, the baseline where none may;
    ``risk`` (arms, places): the chance that this arm beats the lead by more than the stake;
    ``behind`` (arms, places): expected distance to the lead (log ratio, never above 0);
    ``of_place`` (places,): the chance that any arm beats it so, at most; ``open``: that any arm
    does anywhere, at most where it is above the error."""

    lead: NDArray[np.int64]
    risk: Floats
    behind: Floats
    of_place: Floats
    open: float

    def open_places(self, error: float) -> NDArray[np.bool_]:
        """Return the places that keep the search from ending; the worst one always."""
        at = self.of_place
        return np.asarray((at > error / (2 * len(at))) | (at == at.max()))

    def dropped(self, error: float) -> NDArray[np.bool_]:
        """Return the arms that lead nowhere and hardly can: no launch is spent on them."""
        hardly = self.risk.max(axis=1) < error / (10 * len(self.risk))
        hardly[np.unique(self.lead)] = False
        return np.asarray(hardly)


def standing(belief: Belief, seen: SeenLaunches, aim: Aim) -> PlaceLeaders:
    """Weigh every arm against the one that leads at each place."""
    shut = seen.shut
    expected = np.where(shut, -np.inf, belief.expected)
    lead = expected.argmax(axis=0)
    places = np.arange(expected.shape[1])
    apart = belief.mean - belief.mean[:, lead, places][:, None, :]
    stake = float(np.log1p(aim.stake))
    sd = np.sqrt(np.maximum(variance_to_lead(belief.cov, lead), 1e-18))
    risk = np.tensordot(belief.weight, ndtr((apart - stake) / sd), 1)
    risk[lead, places] = 0.0
    risk[shut] = 0.0
    of_place = np.minimum(risk.sum(axis=0), 1.0)
    anywhere = float(risk.sum())
    if risk.max() <= aim.error < anywhere:
        anywhere = _together(belief, lead, risk, stake)
    behind = np.where(shut, -np.inf, expected - belief.expected[lead, places])
    return PlaceLeaders(lead, risk, behind, of_place, anywhere)


def variance_to_lead(cov: Floats, lead: NDArray[np.int64]) -> Floats:
    """Return (…, arms, places): the variance of each arm's distance to the lead, of one covariance
    or several (…, arms x places, squared)."""
    at = np.arange(cov.shape[-1]).reshape(-1, len(lead))
    best = at[lead, np.arange(len(lead))]
    own, both = cov[..., at, at], cov[..., at, np.broadcast_to(best, at.shape)]
    return np.asarray(own + cov[..., best, best][..., None, :] - 2 * both)


def _together(belief: Belief, lead: NDArray[np.int64], risk: Floats, stake: float) -> float:
    """Return the chance that any arm beats the lead by more than the stake at any place.

    Rivals err together, so their chances do not add up. They are drawn, always with the same
    numbers, so that a search can be repeated; those of no account are added up.
    """
    arm, place = np.nonzero(risk > _ACCOUNT)
    width = risk.shape[1]
    rival, best = arm * width + place, lead[place] * width + place
    draws = _same_normal_draws(len(arm))
    share = np.maximum(np.round(belief.weight * _DRAWS).astype(int), 1)
    found, start = 0.0, 0
    for size, many in enumerate(share):
        cov, mean = belief.cov[size], belief.mean[size].ravel()
        inner = cov[np.ix_(rival, rival)] - cov[np.ix_(rival, best)]
        inner = inner - cov[np.ix_(best, rival)] + cov[np.ix_(best, best)]
        root = np.linalg.cholesky(inner + 1e-12 * np.eye(len(arm)))
        drawn = draws[np.arange(start, start + many) % _DRAWS] @ root.T
        hit = (drawn > stake - mean[rival] + mean[best]).any(axis=1)
        found += float(belief.weight[size] * hit.mean())
        start += many
    return found + float(risk[risk <= _ACCOUNT].sum())


_ACCOUNT = 1e-4


@lru_cache
def _same_normal_draws(width: int) -> Floats:
    return np.random.default_rng(width).standard_normal((_DRAWS, width))


# --- What a search promises of a winner, and what fresh launches prove.


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
class FreshProof:
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
    winner: Floats,
    other: Floats,
    stake: float,
    against: NDArray[np.int64] | None = None,
) -> FreshProof:
    """Return what fresh launches prove of the arms ``lead`` against others (places,), the baseline
    where nothing is said. ``winner`` and ``other``: the log speeds (launches, places) of both;
    ``stake``: ratio.

    The scatter is the one that the whole search has seen; of each size that is still likely, the
    fresh launches say how well it fits.
    """
    rival = np.full(len(lead), BASELINE) if against is None else against
    mean, spread = _ahead(belief, lead, rival)
    gain = winner.mean(axis=0) - other.mean(axis=0)
    share = 1 / len(winner) + 1 / len(other)
    each = share * (belief.noise + belief.shared[:, None])
    weight = belief.weight * _fit(belief, winner) * _fit(belief, other)
    weight = weight / weight.sum()
    lacking = mean - gain + np.log1p(-stake)
    return FreshProof(
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
    variance = variance_to_lead(belief.cov, lead)[:, rival, places]
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
        beyond = outside > 1 - LEVEL
        low, high = np.where(beyond, reach, low), np.where(beyond, high, reach)
    return Gain(middle, middle - high, middle + high)
