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

from functools import lru_cache
from itertools import product

import numpy as np
from numpy.typing import NDArray

from analysis.search.space import BASELINE, Arm, Floats, Place, Space

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
