"""How much a value scatters from one server start (launch) to the next.

The logarithm of a metric in one launch is: the arm's level at this load + what the round shares
(drift) + what the launch shares over all its loads + the load's own noise. Residuals after arm and
round means leave the last two. Their mean over the loads of a launch has the variance of the launch
part plus 1 / loads of the noise; the rest, load by load, is noise, moderated over the loads
(``moderation``). The variance at one load is the sum of both, each with its own degrees of freedom
(``tails``).
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from analysis.evidence.moderation import prior_dof

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Spread:
    """The variances of one launch's value, for each of several series: ``level`` (series, loads) is
    the variance at a load, of which ``share`` (0-1) has ``dof`` (series,) degrees of freedom and
    the rest ``rest_dof``; ``mean`` (series,) is the variance of its mean over the loads, with
    ``dof``. NaN and 0 where nothing repeats."""

    level: Floats
    share: Floats
    rest_dof: Floats
    mean: Floats
    dof: Floats


@dataclass(frozen=True)
class Residuals:
    """Sums of squares of each series: ``total`` (series, loads) as they are, ``within`` (series,
    loads) after the launch's own mean over the loads, ``launch`` (series,) of these means; ``dof``
    (series,): degrees of freedom of one load, (arms - 1) x (rounds - 1) where all is there."""

    total: Floats
    within: Floats
    launch: Floats
    dof: Floats


def balanced_residuals(values: Floats) -> Residuals:
    """Return the residuals of ``values`` (series, arms, loads, rounds): logarithms, nothing
    missing."""
    arms, rounds = values.shape[1], values.shape[3]
    left = (
        values
        - values.mean(axis=1, keepdims=True)
        - values.mean(axis=3, keepdims=True)
        + values.mean(axis=(1, 3), keepdims=True)
    )
    shared = left.mean(axis=2, keepdims=True)
    dof = np.full(len(values), float((arms - 1) * (rounds - 1)))
    return Residuals(
        (left**2).sum(axis=(1, 3)), ((left - shared) ** 2).sum(axis=(1, 3)),
        (shared**2).sum(axis=(1, 2, 3)), dof,
    )  # fmt: skip


def loose_residuals(values: Floats, arm: NDArray[np.int64], rounds: NDArray[np.int64]) -> Residuals:
    """Return the residuals of one series with gaps: ``values`` (launches, loads), NaN where a
    launch lacks a load; ``arm`` and ``rounds`` number the arm and the round of each launch.

    Arm and round means are fitted load by load; the degrees of freedom are those of the load with
    the fewest, so that a gap never makes an interval narrower.
    """
    left = np.full(values.shape, np.nan)
    dof = []
    for load in range(values.shape[1]):
        there = np.isfinite(values[:, load])
        left[there, load], spare = _two_way(values[there, load], arm[there], rounds[there])
        dof.append(spare)
    fewest = float(min(dof, default=0))
    scale = np.sqrt(fewest / np.maximum(dof, 1)) if fewest else np.zeros(len(dof))
    left = left * scale
    count = np.isfinite(left).sum(axis=1, keepdims=True)
    shared = np.nansum(left, axis=1, keepdims=True) / np.maximum(count, 1)
    return Residuals(
        np.nansum(left**2, axis=0)[None], np.nansum((left - shared) ** 2, axis=0)[None],
        np.array([np.nansum(shared**2)]), np.array([fewest]),
    )  # fmt: skip


def _two_way(
    values: Floats, arm: NDArray[np.int64], rounds: NDArray[np.int64]
) -> tuple[Floats, int]:
    """Return what arm and round means leave of the values, and its degrees of freedom."""
    if not len(values):
        return values, 0
    design = np.hstack([arm[:, None] == np.unique(arm), rounds[:, None] == np.unique(rounds)])
    fitted, _, rank, _ = np.linalg.lstsq(design.astype(np.float64), values, rcond=None)
    return values - design @ fitted, len(values) - int(rank)


def spread(found: Residuals) -> Spread:
    """Return the variance of one launch's value at each load and of its mean over the loads.

    All series given together lend each other what is known of how unequal loads are: give those of
    one study and metric. A series with one degree of freedom cannot tell the launch's part from the
    noise: each of its loads then stands alone, by Student's t.
    """
    loads = found.total.shape[1]
    dof = np.where(found.dof > 0, found.dof, np.nan)
    mean = found.launch / dof
    alone = np.broadcast_to((found.dof == 1)[:, None] | (loads < 2), found.total.shape)
    level, share, rest_dof = _levels(found, mean, dof)
    return Spread(
        np.where(alone, found.total / dof[:, None], level), np.where(alone, 1.0, share),
        np.nan_to_num(rest_dof), mean, np.nan_to_num(dof),
    )  # fmt: skip


def _levels(found: Residuals, mean: Floats, dof: Floats) -> tuple[Floats, Floats, Floats]:
    """Return the variance at each load = that of a launch's mean over the loads + (noise of the
    load - mean noise / loads), the share of the first part, and the degrees of freedom of the
    second."""
    loads = found.total.shape[1]
    if loads < 2:
        every = np.repeat(dof[:, None], loads, axis=1)
        return found.total, np.ones(found.total.shape), every
    noise, common = _noise(found.within / dof[:, None])
    own = dof * (loads - 1) / loads
    prior = prior_dof(noise / np.where(common > 0, common, np.nan)[:, None], own)
    moderated = (prior * common[:, None] + own[:, None] * noise) / (prior + own[:, None])
    # A load with less noise than the mean of all cannot scatter less than its own noise.
    rest = np.maximum(moderated - (common / loads)[:, None], moderated / loads - mean[:, None])
    level = mean[:, None] + rest
    with np.errstate(invalid="ignore", divide="ignore"):
        share = np.clip(1 - rest / level, 0.0, 1.0)
    rest_dof = np.broadcast_to(np.minimum(prior + own, own * loads)[:, None], level.shape)
    return level, np.nan_to_num(share, nan=1.0), rest_dof


def _noise(within: Floats) -> tuple[Floats, Floats]:
    """Return the noise of each load and their mean, from mean squares after the launch's mean.

    The launch's mean takes a part of each load's noise along: E(within) = noise (1 - 2 / loads) +
    mean noise / loads. Two loads cannot be told apart.
    """
    loads = within.shape[1]
    common = within.mean(axis=1) * loads / (loads - 1)
    if loads == 2:
        return np.repeat(common[:, None], 2, axis=1), common
    noise = (within - (common / loads)[:, None]) / (1 - 2 / loads)
    # An estimate below zero says "small": a fiftieth of the mean stands for it.
    return np.maximum(noise, common[:, None] / 50), common
