"""What is believed of every arm at every place after some launches.

A launch's value is: its arm's speed at the place + what the launch shares over its places + the
cell's own noise + a drift of the machine. How large these are is not known: each of a grid of
sizes is held against the launches, and all of them speak, each by its weight (a mixture over the
variances). A belief made of a prior by Bayes' rule does not change its meaning by being looked at
after every launch: what it calls 5 % is 5 % on the average over the prior, whenever one stops
(Robbins 1970, doi:10.1214/aoms/1177696786, on mixtures; tests/truth checks it).
"""

from dataclasses import dataclass
from functools import lru_cache
from itertools import product

import numpy as np
from numpy.typing import NDArray

from analysis.search.prior import KINDS, prior_covariance, prior_mean
from analysis.search.space import BASELINE, Floats, Seen, Space

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


def believe(space: Space, seen: Seen) -> Belief:
    """Weigh all launches together. The baseline must have been measured at every place once."""
    sizes = _sizes(tuple(place.load for place in space.places))
    offset = np.log(seen.lengths.mean).ravel() + prior_mean(space)
    at = np.flatnonzero(np.repeat(_measured(space, seen), len(space.places)))
    tally = _tally(space, seen, sizes, offset, at)
    priors = [prior_covariance(space, seen.lengths.doubt, kind) for kind in KINDS]
    known = [_posterior(_inner(prior, at), tally) for prior in priors]
    best = max(one.fit.max() for one in known)
    weight = np.concatenate([sizes.likely * np.exp(one.fit - best) for one in known])
    keep = _likely(weight / weight.sum())
    parts = [
        _part(prior, at, one, sizes, keep[where])
        for prior, one, where in zip(
            priors, known, np.split(np.arange(len(keep)), len(KINDS)), strict=True
        )
    ]
    shape = (-1, len(space.arms), len(space.places))
    mean, cov, noise, shared, drift = (np.concatenate(each) for each in zip(*parts, strict=True))
    return Belief(
        weight[keep] / weight[keep].sum(), (mean + offset).reshape(shape), cov, noise, shared, drift
    )


def _inner(prior: Floats, at: NDArray[np.int64]) -> Floats:
    """Return the prior covariance of the measured states and of the drift, which comes last."""
    inner = np.zeros((len(at) + 1, len(at) + 1))
    inner[:-1, :-1] = prior[np.ix_(at, at)]
    inner[-1, -1] = _DRIFT**2
    return inner


def _part(
    prior: Floats, at: NDArray[np.int64], known: "_Known", sizes: "_Sizes", keep: NDArray[np.bool_]
) -> tuple[Floats, ...]:
    """Return, for one kind of prior, what the sizes that are kept say: means and covariances of all
    states, noise, what a launch shares, and the drift."""
    mean, cov = _spread_out(prior, at, known.mean[keep], known.cov[keep])
    drift = np.stack([known.mean[keep, -1], known.cov[keep, -1, -1]], axis=1)
    return mean, cov, sizes.noise[keep], sizes.shared[keep], drift


@dataclass(frozen=True)
class _Sizes:
    noise: Floats
    shared: Floats
    likely: Floats


@lru_cache(maxsize=16)
def _sizes(loads: tuple[float, ...]) -> _Sizes:
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
    return _Sizes(np.array(noise), np.array(shared), np.array(likely))


def _measured(space: Space, seen: Seen) -> NDArray[np.bool_]:
    arms = {launch.arm for launch in seen.launches}
    return np.array([at in arms for at in range(len(space.arms))])


@dataclass(frozen=True)
class _Tally:
    """What the launches add to the precision (sizes, states, states), to precision x mean (sizes,
    states) and to the logarithm of the likelihood (sizes,); the last state is the drift."""

    precision: Floats
    pull: Floats
    fit: Floats


def _tally(
    space: Space, seen: Seen, sizes: _Sizes, centre: Floats, at: NDArray[np.int64]
) -> _Tally:
    states, count = len(at) + 1, len(sizes.shared)
    precision, pull = np.zeros((count, states, states)), np.zeros((count, states))
    fit = np.zeros(count)
    level = _level(seen)
    place_of = {int(state): place for place, state in enumerate(at)}
    for turn, launch in enumerate(seen.launches):
        there = np.flatnonzero(launch.measured)
        cells = launch.arm * len(space.places) + there
        mine = np.array([place_of[int(cell)] for cell in cells] + [states - 1])
        weight, det = _weights(sizes, there)
        value = launch.speed[there] - level[there] - centre[cells]
        when = float(turn - (len(seen.launches) - 1) / 2)
        rows = np.hstack([np.eye(len(there)), np.full((len(there), 1), when)])
        told = np.einsum("ij,hik->hjk", rows, weight)
        precision[:, mine[:, None], mine[None, :]] += told @ rows
        pull[:, mine] += told @ value
        fit -= 0.5 * (det + np.einsum("i,hij,j->h", value, weight, value))
    return _Tally(precision, pull, fit)


def _level(seen: Seen) -> Floats:
    """Return the baseline's first value at each place: all speeds are relative to these."""
    rows = np.array([one.speed for one in seen.launches if one.arm == BASELINE])
    first = np.isfinite(rows).argmax(axis=0)
    return np.asarray(np.take_along_axis(rows, first[None], axis=0)[0])


def _weights(sizes: _Sizes, there: NDArray[np.int64]) -> tuple[Floats, Floats]:
    """Return the inverse covariance of a launch's values at some places, and the logarithm of its
    determinant (Sherman and Morrison 1950)."""
    inverse = 1 / sizes.noise[:, there]
    spread = 1 + sizes.shared * inverse.sum(axis=1)
    outer = inverse[:, :, None] * inverse[:, None, :] * (sizes.shared / spread)[:, None, None]
    weight = -outer
    places = np.arange(len(there))
    weight[:, places, places] += inverse
    return weight, np.log(spread) - np.log(inverse).sum(axis=1)


@dataclass(frozen=True)
class _Known:
    mean: Floats
    cov: Floats
    fit: Floats


def _posterior(prior: Floats, tally: _Tally) -> _Known:
    precision = np.linalg.inv(prior)[None] + tally.precision
    cov: Floats = np.asarray(np.linalg.inv(precision), dtype=np.float64)
    mean = (cov @ tally.pull[..., None])[..., 0]
    det = np.linalg.slogdet(precision)[1] + np.linalg.slogdet(prior)[1]
    fit = tally.fit + 0.5 * ((tally.pull * mean).sum(axis=1) - det)
    return _Known(mean, cov, fit)


def _likely(weight: Floats) -> NDArray[np.bool_]:
    """Return which sizes of the noise are likely enough to be kept."""
    order = np.argsort(weight)
    kept = np.ones(len(weight), dtype=np.bool_)
    kept[order[np.cumsum(weight[order]) < _PASSED_OVER]] = False
    return kept


def _spread_out(
    prior: Floats, at: NDArray[np.int64], mean: Floats, cov: Floats
) -> tuple[Floats, Floats]:
    """Carry means and covariances over from the states that were measured to all states."""
    lift = np.linalg.solve(prior[np.ix_(at, at)], prior[at]).T
    rest = prior - lift @ prior[at]
    return mean[:, :-1] @ lift.T, rest + lift @ cov[:, :-1, :-1] @ lift.T
