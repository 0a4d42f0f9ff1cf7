"""Has a series over nights become worse: since when, by how much, within which budget, and what changed.

Levels are told by ``levels``, the last nights are held against the best of them by ``standing``, a
drift is named by ``drift``. A regression must also stand among all series that are judged: the share
of nights on which anything is falsely called worse is kept at 1 % (Benjamini and Hochberg 1995).
The gain of each arm over its baseline is judged with them, as a series of its own (``gains``).
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from math import sqrt
from typing import Literal

import numpy as np

from analysis.evidence.launches import settled
from analysis.matching.difference import Change, differences
from analysis.nightly.acceptance import Acceptance, reference
from analysis.nightly.gains import gains
from analysis.nightly.levels import Levels, levels
from analysis.nightly.nights import Night, Series, as_improvement, as_log_loss
from analysis.nightly.standing import (
    FALSE_ALARMS,
    Reference,
    Slope,
    Standing,
    Step,
    compare,
    slope,
    stand,
)
from warehouse.catalogue import METRICS, STATISTICS
from warehouse.errors import UnknownKey

# --- How much worse a metric may become before a gate stops: ``itl=3%``, ``ttft.p95=10%``, ``5%``.


_BUDGET = re.compile(r"(?:(?P<key>[^=]+)=)?(?P<number>\d+(?:\.\d+)?)(?P<percent>%?)")


@dataclass(frozen=True)
class Budgets:
    """By how much a line may become worse, as ratios (0.03 is 3 %). ``of`` holds them by metric key or by
    ``key.statistic``; ``default`` holds for the other lines."""

    default: float = 0.05
    of: tuple[tuple[str, float], ...] = ()

    def allowed(self, metric: str, statistic: str) -> float:
        """Return the budget of one line; the most specific word wins."""
        known = dict(self.of)
        return known.get(f"{metric}.{statistic}", known.get(metric, self.default))


def budgets(texts: Iterable[str]) -> Budgets:
    """Read budgets as a person writes them; one without a metric is for all the others.

    Raises UnknownKey for a metric or statistic that the catalogue lacks, or for another form.
    """
    default, of = Budgets().default, []
    for text in texts:
        match = _BUDGET.fullmatch(text.replace(" ", ""))
        if match is None:
            raise UnknownKey(f"{text!r} is no budget; write itl=3%, ttft.p95=10% or 5%.")
        size = float(match["number"]) / (100 if match["percent"] else 1)
        if match["key"] is None:
            default = size
        else:
            of.append((_known(match["key"]), size))
    return Budgets(default, tuple(of))


def _known(key: str) -> str:
    metric, _, statistic = key.partition(".")
    directed = [name for name, known in METRICS.items() if known.better != "neither"]
    if metric not in directed:
        raise UnknownKey(
            f"{metric!r} is no metric with a budget; use one of {', '.join(directed)}."
        )
    if statistic and statistic not in STATISTICS:
        raise UnknownKey(f"{statistic!r} is no statistic; use one of {', '.join(STATISTICS)}.")
    return key


# --- Has a series over nights become worse: since when, by how much, how sure, and what changed.


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


# --- A series over nights as a run chart: its levels, the noise around them, and what changed when.
#
# The band is that of an individuals chart (Shewhart; Wheeler, "Understanding Variation", 1993): the
# level plus or minus three standard deviations of a night, the same noise by which the gate judges.


SIGMAS = 3.0


@dataclass(frozen=True, slots=True)
class Point:
    """One night in the metric's own unit. ``value``: geometric mean of the repeats; ``part``: the
    number of its ``level``; ``low`` and ``high``: the noise band, None where nothing tells the noise;
    ``changed``: the configuration against the night before; ``cell_id``: its first cell."""

    night: str
    at: datetime
    value: float
    repeats: int
    part: int
    level: float
    low: float | None
    high: float | None
    changed: tuple[Change, ...]
    cell_id: str | None


def points(one: Assessment) -> tuple[Point, ...]:
    """Return the nights of a series as points, oldest first."""
    known, nights = one.known, one.series.nights
    parts = np.searchsorted(known.starts, np.arange(len(nights)), side="right") - 1
    levels = np.array([known.means[parts == part].mean() for part in parts])
    noise = known.noise()
    room = None if noise is None else SIGMAS * sqrt(noise.variance)
    lows, highs = (None, None) if room is None else _ends(one.series, levels, room)
    values, middles = (_natural(logs, one.series) for logs in (known.means, levels))
    return tuple(
        Point(
            night.label, night.at.to_pydatetime(), float(values[place]), night.repeats,
            int(parts[place]), float(middles[place]), None if lows is None else float(lows[place]),
            None if highs is None else float(highs[place]), changed, night.cell.get("cell_id"),
        )
        for place, (night, changed) in enumerate(zip(nights, steps(one.series), strict=True))
    )  # fmt: skip


def steps(series: Series) -> list[tuple[Change, ...]]:
    """Return what changed with each night against the one before it; nothing with the first."""
    nights = series.nights
    later = zip(nights, nights[1:], strict=False)
    return [(), *(differences(before.cell, after.cell) for before, after in later)]


def _ends(series: Series, levels: np.ndarray, room: float) -> tuple[np.ndarray, np.ndarray]:
    ends = [_natural(levels + side * room, series) for side in (-1, 1)]
    return np.minimum(*ends), np.maximum(*ends)


def _natural(logs: np.ndarray, series: Series) -> np.ndarray:
    """Convert turned logs (more is better) back to the metric's unit."""
    sign = -1.0 if METRICS[series.metric].better == "lower" else 1.0
    natural: np.ndarray = np.exp(sign * logs)
    return natural
