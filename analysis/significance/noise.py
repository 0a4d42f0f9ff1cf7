"""How much a repeat varies, level by level, where each level has too few repeats to tell alone.

Two answers are weighed against each other. *Alike*: all levels share one variance, so every repeat
of every level tells it. *Own*: each level has its own, spread around a common one as a scaled
inverse chi-square (the prior of limma's moderated t: Smyth 2004, doi:10.2202/1544-6115.1027). Each
counts by how well it explains the variances that were observed (its marginal likelihood). Noise
that is equal at all levels is then pooled, and noise that is not is left to each level, although
nobody knows beforehand which it is: variances are drawn toward the common one as far as they agree.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, gammaln, logsumexp, stdtr, stdtrit

Floats = NDArray[np.float64]

#: Degrees of freedom of the prior of *own*: noise of 2 % and of 20 % in one series is ordinary.
PRIOR_DOF = 1.0
#: Odds of *own* before any data. Both were chosen by simulation (tests/analysis/
#: test_confidence_simulation.py): 95 % where noise differs, and little lost where it does not.
PRIOR_ODDS = 0.5
#: Variances of log ratios below this are rounding (a spread of 0.0001 %).
LEAST_VARIANCE = 1e-12
#: Where the common scale is looked for: log variances around the pooled one.
_STEP = 1.0
_SCALES = np.arange(-15.0, 15.0 + _STEP, _STEP)
_HALVINGS = 20


@dataclass(frozen=True)
class Spread:
    """A mean's error as a mixture of two t distributions around it: arrays of one shape, with a
    last axis of two (alike, own). ``variance`` is that of the mean, in squared log ratios."""

    variance: Floats
    dof: Floats
    weight: Floats


def spreads(variance: Floats, repeats: Floats) -> tuple[Spread, Spread]:
    """The spread of each level's mean (groups, levels), and of the mean over levels (groups).

    ``variance``: of the log ratios of each level over its repeats, ``repeats``: their number, both
    (groups, levels). A level with one repeat takes its variance from the others; in each group one
    level at least must have two.
    """
    dof = repeats - 1
    total = dof.sum(axis=-1, keepdims=True)
    known = np.where(dof > 0, np.maximum(variance, LEAST_VARIANCE), 0.0)
    pooled = (dof * known).sum(axis=-1, keepdims=True) / total
    own = np.where(dof > 0, known, pooled)
    own_weight = _weight_of_own(dof * known, dof)
    weight = np.stack([1 - own_weight, own_weight], axis=-1)
    levels = Spread(
        np.stack([pooled + 0 * own, own], axis=-1) / repeats[..., None],
        np.stack([total + 0 * own, np.maximum(dof, 1)], axis=-1),
        np.repeat(weight[..., None, :], own.shape[-1], axis=-2),
    )
    return levels, _over_levels(levels, weight)


def _over_levels(levels: Spread, weight: Floats) -> Spread:
    """The variances of the levels' means add up; *own* has the degrees of freedom of
    Satterthwaite (1946, doi:10.2307/3002019), *alike* those of all repeats together."""
    terms = levels.variance / levels.variance.shape[-2] ** 2
    variance = terms.sum(axis=-2)
    together = variance**2 / (terms**2 / levels.dof).sum(axis=-2)
    dof = np.stack([levels.dof[..., 0, 0], together[..., 1]], axis=-1)
    return Spread(variance, dof, weight)


def _weight_of_own(squares: Floats, dof: Floats) -> Floats:
    """Posterior probability of *own* from the levels' sums of squares, one for each group."""
    log_odds = (
        np.log(PRIOR_ODDS) + _evidence_of_own(squares, dof) - _evidence_of_alike(squares, dof)
    )
    # One level alone cannot differ from the others.
    several = (dof > 0).sum(axis=-1) > 1
    return np.where(several, np.asarray(expit(log_odds), dtype=np.float64), 0.0)


def _evidence_of_alike(squares: Floats, dof: Floats) -> Floats:
    """log of the likelihood of the sums of squares, their scale integrated out with a flat prior
    on its logarithm; factors that both answers share are left out."""
    half = dof.sum(axis=-1) / 2
    return np.asarray(gammaln(half) - half * np.log(squares.sum(axis=-1) / 2))


def _evidence_of_own(squares: Floats, dof: Floats) -> Floats:
    """The same where each level's variance is a draw of its own around the common scale."""
    pooled = squares.sum(axis=-1) / dof.sum(axis=-1)
    prior = PRIOR_DOF / 2 * np.exp(np.log(pooled)[..., None, None] + _SCALES)
    shape = (PRIOR_DOF + dof[..., None]) / 2
    each = (
        PRIOR_DOF / 2 * np.log(prior) + gammaln(shape) - gammaln(PRIOR_DOF / 2)
        - shape * np.log(prior + squares[..., None] / 2)
    )  # fmt: skip
    there = np.where(dof > 0, 1.0, 0.0)[..., None]
    return np.asarray(logsumexp((there * each).sum(axis=-2), axis=-1) + np.log(_STEP))


def half_width(spread: Spread, tail: float) -> Floats:
    """How far from its mean the mixture leaves ``tail`` (0-1) outside, both sides together.

    In log ratios, of the shape of ``spread`` without its last axis.
    """
    each = -np.asarray(stdtrit(spread.dof, tail / 2)) * np.sqrt(spread.variance)
    low, high = each.min(axis=-1), each.max(axis=-1)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        outside = tail_beyond(spread, middle) > tail
        low, high = np.where(outside, middle, low), np.where(outside, high, middle)
    return np.asarray((low + high) / 2, dtype=np.float64)


def tail_beyond(spread: Spread, distance: Floats) -> Floats:
    """The probability (0-1) of an error larger than ``distance``, both sides together."""
    scaled = -np.abs(distance)[..., None] / np.sqrt(spread.variance)
    return np.asarray((spread.weight * 2 * stdtr(spread.dof, scaled)).sum(axis=-1))
