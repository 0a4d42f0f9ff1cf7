"""What one more launch would tell, for the minutes that it takes."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from analysis.search.belief import Belief
from analysis.search.space import Aim, Floats, Seen, Space
from analysis.search.standing import Standing

Places = NDArray[np.bool_]
#: Rivals less likely than this to matter are not counted when a launch is weighed.
_FAINT = 1e-6


@dataclass(frozen=True)
class Option:
    """A launch that could be next: ``worth`` is the open chance that it is expected to remove for
    each minute."""

    arm: int
    places: Places
    minutes: float
    worth: float


@dataclass(frozen=True)
class Guess:
    """The belief as one normal distribution: means and covariance over the sizes of the noise, and
    the covariance of a launch's values."""

    cov: Floats
    launch: Floats


def guess(belief: Belief) -> Guess:
    """Return the mixture's mean covariance and noise."""
    noise = belief.weight @ belief.noise
    shared = float(belief.weight @ belief.shared)
    cov = np.tensordot(belief.weight, belief.cov, 1)
    return Guess(cov, np.diag(noise) + shared)


def options(space: Space, seen: Seen, now: Standing, aim: Aim) -> Iterator[tuple[int, Places]]:
    """Yield every launch that is worth a thought: an arm that may still win, at all open places or
    at one load of them."""
    open_now = now.open_places(aim.error)
    loads = np.array([place.load for place in space.places])
    groups = [open_now, *(open_now & (loads == x) for x in np.unique(loads[open_now]))]
    dropped, shut = now.dropped(aim.error), seen.shut
    for arm in range(len(space.arms)):
        if arm not in seen.out | seen.closed and not dropped[arm]:
            mine = (group & ~shut[arm] for group in groups[: 1 if len(groups) == 2 else None])
            yield from ((arm, group) for group in mine if group.any())


def weighed(
    space: Space, known: Guess, now: Standing, aim: Aim, each: Iterator[tuple[int, Places]]
) -> list[Option]:
    """Return the launches with what each is worth, the best first."""
    contrast, behind, risk = _contrasts(known.cov, now)
    before = np.maximum((contrast[1] ** 2), 1e-12)
    found = []
    for arm, places in each:
        cells = arm * len(space.places) + np.flatnonzero(places)
        told = contrast[0][:, cells]
        inner = known.cov[np.ix_(cells, cells)] + known.launch[np.ix_(places, places)]
        gone = np.minimum((told @ np.linalg.inv(inner) * told).sum(axis=1), before)
        worth = float((risk * _removed(behind, before, gone, aim)).sum())
        minutes = space.minutes(places)
        found.append(Option(arm, places, minutes, worth / minutes))
    return sorted(found, key=lambda one: -one.worth)


def _contrasts(cov: Floats, now: Standing) -> tuple[tuple[Floats, Floats], Floats, Floats]:
    """Return of every rival that matters: its covariances with all states less those of its lead,
    and the standard deviation of their distance; how far it is behind; its risk."""
    places = now.risk.shape[1]
    arm, place = np.nonzero(now.risk > _FAINT)
    rival, lead = arm * places + place, now.lead[place] * places + place
    rows = cov[rival] - cov[lead]
    spread = rows[np.arange(len(arm)), rival] - rows[np.arange(len(arm)), lead]
    return (rows, np.sqrt(np.maximum(spread, 0))), now.behind[arm, place], now.risk[arm, place]


def _removed(behind: Floats, before: Floats, gone: Floats, aim: Aim) -> Floats:
    """Return the share of a rival's risk that goes when ``gone`` of the variance ``before`` goes
    and its mean stays: a normal tail falls as exp(-distance^2 / (2 variance))."""
    far = behind - np.log1p(aim.stake)
    after = np.maximum(before - gone, 1e-12)
    return np.asarray(-np.expm1(-0.5 * far**2 * (1 / after - 1 / before)))
