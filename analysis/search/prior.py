"""What is held for likely of the time of a step before anything was measured.

The logarithm of a speed is that of the mean acceptance length less that of the step's time. The
first is counted over thousands of drafts. Of the second, against the baseline's step at the same
place, this much is taken for granted, and all of it gives way to what is measured:

* What checking costs depends on the tokens in flight, load x (K + 1), and is the same for every
  method: as good as nothing while the weights take longer to read, in proportion beyond. Where that
  begins is not known, and whether the bend is soft or sharp neither.
* What drafting costs grows with K, by some per cent a token, by a method's own measure; drafting at all
  costs next to nothing, or much of a step, as on small models.
* A method has a curve of its own on top, a few per cent; each arm and each place deviates by some
  tenths of a per cent more, so that no interpolation is ever taken for certain.
* Datasets share nine tenths of all that.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import product

import numpy as np
from numpy.typing import NDArray

from analysis.search.space import BASELINE, Arm, Floats, Launch, Lengths, Place, Seen, Space

# --- Mean acceptance lengths: what the arms that were measured tell of those that were not.


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


# --- Several datasets as one traffic: what is known of each, put together by its share.
#
# As for a decision (``analysis.choice.judged.mixed``): the time of a token in the mix is the mean of the
# datasets' times, each counting by its share of the output tokens.


NAME = "mix"


@dataclass(frozen=True)
class Mix:
    """``share``: dataset -> its share of the output tokens; they add up to 1. ``relative``: the times
    of the datasets count against the baseline's own, so that long answers do not count for more."""

    share: Mapping[str, float]
    relative: bool = False


def mixed(space: Space, seen: Seen, mix: Mix) -> tuple[Space, Seen]:
    """Return the space whose places are the loads that all datasets of the mix have, and what is known
    there. A launch that lacks a dataset says nothing of the mix at that load."""
    at = _places(space, mix)
    share = np.array(list(mix.share.values()))
    loads = tuple(Place(NAME, space.places[column[0]].load) for column in at.T)
    blend = Space(space.arms, loads, space.start_min, space.cell_min[at].sum(axis=0))
    level = _level(space, seen, mix)[at]
    launches = tuple(
        Launch(one.arm, -np.log(share @ np.exp(level - one.speed[at]))) for one in seen.launches
    )
    barred = None if seen.barred is None else np.asarray(seen.barred[:, at].any(axis=1))
    told = replace(seen, lengths=_lengths(seen.lengths, at, share), barred=barred)
    return blend, replace(told, launches=tuple(one for one in launches if one.measured.any()))


def unmixed(space: Space, mix: Mix, loads: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return the places (of the space with datasets) that a launch at some loads of the mix
    measures."""
    found = np.zeros(len(space.places), dtype=np.bool_)
    found[_places(space, mix)[:, loads].ravel()] = True
    return found


def _places(space: Space, mix: Mix) -> NDArray[np.int64]:
    """Return (datasets, loads): the numbers of the places."""
    at = {(place.traffic, place.load): number for number, place in enumerate(space.places)}
    loads = sorted({place.load for place in space.places})
    common = [load for load in loads if all((name, load) in at for name in mix.share)]
    return np.array([[at[name, load] for load in common] for name in mix.share], dtype=np.int64)


def _level(space: Space, seen: Seen, mix: Mix) -> Floats:
    """Return (places,): what speeds count against: the baseline's first ones, or nothing."""
    rows = [one.speed for one in seen.launches if one.arm == BASELINE]
    if not mix.relative or not rows:
        return np.zeros(len(space.places))
    first = np.isfinite(rows).argmax(axis=0)
    return np.asarray(np.take_along_axis(np.array(rows), first[None], axis=0)[0])


def _lengths(known: Lengths, at: NDArray[np.int64], share: Floats) -> Lengths:
    """Return the acceptance lengths of the mix: its steps are those of its datasets."""
    steps = share[:, None] / known.mean[:, at]
    every = steps.sum(axis=1)
    return Lengths(1 / every, (steps * known.doubt[:, at]).sum(axis=1) / every)


# --- What is held for likely of the time of a step before anything was measured.


#: Tokens in flight from which a step may begin to take longer; the share that each is expected to
#: have in that, and its standard deviation.
_BENDS = (8.0, 32.0, 128.0, 512.0)
_MEAN_BEND, _BEND = 0.15, 0.4
#: Expected time of drafting a token, in steps of the baseline.
_MEAN_TOKEN = 0.04
#: Standard deviations of logarithms: the baseline's own level at a place; drafting by token; a method's
#: own curve; deviations of an arm and of an arm at one place.
_LEVEL = 1.0
_TOKEN, _CURVE = 0.06, 0.04
_ARM, _OWN = 0.003, 0.003
#: How rough the curve of checking may be: smooth, or with a bend as sharp as a roofline's. Which of
#: the two is not known: both are held against the launches.
_ROUGH = (0.03, 0.2)
#: Standard deviation of what drafting at all costs: as good as nothing where a step takes long, much of a
#: step where the model is small. Which of the two is not known either.
_START = (0.03, 0.3)
#: What may be so: how rough the curve is, and what drafting at all costs.
KINDS = tuple(product(_ROUGH, _START))
#: Distances, in doublings, over which these curves change.
_ROUGH_REACH, _LOAD_REACH, _K_REACH = 3.0, 3.0, 4.0
_OF_TRAFFIC = 0.1


def prior_mean(space: Space) -> Floats:
    """Return (arms x places,): the expected -log(step time against the baseline's)."""
    k = np.repeat([float(arm.k) for arm in space.arms], len(space.places))
    load = np.tile([np.log2(place.load) for place in space.places], len(space.arms))
    checking = (_curves(load + np.log2(1 + k)) - _curves(load)).sum(axis=1)
    return np.asarray(-_MEAN_TOKEN * k - _MEAN_BEND * checking)


def prior_covariance(space: Space, doubt: Floats, kind: tuple[float, float]) -> Floats:
    """Return the covariance (arms x places, squared) of -log(step time).

    ``doubt`` (arms, places): how far the logarithm of an acceptance length may be off, the same way
    at all places of an arm, so that its speed is less certain by that. ``kind``: one of KINDS.
    """
    owner = np.repeat(np.arange(len(space.arms)), len(space.places))
    off = np.outer(doubt, doubt) * _alike(owner)
    return np.asarray(_of_steps(space.arms, space.places, *kind) + off)


@lru_cache(maxsize=16)
def _of_steps(
    arms: tuple[Arm, ...], places: tuple[Place, ...], rough: float, start: float
) -> Floats:
    space = Space(arms, places, 0.0, np.zeros(len(places)))
    k = np.repeat([float(arm.k) for arm in space.arms], len(space.places))
    load = np.tile([np.log2(place.load) for place in space.places], len(space.arms))
    drafts = np.repeat([at != BASELINE for at in range(len(space.arms))], len(space.places))
    alike = _alike(np.repeat([arm.family for arm in space.arms], len(space.places)))
    alike = alike * drafts[:, None] * drafts[None, :]
    near = _matern(load, load, _LOAD_REACH)
    tokens = np.log2(1 + k)
    own = start**2 + _TOKEN**2 * np.outer(k, k)
    own = (own + _CURVE**2 * _smooth(tokens, tokens, _K_REACH)) * near * alike
    shared = _checking(load, tokens, rough) + own
    traffic = _alike(np.tile([place.traffic for place in space.places], len(space.arms)))
    shared = shared * (1 - _OF_TRAFFIC + _OF_TRAFFIC * traffic)
    arm = np.repeat(np.arange(len(space.arms)), len(space.places))
    place = np.tile(np.arange(len(space.places)), len(space.arms))
    shared += _ARM**2 * _alike(arm) + _LEVEL**2 * _alike(place)
    return np.asarray(shared + _OWN**2 * np.eye(len(shared)))


def _curves(tokens: Floats) -> Floats:
    """Return (values, bends): the logarithm of a step that takes 1 + tokens / bend."""
    return np.asarray(np.log1p(2.0 ** tokens[:, None] / np.array(_BENDS)))


def _checking(load: Floats, tokens: Floats, rough: float) -> Floats:
    """Return the covariance of H(load + tokens) - H(load), H the curve of a step over tokens in
    flight."""
    many = load + tokens
    curves = _curves(many) - _curves(load)
    deviation = (
        _matern(many, many, _ROUGH_REACH) - _matern(many, load, _ROUGH_REACH)
        - _matern(load, many, _ROUGH_REACH) + _matern(load, load, _ROUGH_REACH)
    )  # fmt: skip
    return np.asarray(_BEND**2 * curves @ curves.T + rough**2 * deviation)


def _alike(names: NDArray[np.generic]) -> Floats:
    return np.asarray(names[:, None] == names[None, :], dtype=np.float64)


def _smooth(one: Floats, other: Floats, reach: float) -> Floats:
    """Return the Matern kernel of smoothness 5/2, which makes smoother curves than ``_matern``."""
    far = np.sqrt(5) * np.abs(one[:, None] - other[None, :]) / reach
    return np.asarray((1 + far + far**2 / 3) * np.exp(-far))


def _matern(one: Floats, other: Floats, reach: float) -> Floats:
    """Return the Matern kernel of smoothness 3/2 (Rasmussen and Williams 2006, section 4.2.1)."""
    far = np.sqrt(3) * np.abs(one[:, None] - other[None, :]) / reach
    return np.asarray((1 + far) * np.exp(-far))
