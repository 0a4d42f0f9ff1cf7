"""Has a series over nights become worse: since when, by how much, how sure, and what changed.

Where the level moved is found by ``ruptures`` (PELT, Killick et al. 2012, doi:10.1080/
01621459.2012.737745); whether it really did is judged by a t interval of the means of the nights
before and after, whose noise is that of repeats or of the nights themselves, whichever is larger.
"""

from dataclasses import dataclass, replace
from math import isnan, sqrt
from statistics import fmean
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtr, stdtrit

from analysis.matching.difference import Change, differences
from analysis.nightly.budgets import Budgets
from analysis.nightly.nights import Night, Series, as_improvement
from analysis.significance.evidence import standing
from warehouse.catalogue import METRICS, percentile_label

Floats = NDArray[np.float64]
Status = Literal["fine", "regression", "not enough evidence"]

FINE: Status = "fine"
REGRESSION: Status = "regression"
OPEN: Status = "not enough evidence"
#: A move of the level must explain this many times log(nights) of the noise's variance.
PENALTY = 3.0
#: Fewer nights than this have no move to look for: the last is held against the others.
FEWEST_NIGHTS = 4
#: Noise that repeats show is rounding below this (a spread of 0.0001 %).
LEAST_VARIANCE = 1e-12


@dataclass(frozen=True, slots=True)
class Assessment:
    """One series. ``improvement``, ``low``, ``high``: of the nights from ``first`` on over those
    before it up to ``last_before`` (ratios, positive is better; NaN for unknown). ``changed``: the
    configuration of ``first`` against ``last_before``."""

    series: Series
    status: Status
    budget: float
    improvement: float
    low: float
    high: float
    p_value: float
    first: str | None
    last_before: str | None
    changed: tuple[Change, ...]
    why: str

    @property
    def line(self) -> str:
        """``Output throughput`` or ``Inter-token latency (ITL) P95``."""
        metric = METRICS[self.series.metric]
        chosen = f" {percentile_label(self.series.statistic)}" if metric.distribution else ""
        return f"{metric.label}{chosen}"


def assess(series: list[Series], budgets: Budgets) -> list[Assessment]:
    """Judge every series; a regression must also stand among all that are judged."""
    changes = _Changes()
    found = [_assess(one, budgets.allowed(one.metric, one.statistic), changes) for one in series]
    stands = standing(np.array([one.p_value for one in found], dtype=np.float64))
    return [
        _judged(one, bool(clear)) if one.first is not None else one
        for one, clear in zip(found, stands, strict=True)
    ]


def worst(found: list[Assessment]) -> Status:
    """The status of them all: a regression anywhere, else what could not be settled, else fine."""
    said = {one.status for one in found}
    if REGRESSION in said:
        return REGRESSION
    return FINE if said == {FINE} else OPEN


class _Changes:
    """What differs between two nights, found once: all lines of a setting share their cells."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, int], tuple[Change, ...]] = {}

    def between(self, before: Night, after: Night) -> tuple[Change, ...]:
        key = (id(before.cell), id(after.cell))
        if key not in self._known:
            self._known[key] = differences(before.cell, after.cell)
        return self._known[key]


def _assess(series: Series, budget: float, changes: _Changes) -> Assessment:
    nights = series.nights
    if len(nights) < 2:
        why = "there is one night only, so nothing to hold it against"
        return _unknown(series, budget, why)
    split, looked_at = _split(nights)
    before, after = nights[:split], nights[split:]
    error, dof = _error(before, after)
    if dof < 1:
        why = "no night was repeated and there are fewer than four: nothing tells the noise"
        return _unknown(series, budget, why)
    gain = fmean(n.mean for n in after) - fmean(n.mean for n in before)
    # The place of the move was chosen among several: each of them must be surer.
    half = float(stdtrit(dof, 1 - 0.025 / looked_at)) * error
    p_value = min(1.0, looked_at * 2 * float(stdtr(dof, -abs(gain) / error)))
    middle, low, high = (
        as_improvement(value, series.metric) for value in (gain, gain - half, gain + half)
    )
    changed = changes.between(before[-1], after[0])
    return Assessment(
        series, OPEN, budget, middle, low, high, p_value,
        after[0].label, before[-1].label, changed, "",
    )  # fmt: skip


def _unknown(series: Series, budget: float, why: str) -> Assessment:
    nan = float("nan")
    return Assessment(series, OPEN, budget, nan, nan, nan, nan, None, None, (), why)


def _judged(one: Assessment, stands: bool) -> Assessment:
    worse = one.high < 0 and one.improvement < -one.budget
    if worse and stands:
        status, why = REGRESSION, "worse by more than the budget, and noise does not explain it"
    elif one.low > -one.budget:
        status, why = FINE, "a regression beyond the budget is excluded"
    elif worse:
        status, why = OPEN, "worse by itself, but among so many series chance gives one like it"
    else:
        status, why = OPEN, "the interval reaches beyond the budget: run more repeats"
    return replace(one, status=status, why=why)


def _split(nights: tuple[Night, ...]) -> tuple[int, int]:
    """The night from which on the level is another, and among how many it was chosen."""
    if len(nights) < FEWEST_NIGHTS:
        return len(nights) - 1, 1
    means = np.array([night.mean for night in nights])
    noise = np.sqrt(_noise(nights, means))
    # Its import takes as long as a whole report, which has no use for it.
    import ruptures  # type: ignore[import-untyped]

    search = ruptures.Pelt(model="l2", min_size=1, jump=1).fit((means / noise)[:, None])
    moves = search.predict(pen=PENALTY * np.log(len(nights)))[:-1]
    return (moves[-1], len(nights) - 1) if moves else (len(nights) - 1, 1)


def _noise(nights: tuple[Night, ...], means: Floats) -> float:
    """The variance of a night's mean: of repeats, or of steps from night to night if larger.

    Steps are told by their median, so that a move of the level does not count as noise.
    """
    steps = np.abs(np.diff(means))
    by_steps = float((np.median(steps) / 0.6745) ** 2 / 2)
    within, _ = _within(nights)
    return max(LEAST_VARIANCE, by_steps, 0.0 if np.isnan(within) else within)


def _within(nights: tuple[Night, ...]) -> tuple[float, int]:
    """The variance of a night's mean by its repeats, pooled over nights, and degrees of freedom."""
    dof = [night.repeats - 1 for night in nights]
    total = sum(dof)
    if total == 0:
        return float("nan"), 0
    squares = sum(d * night.variance for d, night in zip(dof, nights, strict=True) if d)
    each = fmean(1 / night.repeats for night in nights)
    return squares / total * each, total


def _error(before: tuple[Night, ...], after: tuple[Night, ...]) -> tuple[float, float]:
    """The standard error of the difference of both means, in logs, and its degrees of freedom."""
    within, within_dof = _within((*before, *after))
    middles = [fmean(night.mean for night in part) for part in (before, after)]
    residuals = [
        night.mean - middle
        for part, middle in zip((before, after), middles, strict=True)
        for night in part
    ]
    between_dof = len(residuals) - 2
    between = sum(r**2 for r in residuals) / between_dof if between_dof >= 2 else float("nan")
    candidates = [(within, within_dof), (between, between_dof)]
    variance, dof = max(
        ((max(v, LEAST_VARIANCE), d) for v, d in candidates if not isnan(v)), default=(0.0, 0)
    )
    return sqrt(variance * (1 / len(before) + 1 / len(after))), float(dof)


def as_json(one: Assessment) -> dict[str, Any]:
    """Plain values; unknown is None."""
    numbers = {
        name: None if np.isnan(getattr(one, name)) else float(getattr(one, name))
        for name in ("improvement", "low", "high", "p_value")
    }
    return {
        "series": one.series.name,
        "about": {name: _plain(value) for name, value in one.series.about.items()},
        "metric": one.series.metric,
        "statistic": one.series.statistic,
        "status": one.status,
        "why": one.why,
        "budget": one.budget,
        **numbers,
        "first_bad": one.first if one.status == REGRESSION else None,
        "last_before": one.last_before,
        "nights": len(one.series.nights),
        "changed": [
            {"field": c.field, "before": _plain(c.before), "after": _plain(c.after)}
            for c in one.changed
        ],
    }


def _plain(value: Any) -> Any:
    return value.item() if hasattr(value, "item") else value
