"""Which arm leads at each place, and how likely another is better by more than the stake."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from analysis.search.belief import Belief
from analysis.search.space import Aim, Floats, Seen

#: So many draws tell how likely it is that any arm is better anywhere; a power of two.
_DRAWS = 4096


@dataclass(frozen=True)
class Standing:
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


def standing(belief: Belief, seen: Seen, aim: Aim) -> Standing:
    """Weigh every arm against the one that leads at each place."""
    shut = seen.shut
    expected = np.where(shut, -np.inf, belief.expected)
    lead = expected.argmax(axis=0)
    places = np.arange(expected.shape[1])
    apart = belief.mean - belief.mean[:, lead, places][:, None, :]
    stake = float(np.log1p(aim.stake))
    sd = np.sqrt(np.maximum(distances(belief, lead), 1e-18))
    risk = np.tensordot(belief.weight, ndtr((apart - stake) / sd), 1)
    risk[lead, places] = 0.0
    risk[shut] = 0.0
    of_place = np.minimum(risk.sum(axis=0), 1.0)
    anywhere = float(risk.sum())
    if risk.max() <= aim.error < anywhere:
        anywhere = _together(belief, lead, risk, stake)
    behind = np.where(shut, -np.inf, expected - belief.expected[lead, places])
    return Standing(lead, risk, behind, of_place, anywhere)


def distances(belief: Belief, lead: NDArray[np.int64]) -> Floats:
    """Return (sizes, arms, places): the variance of each arm's distance to the lead."""
    arms, places = belief.mean.shape[1:]
    at = np.arange(arms * places).reshape(arms, places)
    best = at[lead, np.arange(places)]
    own = belief.cov[:, at, at]
    both = belief.cov[:, at, np.broadcast_to(best, at.shape)]
    return np.asarray(own + belief.cov[:, best, best][:, None, :] - 2 * both)


def _together(belief: Belief, lead: NDArray[np.int64], risk: Floats, stake: float) -> float:
    """Return the chance that any arm beats the lead by more than the stake at any place.

    Rivals err together, so their chances do not add up. They are drawn, always with the same
    numbers, so that a search can be repeated; those of no account are added up.
    """
    arm, place = np.nonzero(risk > _ACCOUNT)
    width = risk.shape[1]
    rival, best = arm * width + place, lead[place] * width + place
    draws = _draws(len(arm))
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
_KEPT: dict[int, Floats] = {}


def _draws(width: int) -> Floats:
    """Return normal random numbers (draws, width), the same every time."""
    if width not in _KEPT:
        _KEPT[width] = np.random.default_rng(width).standard_normal((_DRAWS, width))
    return _KEPT[width]
