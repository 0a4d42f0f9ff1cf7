"""Has a series over nights become worse: since when, by how much, how sure, and what changed.

Levels are told by ``levels``, the last nights are held against the best of them by ``standing``, a
drift is named by ``drift``. A regression must also stand among all series that are judged: the share
of nights on which anything is falsely called worse is kept at 1 % (Benjamini and Hochberg 1995).
The gain of each arm over its baseline is judged with them, as a series of its own (``gains``).
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import sqrt
from typing import Literal

import numpy as np

from analysis.evidence.multiplicity import settled
from analysis.matching.difference import Change, differences
from analysis.nightly.acceptance import Acceptance, reference
from analysis.nightly.budgets import Budgets
from analysis.nightly.drift import Slope, slope
from analysis.nightly.gains import gains
from analysis.nightly.levels import Levels, levels
from analysis.nightly.nights import Night, Series, as_improvement, as_log_loss
from analysis.nightly.standing import FALSE_ALARMS, Reference, Standing, Step, compare, stand

Status = Literal["fine", "regression", "not enough evidence"]
Reason = Literal[
    "one night", "two nights", "no noise", "accepted", "worse", "lasts", "excluded", "chance",
    "more repeats", "more nights",
]  # fmt: skip

#: Fewer nights do not tell how far they lie apart by chance.
LEAST_NIGHTS = 3
FINE: Status = "fine"
REGRESSION: Status = "regression"
OPEN: Status = "not enough evidence"


@dataclass(frozen=True, slots=True)
class Move:
    """A level that begins with the night ``first`` (a place), and its improvement over the level
    before it with the 95 % interval (ratios, positive is better)."""

    first: int
    improvement: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Drift:
    """A steady change from the night ``first`` (a place) on: ``per_night`` each night, ``total`` up
    to the last night (ratios, positive is better)."""

    first: int
    per_night: float
    total: float


@dataclass(frozen=True, slots=True)
class Assessment:
    """One series. ``improvement``, ``low``, ``high``: of its last nights (from ``now`` on) over the
    best level before them (nights ``against``), ratios, positive is better; None: unknown.
    ``since``: the place of the night since which it is worse; ``changed``: the configuration then
    against the night before."""

    series: Series
    status: Status
    reason: Reason
    budget: float
    known: Levels
    improvement: float | None = None
    low: float | None = None
    high: float | None = None
    p_value: float | None = None
    now: int | None = None
    against: tuple[int, int] | None = None
    since: int | None = None
    changed: tuple[Change, ...] = ()
    moves: tuple[Move, ...] = ()
    drift: Drift | None = None
    accepted: Acceptance | None = None


def assess(
    series: Sequence[Series], budgets: Budgets, accepted: Iterable[Acceptance] = ()
) -> list[Assessment]:
    """Judge every series, then the gains of the arms over their baselines; a regression must also
    stand among all that are judged."""
    changes, said = _Changes(), tuple(accepted)
    found = [
        _assess(one, budgets.allowed(one.metric, one.statistic), said, changes)
        for one in (*series, *gains(series))
    ]
    rate = _rate([one.p_value for one in found if one.p_value is not None])
    return [_among_others(one, rate) for one in found]


def worst(found: Iterable[Status]) -> Status:
    """Return the status of all series together: a regression anywhere, else what could not be
    settled, else fine."""
    said = set(found)
    if REGRESSION in said:
        return REGRESSION
    return FINE if said == {FINE} else OPEN


class _Changes:
    """What differs between two nights, remembered, since all lines of a setting share their
    cells."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, int], tuple[Change, ...]] = {}

    def between(self, before: Night, after: Night) -> tuple[Change, ...]:
        key = (id(before.cell), id(after.cell))
        if key not in self._known:
            self._known[key] = differences(before.cell, after.cell)
        return self._known[key]


def _assess(
    series: Series, budget: float, accepted: tuple[Acceptance, ...], changes: _Changes
) -> Assessment:
    allowed, known = as_log_loss(budget, series.metric), levels(series.nights)
    since, by = reference(series, accepted, allowed)
    bare = Assessment(series, OPEN, "no noise", budget, known, accepted=by)
    few = _too_few(series.nights, since, by)
    if few is not None:
        return replace(bare, status=FINE if few == "accepted" else OPEN, reason=few)
    standing = stand(known, since, allowed)
    if standing is None:
        return bare
    found = _told(bare, standing, allowed)
    if found.since is not None:
        every = [one for one in (series, series.over) if one is not None]
        places = max(0, found.since - 1), found.since
        told = [c for one in every for c in changes.between(*(one.nights[p] for p in places))]
        found = replace(found, changed=tuple(c for at, c in enumerate(told) if c not in told[:at]))
    moves, drift = tuple(_moves(series, known, since)), slope(known, since)
    return replace(found, moves=moves, drift=_drift(drift, series) if drift else None)


def _too_few(nights: Sequence[Night], since: Reference, by: Acceptance | None) -> Reason | None:
    if by is not None and since.through >= len(nights) - 1:
        return "accepted"
    few: dict[int, Reason] = {1: "one night", 2: "two nights"}
    return few.get(len(nights))


def _told(bare: Assessment, standing: Standing, allowed: float) -> Assessment:
    step, metric = standing.step, bare.series.metric
    middle, low, high = (as_improvement(x, metric) for x in (step.gain, step.low, step.high))
    status, reason = _verdict(bare, standing, allowed)
    return replace(
        bare, status=status, reason=reason, improvement=middle, low=low, high=high,
        p_value=standing.p_value, now=step.after[0], against=step.before, since=standing.since,
    )  # fmt: skip


def _verdict(bare: Assessment, standing: Standing, allowed: float) -> tuple[Status, Reason]:
    if standing.worse:
        lasts = standing.since is not None and standing.since < standing.step.after[0]
        return REGRESSION, "lasts" if lasts else "worse"
    if standing.excluded:
        return FINE, "excluded"
    return OPEN, "more repeats" if _repeats_help(bare.known, standing.step, allowed) else (
        "more nights"
    )


def _repeats_help(known: Levels, step: Step, allowed: float) -> bool:
    """Return whether repeats without end would settle it; they take away only their own part of the
    noise."""
    left = known.beyond_repeats()
    if left is None:
        return False
    room = step.gain + allowed if step.gain > -allowed else -step.gain
    return (step.gain - step.low) * sqrt(left) < room


def _rate(p_values: Sequence[float]) -> float:
    """Return the largest p value that is still significant among all of them."""
    ordered = np.sort(np.array(p_values, dtype=np.float64))
    count = settled(ordered, FALSE_ALARMS) if p_values else 0
    return float(ordered[count - 1]) if count else 0.0


def _among_others(one: Assessment, rate: float) -> Assessment:
    if one.status != REGRESSION or (one.p_value is not None and one.p_value <= rate):
        return one
    return replace(one, status=OPEN, reason="chance", since=None, changed=())


def _moves(series: Series, known: Levels, since: Reference) -> Iterator[Move]:
    """Compare each level since the reference with the one before it."""
    spans = known.spans(since.first)
    for before, after in zip(spans, spans[1:], strict=False):
        step = compare(known, before, after)
        if step is not None:
            told = (as_improvement(x, series.metric) for x in (step.gain, step.low, step.high))
            yield Move(after[0], *told)


def _drift(found: Slope, series: Series) -> Drift:
    nights = len(series.nights) - 1 - found.first
    per_night, total = (
        as_improvement(found.per_night * count, series.metric) for count in (1, nights)
    )
    return Drift(found.first, per_night, total)
