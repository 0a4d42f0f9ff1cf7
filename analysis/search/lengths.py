"""Mean acceptance lengths: what the arms that were measured tell of those that were not."""

from collections.abc import Collection

import numpy as np

from analysis.search.space import BASELINE, Floats, Lengths, Space

#: How far a length that is derived from a longer draft may be off (standard deviation of its
#: logarithm) before anything shows it: drafts near the end of an answer are cut short.
_DERIVED = 0.01
#: How far a length may be off that nothing tells, and what it is then taken for.
_UNTOLD, _GUESS = 0.35, 2.0


def lengths(space: Space, own: Floats, by_position: Floats, measured: Collection[int]) -> Lengths:
    """Return the acceptance lengths as far as the ``measured`` arms tell them.

    ``own`` (arms, places): as each arm counted it; ``by_position`` (arms, places, positions): share
    of drafts whose token there was accepted; NaN where not counted. Where drafts are made one after
    the other, a draft of K tokens holds those of all smaller K: its first positions are theirs. A
    place that nobody counted has what the same dataset has at the nearest load. How far that is off
    is seen at the arms that were measured themselves.
    """
    mean = np.full(own.shape, np.nan)
    doubt = np.zeros(own.shape)
    mean[BASELINE] = 1.0
    for family in space.families().values():
        counted = [arm for arm in family if arm in measured]
        derived = {arm: _derived(space, own, by_position, arm, counted) for arm in family}
        off = _off([np.log(own[arm] / derived[arm]) for arm in counted])
        for arm in family:
            mean[arm] = _near(space, own[arm]) if arm in counted else derived[arm]
            doubt[arm] = 0.0 if arm in counted else off
    untold = ~np.isfinite(mean)
    return Lengths(np.where(untold, _GUESS, mean), np.where(untold, _UNTOLD, doubt))


def _derived(
    space: Space, own: Floats, by_position: Floats, arm: int, counted: list[int]
) -> Floats:
    """Return the lengths (places,) of an arm by the positions of the measured arms that draft
    more."""
    k = space.arms[arm].k
    told = np.full(own.shape[1], np.nan)
    for longer in (x for x in reversed(counted) if space.arms[x].k > k):
        first = 1 + by_position[longer][:, :k].sum(axis=1)
        told = np.where(np.isfinite(told), told, first)
    return _near(space, told)


def _off(found: list[Floats]) -> float:
    """Return the standard deviation by which derived lengths are off, judged by those of measured
    arms; what is assumed counts as one of these."""
    squares = [float(np.nanmean(one**2)) for one in found if np.isfinite(one).any()]
    return float(np.sqrt((_DERIVED**2 + sum(squares)) / (1 + len(squares))))


def _near(space: Space, told: Floats) -> Floats:
    """Fill gaps (places,) with what the same dataset has at the nearest load."""
    load = np.log([place.load for place in space.places])
    traffic = np.array([place.traffic for place in space.places])
    filled = told.copy()
    for place in np.flatnonzero(~np.isfinite(told)):
        there = np.flatnonzero(np.isfinite(told) & (traffic == traffic[place]))
        if len(there):
            filled[place] = told[there[np.abs(load[there] - load[place]).argmin()]]
    return filled
