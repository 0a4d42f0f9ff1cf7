"""What is believed of every arm at every place after some launches.

A launch's value is: its arm's speed at the place + what the launch shares over its places + the
cell's own noise + a drift of the machine. How large these are is not known: each of a grid of
sizes is held against the launches, and all of them speak, each by its weight (a mixture over the
variances). A belief made of a prior by Bayes' rule does not change its meaning by being looked at
after every launch: what it calls 5 % is 5 % on the average over the prior, whenever one stops
(Robbins 1970, doi:10.1214/aoms/1177696786, on mixtures; tests/truth checks it).
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import product

import numpy as np
from numpy.typing import NDArray

from analysis.search.space import (
    BASELINE,
    AcceptanceLengths,
    Floats,
    MeasuredLaunch,
    SearchArm,
    SearchPlace,
    SeenLaunches,
    Space,
)

# --- Mean acceptance lengths: what the arms that were measured tell of those that were not.


#: How far a length that is derived from a longer draft may be off (standard deviation of its
#: logarithm) before anything shows it: drafts near the end of an answer are cut short.
_DERIVED = 0.01
#: How far a length may be off that nothing tells, and what it is then taken for.
_UNTOLD, _GUESS = 0.35, 2.0


def acceptance_lengths(
    space: Space, own: Floats, by_position: Floats, measured: Collection[int]
) -> AcceptanceLengths:
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
        derived = {}
        for arm in family:
            # By the positions of the measured arms that draft more.
            k, tokens = space.arms[arm].k, np.full(own.shape[1], np.nan)
            for longer in (x for x in reversed(counted) if space.arms[x].k > k):
                first = 1 + by_position[longer][:, :k].sum(axis=1)
                tokens = np.where(np.isfinite(tokens), tokens, first)
            derived[arm] = _near(space, tokens)
        # Judged by the arms that were measured; what is assumed counts as one of these.
        apart = [np.log(own[arm] / derived[arm]) for arm in counted]
        squares = [float(np.nanmean(x**2)) for x in apart if np.isfinite(x).any()]
        off = float(np.sqrt((_DERIVED**2 + sum(squares)) / (1 + len(squares))))
        for arm in family:
            mean[arm] = _near(space, own[arm]) if arm in counted else derived[arm]
            doubt[arm] = 0.0 if arm in counted else off
    untold = ~np.isfinite(mean)
    return AcceptanceLengths(np.where(untold, _GUESS, mean), np.where(untold, _UNTOLD, doubt))


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


def mixed(space: Space, seen: SeenLaunches, mix: Mix) -> tuple[Space, SeenLaunches]:
    """Return the space whose places are the loads that all datasets of the mix have, and what is known
    there. A launch that lacks a dataset says nothing of the mix at that load."""
    at = _places(space, mix)
    share = np.array(list(mix.share.values()))
    loads = tuple(SearchPlace(NAME, space.places[column[0]].load) for column in at.T)
    blend = Space(space.arms, loads, space.start_min, space.cell_min[at].sum(axis=0))
    relative = mix.relative and any(one.arm == BASELINE for one in seen.launches)
    level = _first_speeds(seen)[at] if relative else np.zeros(at.shape)
    launches = tuple(
        MeasuredLaunch(one.arm, -np.log(share @ np.exp(level - one.speed[at])))
        for one in seen.launches
    )
    barred = None if seen.barred is None else np.asarray(seen.barred[:, at].any(axis=1))
    # The steps of the mix are those of its datasets.
    steps = share[:, None] / seen.lengths.mean[:, at]
    every = steps.sum(axis=1)
    doubt = (steps * seen.lengths.doubt[:, at]).sum(axis=1) / every
    measured = tuple(one for one in launches if one.measured.any())
    mixed_lengths = AcceptanceLengths(1 / every, doubt)
    return blend, replace(seen, launches=measured, lengths=mixed_lengths, barred=barred)


def unmixed(space: Space, mix: Mix, loads: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return the places (of the space with datasets) that a launch at some loads of the mix
    measures."""
    found = np.zeros(len(space.places), dtype=np.bool_)
    found[_places(space, mix)[:, loads].ravel()] = True
    return found


def _places(space: Space, mix: Mix) -> NDArray[np.int64]:
    at = space.at
    loads = sorted({place.load for place in space.places})
    common = [load for load in loads if all((name, load) in at for name in mix.share)]
    return np.array([[at[name, load] for load in common] for name in mix.share], dtype=np.int64)


# --- What is held for likely of the time of a step before anything was measured.
#
# The logarithm of a speed is that of the mean acceptance length less that of the step's time. The
# first is counted over thousands of drafts. Of the second, against the baseline's step at the same
# place, this much is taken for granted, and all of it gives way to what is measured:
#
# * What checking costs depends on the tokens in flight, load x (K + 1), and is the same for every
#   method: as good as nothing while the weights take longer to read, in proportion beyond. Where that
#   begins is not known, and whether the bend is soft or sharp neither.
# * What drafting costs grows with K, by some per cent a token, by a method's own measure; drafting at all
#   costs next to nothing, or much of a step, as on small models.
# * A method has a curve of its own on top, a few per cent; each arm and each place deviates by some
#   tenths of a per cent more, so that no interpolation is ever taken for certain.
# * Datasets share nine tenths of all that.


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


@lru_cache(maxsize=16)
def _of_steps(
    arms: tuple[SearchArm, ...], places: tuple[SearchPlace, ...], rough: float, start: float
) -> Floats:
    """Return the covariance (arms x places, squared) of -log(step time), of one of KINDS."""
    k = np.repeat([float(arm.k) for arm in arms], len(places))
    load = np.tile([np.log2(place.load) for place in places], len(arms))
    drafts = np.repeat([at != BASELINE for at in range(len(arms))], len(places))
    alike = _alike(np.repeat([arm.family for arm in arms], len(places)))
    alike = alike * drafts[:, None] * drafts[None, :]
    near = _matern(load, load, _LOAD_REACH)
    tokens = np.log2(1 + k)
    own = start**2 + _TOKEN**2 * np.outer(k, k)
    # A method's own curve is smoother than the others: the Matern kernel of smoothness 5/2.
    far = np.sqrt(5) * np.abs(tokens[:, None] - tokens[None, :]) / _K_REACH
    smooth = (1 + far + far**2 / 3) * np.exp(-far)
    own = (own + _CURVE**2 * smooth) * near * alike
    # Of checking that of H(load + tokens) - H(load), H the curve of a step over tokens in flight.
    many = load + tokens
    curves = _curves(many) - _curves(load)
    deviation = (
        _matern(many, many, _ROUGH_REACH) - _matern(many, load, _ROUGH_REACH)
        - _matern(load, many, _ROUGH_REACH) + _matern(load, load, _ROUGH_REACH)
    )  # fmt: skip
    shared = _BEND**2 * curves @ curves.T + rough**2 * deviation + own
    traffic = _alike(np.tile([place.traffic for place in places], len(arms)))
    shared = shared * (1 - _OF_TRAFFIC + _OF_TRAFFIC * traffic)
    arm = np.repeat(np.arange(len(arms)), len(places))
    place = np.tile(np.arange(len(places)), len(arms))
    shared += _ARM**2 * _alike(arm) + _LEVEL**2 * _alike(place)
    return np.asarray(shared + _OWN**2 * np.eye(len(shared)))


def _curves(tokens: Floats) -> Floats:
    """Return (values, bends): the logarithm of a step that takes 1 + tokens / bend."""
    return np.asarray(np.log1p(2.0 ** tokens[:, None] / np.array(_BENDS)))


def _alike(names: NDArray[np.generic]) -> Floats:
    return np.asarray(names[:, None] == names[None, :], dtype=np.float64)


def _matern(one: Floats, other: Floats, reach: float) -> Floats:
    """Return the Matern kernel of smoothness 3/2 (Rasmussen and Williams 2006, section 4.2.1)."""
    far = np.sqrt(3) * np.abs(one[:, None] - other[None, :]) / reach
    return np.asarray((1 + far) * np.exp(-far))


# --- What is believed after some launches.


#: Standard deviations that are thought possible: of a cell, of what a launch shares, and how many
#: times noisier the lowest load is than the highest.
_NOISE = (0.005, 0.01, 0.02, 0.03, 0.045, 0.07, 0.1, 0.14)
_LAUNCH = (0.0, 0.015, 0.03, 0.05, 0.08, 0.13)
_UNEVEN = (1.0, 4.0)

#: Standard deviation of a drift of the logarithm from one launch to the next; a drift is named that is
#: so many standard deviations of what is known away from none.
_DRIFT, _SURE = 0.001, 2.58
#: Sizes that have less than this of the weight altogether are left out.
_PASSED_OVER = 0.002


@dataclass(frozen=True)
class Belief:
    """A mixture of normal distributions, one for each size of the noise that is still likely:
    ``weight`` (sizes,), ``mean`` (sizes, arms, places) of the log speed against the first launch of
    the baseline, ``cov`` (sizes, arms x places, squared); ``noise`` (sizes, places): variance of a
    cell; ``shared`` (sizes,): of what a launch shares. ``drift`` (sizes, 2): mean and variance of
    the change from launch to launch."""

    weight: Floats
    mean: Floats
    cov: Floats
    noise: Floats
    shared: Floats
    drift: Floats

    @property
    def expected(self) -> Floats:
        """The expected log speeds (arms, places)."""
        return np.asarray(np.tensordot(self.weight, self.mean, 1))

    @property
    def drifting(self) -> float:
        """How much faster (log ratio) each launch is than the one before, whatever its arm; 0 where
        that is not sure: chance makes a drift as large in fewer than one search of a hundred."""
        mean = float(self.weight @ self.drift[:, 0])
        square = float(self.weight @ (self.drift[:, 1] + self.drift[:, 0] ** 2))
        return mean if abs(mean) > _SURE * np.sqrt(square - mean**2) else 0.0


def believe(space: Space, seen: SeenLaunches) -> Belief:
    """Weigh all launches together. The baseline must have been measured at every place once."""
    noise, shared, likely = _sizes(tuple(place.load for place in space.places))
    k = np.repeat([float(arm.k) for arm in space.arms], len(space.places))
    load = np.tile([np.log2(place.load) for place in space.places], len(space.arms))
    checking = (_curves(load + np.log2(1 + k)) - _curves(load)).sum(axis=1)
    # The expected -log(step time against the baseline's).
    prior_mean = -_MEAN_TOKEN * k - _MEAN_BEND * checking
    offset = np.log(seen.lengths.mean).ravel() + prior_mean
    arms = {launch.arm for launch in seen.launches}
    measured = np.array([at in arms for at in range(len(space.arms))])
    at = np.flatnonzero(np.repeat(measured, len(space.places)))
    tally = _tally(space, seen, noise, shared, offset, at)
    # How far the logarithm of an acceptance length may be off is the same at all places of an arm.
    owner = np.repeat(np.arange(len(space.arms)), len(space.places))
    off = np.outer(seen.lengths.doubt, seen.lengths.doubt) * _alike(owner)
    priors = [_of_steps(space.arms, space.places, *kind) + off for kind in KINDS]
    known = [_posterior(prior, at, *tally) for prior in priors]
    best = max(fit.max() for *_, fit in known)
    weight = np.concatenate([likely * np.exp(fit - best) for *_, fit in known])
    order, keep = np.argsort(weight), np.ones(len(weight), dtype=np.bool_)
    keep[order[np.cumsum((weight / weight.sum())[order]) < _PASSED_OVER]] = False
    parts = []
    for prior, (mean, cov, _), kept in zip(priors, known, np.split(keep, len(KINDS)), strict=True):
        drift = np.stack([mean[kept, -1], cov[kept, -1, -1]], axis=1)
        # From the states that were measured means and covariances are carried over to all states.
        lift = np.linalg.solve(prior[np.ix_(at, at)], prior[at]).T
        spread = prior - lift @ prior[at] + lift @ cov[kept, :-1, :-1] @ lift.T
        parts.append((mean[kept, :-1] @ lift.T, spread, noise[kept], shared[kept], drift))
    shape = (-1, len(space.arms), len(space.places))
    means, *others = (np.concatenate(each) for each in zip(*parts, strict=True))
    return Belief(weight[keep] / weight[keep].sum(), (means + offset).reshape(shape), *others)


@lru_cache(maxsize=16)
def _sizes(loads: tuple[float, ...]) -> tuple[Floats, Floats, Floats]:
    """Return every combination of sizes: variances (sizes, places) and (sizes,), and how likely
    each is."""
    height = np.log(np.array(loads))
    span = height.max() - height.min()
    place = (height - height.mean()) / span if span else np.zeros(len(loads))
    noise, shared, likely = [], [], []
    for cell, launch, uneven in product(_NOISE, _LAUNCH, _UNEVEN if span else (1.0,)):
        noise.append((cell * uneven**-place) ** 2)
        shared.append(launch**2)
        # The grid is even in the logarithm: so every size is as likely as any other.
        likely.append(cell)
    return np.array(noise), np.array(shared), np.array(likely)


def _tally(
    space: Space,
    seen: SeenLaunches,
    noise: Floats,
    shared: Floats,
    centre: Floats,
    at: NDArray[np.int64],
) -> tuple[Floats, Floats, Floats]:
    """Return what the launches add to the precision (sizes, states, states), to precision x mean (sizes,
    states) and to the logarithm of the likelihood (sizes,); the last state is the drift."""
    states, count = len(at) + 1, len(shared)
    precision, pull = np.zeros((count, states, states)), np.zeros((count, states))
    fit = np.zeros(count)
    level = _first_speeds(seen)
    place_of = {int(state): place for place, state in enumerate(at)}
    for turn, launch in enumerate(seen.launches):
        there = np.flatnonzero(launch.measured)
        cells = launch.arm * len(space.places) + there
        mine = np.array([place_of[int(cell)] for cell in cells] + [states - 1])
        # The inverse covariance of the launch's values, and the logarithm of its determinant (Sherman
        # and Morrison 1950).
        inverse = 1 / noise[:, there]
        spread = 1 + shared * inverse.sum(axis=1)
        weight = -(inverse[:, :, None] * inverse[:, None, :] * (shared / spread)[:, None, None])
        weight[:, np.arange(len(there)), np.arange(len(there))] += inverse
        det = np.log(spread) - np.log(inverse).sum(axis=1)
        value = launch.speed[there] - level[there] - centre[cells]
        when = float(turn - (len(seen.launches) - 1) / 2)
        rows = np.hstack([np.eye(len(there)), np.full((len(there), 1), when)])
        told = np.einsum("ij,hik->hjk", rows, weight)
        precision[:, mine[:, None], mine[None, :]] += told @ rows
        pull[:, mine] += told @ value
        fit -= 0.5 * (det + np.einsum("i,hij,j->h", value, weight, value))
    return precision, pull, fit


def _first_speeds(seen: SeenLaunches) -> Floats:
    rows = np.array([one.speed for one in seen.launches if one.arm == BASELINE])
    first = np.isfinite(rows).argmax(axis=0)
    return np.asarray(np.take_along_axis(rows, first[None], axis=0)[0])


def _posterior(
    prior: Floats, at: NDArray[np.int64], precision: Floats, pull: Floats, fit: Floats
) -> tuple[Floats, Floats, Floats]:
    """Return means and covariances of the measured states and of the drift, which comes last, and how
    well each size fits, all (sizes, …)."""
    inner = np.zeros((len(at) + 1, len(at) + 1))
    inner[:-1, :-1] = prior[np.ix_(at, at)]
    inner[-1, -1] = _DRIFT**2
    whole = np.linalg.inv(inner)[None] + precision
    cov: Floats = np.asarray(np.linalg.inv(whole), dtype=np.float64)
    mean = (cov @ pull[..., None])[..., 0]
    det = np.linalg.slogdet(whole)[1] + np.linalg.slogdet(inner)[1]
    return mean, cov, fit + 0.5 * ((pull * mean).sum(axis=1) - det)
