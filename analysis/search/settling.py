"""What would settle what is open: the launches still needed if every speed is as expected."""

from dataclasses import dataclass, replace

import numpy as np
from scipy.special import ndtr

from analysis.search.belief import Belief
from analysis.search.space import Aim, Floats, Seen, Space
from analysis.search.standing import Standing
from analysis.search.worth import Guess, Option, guess, options, weighed

#: More launches than this are not counted: look into the noise instead.
MOST = 60


@dataclass(frozen=True)
class Settling:
    """What it still takes to settle a search: ``launches`` and ``minutes``; None for more than
    MOST."""

    launches: int | None
    minutes: float | None


def settling(space: Space, seen: Seen, belief: Belief, now: Standing, aim: Aim) -> Settling:
    """Return what is still needed if every mean stays where it is expected.

    Each launch takes away variance as the belief says; the noise is taken at its mean size. It is at
    least one launch: give what is still open.
    """
    known, minutes = guess(belief), 0.0
    for count in range(MOST + 1):
        then = standing_at(known.cov, now, aim)
        if count and then.risk.sum() <= aim.error:
            return Settling(count, minutes)
        every = weighed(space, known, then, aim, options(space, seen, then, aim))
        if not every or not every[0].worth > 0:
            break
        known, minutes = after(known, every[0]), minutes + every[0].minutes
    return Settling(None, None)


def after(known: Guess, one: Option) -> Guess:
    """Return what would be known after a launch: its variance goes, the means stay."""
    places = one.places
    cells = one.arm * len(places) + np.flatnonzero(places)
    seen = known.cov[:, cells]
    inner = known.cov[np.ix_(cells, cells)] + known.launch[np.ix_(places, places)]
    return Guess(known.cov - seen @ np.linalg.solve(inner, seen.T), known.launch)


def standing_at(cov: Floats, now: Standing, aim: Aim) -> Standing:
    """Return the standing if what is known has this covariance and the means of now; ``open`` is as it
    was."""
    risk = _risk_at(cov, now, aim)
    return replace(now, risk=risk, of_place=risk.sum(axis=0))


def _risk_at(cov: Floats, now: Standing, aim: Aim) -> Floats:
    """Return (arms, places): the chance that an arm beats the lead by more than the stake, if what is
    known has this covariance and the means of now."""
    arms, places = now.risk.shape
    at = np.arange(arms * places).reshape(arms, places)
    best = at[now.lead, np.arange(places)]
    variance = cov[at, at] + cov[best, best][None] - 2 * cov[at, best[None]]
    far = now.behind - np.log1p(aim.stake)
    risk = np.where(np.isfinite(far), ndtr(far / np.sqrt(np.maximum(variance, 1e-12))), 0.0)
    risk[now.lead, np.arange(places)] = 0.0
    return np.asarray(risk)
