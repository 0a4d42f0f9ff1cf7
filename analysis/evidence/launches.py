"""How much a value scatters from one server start (launch) to the next, and what many comparisons make of that.

The logarithm of a metric in one launch is: the arm's level at this load + what the round shares
(drift) + what the launch shares over all its loads + the load's own noise. Residuals after arm and
round means leave the last two. Their mean over the loads of a launch has the variance of the launch
part plus 1 / loads of the noise; the rest, load by load, is noise, moderated over the loads
(``moderation``). The variance at one load is the sum of both, each with its own degrees of freedom
(``tails``).
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import digamma, polygamma, stdtr, stdtrit

# --- How far variances of several levels may borrow from each other (Smyth 2004, *limma*).
#
# Variances s² with d degrees of freedom each scatter around a common one. If they scatter no more
# than chance makes them, they are one variance; if more, each keeps a part of its own. The prior
# degrees of freedom d0 say how much the common one weighs:
# s̃² = (d0 s0² + d s²) / (d0 + d), doi:10.2202/1544-6115.1027, section 6.2.


Floats = NDArray[np.float64]

#: Stands for "as many as one likes": the levels then share one variance.
MANY = 1e6
_STEPS = 30


def prior_dof(ratios: Floats, dof: Floats) -> float:
    """Return the prior degrees of freedom d0 behind variances that were divided by their group's
    mean.

    ``ratios`` (groups, levels): variance of a level / mean over its group's levels, NaN where there
    is none; ``dof`` (groups,): degrees of freedom of each of a group's variances. The excess of the
    variance of log ratios over trigamma(d / 2) is trigamma(d0 / 2); no excess gives MANY.
    """
    half = np.maximum(dof, 1e-9)[:, None] / 2
    logs = np.log(np.maximum(ratios, 1e-12)) - digamma(half) + np.log(half)
    known = np.isfinite(logs)
    spare = (known.sum(axis=1) - 1).clip(0)
    if not spare.sum():
        return MANY
    logs = np.where(known, logs, np.nan)
    centre = np.nansum(logs, axis=1) / np.maximum(known.sum(axis=1), 1)
    squares = np.nansum((logs - centre[:, None]) ** 2, axis=1)
    expected = (spare * polygamma(1, half[:, 0])).sum() / spare.sum()
    excess = squares.sum() / spare.sum() - expected
    return MANY if excess <= 1e-6 else min(2 * _trigamma_inverse(float(excess)), MANY)


def _trigamma_inverse(value: float) -> float:
    """Return x with trigamma(x) = value, by Newton's method (Smyth 2004, appendix)."""
    x = 0.5 + 1 / value
    for _ in range(_STEPS):
        now = float(polygamma(1, x))
        x += now * (1 - now / value) / float(polygamma(2, x))
    return x


# --- How far chance reaches where a variance is the sum of two that are known differently well.
#
# The variance of a difference at one load has two parts: what a launch shares over its loads, known
# with few degrees of freedom, and the rest, known with more. Student's t of each is averaged by the
# share that it has in the variance (Cochran and Cox 1957, Experimental Designs, section 4.14), which
# holds where one set of degrees of freedom for the sum (Satterthwaite) promises too much in the far
# tail: there the part that is known worse decides.


#: So many bring the end to within a billionth of the distance between the ends of both parts.
_HALVINGS = 30


@dataclass(frozen=True)
class Tails:
    """Arrays of one shape: ``share`` (0-1) of the variance that is known with ``dof`` degrees of
    freedom; the rest is known with ``rest_dof``. ``dof`` is 0 where nothing repeats."""

    share: Floats
    dof: Floats
    rest_dof: Floats

    @property
    def known(self) -> NDArray[np.bool_]:
        """Whether something repeats, at each place."""
        return np.asarray(self.dof > 0)

    def above(self, t: Floats) -> Floats:
        """Return the probability (0-1) of an error above ``t`` standard errors; NaN where not
        known."""
        first, rest = (stdtr(np.maximum(dof, 1), -t) for dof in (self.dof, self.rest_dof))
        return np.where(self.known, self.share * first + (1 - self.share) * rest, np.nan)

    def reach(self, rate: Floats | float) -> Floats:
        """Return the standard errors that leave ``rate`` (0-1) outside, half on each side; NaN
        where not known."""
        half = np.broadcast_to(np.asarray(rate, dtype=np.float64) / 2, self.share.shape)
        ends = [stdtrit(np.maximum(dof, 1), 1 - half) for dof in (self.dof, self.rest_dof)]
        low, high = np.minimum(*ends), np.maximum(*ends)
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            inside = self.above(middle) > half
            low, high = np.where(inside, middle, low), np.where(inside, high, middle)
        return np.where(self.known, high, np.nan)

    def at(self, place: Any) -> "Tails":
        """Return the tails at the given places of the arrays only."""
        return Tails(self.share[place], self.dof[place], self.rest_dof[place])


# --- One study compares many arms at many loads: how much surer each difference must be for that.
#
# The share of false ones among the settled differences of a study is kept at 5 % (Benjamini and
# Hochberg 1995). The intervals that go with it have the level 1 - 0.05 k / m, where k of the study's m
# differences are settled (Benjamini and Yekutieli 2005, doi:10.1198/016214504000001907): such an
# interval excludes zero exactly where the difference is settled. Where nothing differs, at most 5 % of
# studies settle anything.
#
# ``scipy.stats.false_discovery_control`` settles the same ones (a test holds both together). It is not
# called here: importing ``scipy.stats`` takes 0.6 s of a processor, as long as the rest of a verdict.


#: Share of false ones among the settled differences of a study.
FALSE = 0.05


def error_rates(p_values: Floats, studies: NDArray[np.int64]) -> Floats:
    """Return for each difference the error rate (0-1) of its study-adjusted interval.

    ``p_values``: two-sided, NaN where nothing repeats; ``studies`` numbers the study of each.
    """
    rates = np.full(len(p_values), FALSE)
    known = np.isfinite(p_values)
    for _, rows in pd.Series(np.flatnonzero(known)).groupby(studies[known]):
        places = rows.to_numpy()
        rates[places] = FALSE * max(settled(p_values[places]), 1) / len(places)
    return rates


def settled(p_values: Floats, false: float = FALSE) -> int:
    """Return how many p-values are settled among all: the largest k with the k-th smallest at most
    ``false`` k / m."""
    allowed = false * np.arange(1, len(p_values) + 1) / len(p_values)
    held = np.flatnonzero(np.sort(p_values) <= allowed)
    return int(held[-1]) + 1 if held.size else 0


# --- How much a value scatters from one server start (launch) to the next.


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
