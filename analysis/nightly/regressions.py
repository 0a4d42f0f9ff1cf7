"""Has a series over nights become worse: since when, by how much, within which budget, and what changed.

The last nights are held against the best level before them, and a drift is named (``levels``). A
regression must also stand among all series that are judged: the share of nights on which anything is
falsely called worse is kept at 1 % (Benjamini and Hochberg 1995). The gain of each arm over its baseline
is judged with them, as a series of its own (``gains``).
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import pairwise
from math import sqrt
from typing import Any, Literal

import numpy as np

from analysis.evidence.launches import settled
from analysis.matching.difference import Change, differences
from analysis.nightly.levels import (
    FALSE_ALARMS,
    Levels,
    ReferenceNights,
    SeriesStanding,
    cut_into_levels,
    slope,
    stand,
    step_between,
)
from analysis.nightly.nights import NightSeries, SeriesNight, as_improvement, as_log_loss, gains
from analysis.percentiles import Floats
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
    directed = [name for name, metric in METRICS.items() if metric.better != "neither"]
    for text in texts:
        match = _BUDGET.fullmatch(text.replace(" ", ""))
        if match is None:
            raise UnknownKey(f"{text!r} is no budget; write itl=3%, ttft.p95=10% or 5%.")
        size = float(match["number"]) / (100 if match["percent"] else 1)
        if match["key"] is None:
            default = size
            continue
        metric, _, statistic = match["key"].partition(".")
        if metric not in directed:
            raise UnknownKey(
                f"{metric!r} is no metric with a budget; use one of {', '.join(directed)}."
            )
        if statistic and statistic not in STATISTICS:
            raise UnknownKey(f"{statistic!r} is no statistic; use one of {', '.join(STATISTICS)}.")
        of.append((match["key"], size))
    return Budgets(default, tuple(of))


# --- What people accepted: from which night on a series is judged.


@dataclass(frozen=True, slots=True)
class AcceptedNight:
    """Somebody accepted how things stood in a night (``2026-11-21``), of one ``study`` or of all.

    ``series``: parts of its name with commas between them, as the gate prints it; None: all."""

    night: str
    why: str
    by: str
    at: datetime
    study: str | None = None
    series: str | None = None

    def holds(self, series: NightSeries) -> bool:
        """Return whether the acceptance is about this series, or about the arm whose gain it is."""
        if self.study is not None and series.about.get("study") != self.study:
            return False
        parts = {part.strip().casefold() for part in (self.series or "").split(",")} - {""}
        words = (*series.words, *replace(series, over=None).words)
        return parts <= {word.casefold() for word in words}


def _reference(
    series: NightSeries, accepted: Iterable[AcceptedNight], allowed: float
) -> tuple[ReferenceNights, AcceptedNight | None]:
    """Return from which night a series counts, and the last acceptance that says so.

    What was a regression in the accepted night counts from its first night on, anything else from
    the accepted night on. ``allowed``: in logs.
    """
    found, by, nights = ReferenceNights(), None, series.nights
    for one in sorted(accepted, key=lambda one: one.at):
        through = sum(night.day <= one.night for night in nights) - 1
        if through < 0 or not one.holds(series):
            continue
        days = [night.day for night in nights]
        before = found if found.through < through else ReferenceNights()
        standing = stand(cut_into_levels(nights[: through + 1]), before, allowed)
        first = days.index(days[through])
        if standing is not None and standing.since is not None:
            first = standing.since
        found, by = ReferenceNights(first, through), one
    return found, by


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
_TOO_FEW: dict[int, Reason] = {1: "one night", 2: "two nights"}


@dataclass(frozen=True, slots=True)
class Move:
    """A level that begins with the night ``first``, and its improvement over the level before it with
    the 95 % interval (ratios, positive is better)."""

    first: str
    last_before: str
    improvement: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class SeriesDrift:
    """A steady change: by ``per_night`` each night since ``since``, by ``total`` up to the last night
    (ratios, positive is better)."""

    since: str
    per_night: float
    total: float


@dataclass(frozen=True, slots=True)
class Assessment:
    """One series. ``improvement``, ``low``, ``high``: of its last nights (from ``now`` on) over the
    best level before them (nights ``against``), ratios, positive is better; None: unknown.
    ``since``: the place of the night since which it is worse; ``changed``: the configuration then
    against the night before."""

    series: NightSeries
    status: Status
    reason: Reason
    budget: float
    levels: Levels
    improvement: float | None = None
    low: float | None = None
    high: float | None = None
    p_value: float | None = None
    now: int | None = None
    against: tuple[int, int] | None = None
    since: int | None = None
    changed: tuple[Change, ...] = ()
    moves: tuple[Move, ...] = ()
    drift: SeriesDrift | None = None
    accepted: AcceptedNight | None = None


def assess(
    series: Sequence[NightSeries], budgets: Budgets, accepted: Iterable[AcceptedNight] = ()
) -> list[Assessment]:
    """Judge every series, then the gains of the arms over their baselines; a regression must also
    stand among all that are judged."""
    agreed = tuple(accepted)
    found = [
        _assess(one, budgets.allowed(one.metric, one.statistic), agreed)
        for one in (*series, *gains(series))
    ]
    p_values = np.sort([one.p_value for one in found if one.p_value is not None])
    count = settled(p_values, FALSE_ALARMS) if p_values.size else 0
    # The largest p value that is still significant among all of them.
    rate = float(p_values[count - 1]) if count else 0.0
    return [
        replace(one, status=OPEN, reason="chance", since=None, changed=())
        if one.status == REGRESSION and (one.p_value is None or one.p_value > rate)
        else one
        for one in found
    ]


def worst(statuses: Iterable[Status]) -> Status:
    """Return the status of all series together: a regression anywhere, else what could not be
    settled, else fine."""
    every = set(statuses)
    if REGRESSION in every:
        return REGRESSION
    return FINE if every == {FINE} else OPEN


def _assess(series: NightSeries, budget: float, accepted: tuple[AcceptedNight, ...]) -> Assessment:
    nights, levels = series.nights, cut_into_levels(series.nights)
    allowed = as_log_loss(budget, series.metric)
    since, by = _reference(series, accepted, allowed)
    bare = Assessment(series, OPEN, "no noise", budget, levels, accepted=by)
    if by is not None and since.through >= len(nights) - 1:
        return replace(bare, status=FINE, reason="accepted")
    if len(nights) in _TOO_FEW:
        return replace(bare, reason=_TOO_FEW[len(nights)])
    standing = stand(levels, since, allowed)
    if standing is None:
        return bare
    status, reason = _verdict(levels, standing, allowed)
    improvement, low, high = standing.step.improvements(series.metric)
    drift, moves = slope(levels, since), []
    for before, after in pairwise(levels.spans(since.first)):
        step = step_between(levels, before, after)
        if step is not None:
            first, last_before = nights[after[0]].label, nights[after[0] - 1].label
            moves.append(Move(first, last_before, *step.improvements(series.metric)))
    return replace(
        bare, status=status, reason=reason, improvement=improvement, low=low, high=high,
        p_value=standing.p_value, now=standing.step.after[0], against=standing.step.before,
        since=standing.since, changed=_changed_with(series, standing.since),
        moves=tuple(moves),
        drift=None if drift is None else SeriesDrift(
            nights[drift.first].label, as_improvement(drift.per_night, series.metric),
            as_improvement(drift.per_night * (len(nights) - 1 - drift.first), series.metric),
        ),
    )  # fmt: skip


def _verdict(levels: Levels, standing: SeriesStanding, allowed: float) -> tuple[Status, Reason]:
    step = standing.step
    if standing.worse:
        lasts = standing.since is not None and standing.since < step.after[0]
        return REGRESSION, "lasts" if lasts else "worse"
    if standing.excluded:
        return FINE, "excluded"
    # Repeats without end would settle it, if what they leave of the noise is small enough.
    left = levels.beyond_repeats()
    room = step.gain + allowed if step.gain > -allowed else -step.gain
    repeats = left is not None and (step.gain - step.low) * sqrt(left) < room
    return OPEN, "more repeats" if repeats else "more nights"


def _changed_with(series: NightSeries, since: int | None) -> tuple[Change, ...]:
    if since is None:
        return ()
    found: list[Change] = []
    for one in (series, series.over):
        if one is not None:
            found += differences(one.nights[max(0, since - 1)].cell, one.nights[since].cell)
    return tuple(change for at, change in enumerate(found) if change not in found[:at])


# --- A series over nights as a run chart: its levels, the noise around them, and what changed when.
#
# The band is that of an individuals chart (Shewhart; Wheeler, "Understanding Variation", 1993): the
# level plus or minus three standard deviations of a night, the same noise by which the gate judges.


SIGMAS = 3.0


@dataclass(frozen=True, slots=True)
class RunPoint:
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


def points(assessment: Assessment) -> tuple[RunPoint, ...]:
    """Return the nights of a series as points, oldest first."""
    levels, nights = assessment.levels, assessment.series.nights
    sign = -1.0 if METRICS[assessment.series.metric].better == "lower" else 1.0

    # Turned logs (more is better) back to the metric's unit.
    def natural(logs: Floats) -> Floats:
        return np.asarray(np.exp(sign * logs))

    parts = np.searchsorted(levels.starts, np.arange(len(nights)), side="right") - 1
    level_means = np.array([levels.means[parts == part].mean() for part in parts])
    values, middles, noise = natural(levels.means), natural(level_means), levels.noise()
    ends = None
    if noise is not None:
        room = SIGMAS * sqrt(noise.variance)
        ends = np.sort([natural(level_means - room), natural(level_means + room)], axis=0)
    return tuple(
        RunPoint(
            night.label, night.at.to_pydatetime(), float(values[place]), night.repeats,
            int(parts[place]), float(middles[place]), None if ends is None else float(ends[0, place]),
            None if ends is None else float(ends[1, place]), changed, night.cell.get("cell_id"),
        )
        for place, (night, changed) in enumerate(zip(nights, steps(assessment.series), strict=True))
    )  # fmt: skip


def steps(series: NightSeries) -> list[tuple[Change, ...]]:
    """Return what changed with each night against the one before it; nothing with the first."""
    return [(), *(differences(old.cell, new.cell) for old, new in pairwise(series.nights))]


# --- One release against another: all nights of each engine version held against each other.


@dataclass(frozen=True, slots=True)
class ReleaseEffect:
    """What the newer release did to one series (ratios, positive is better), with its 95 % interval;
    None where both have one night each, which tells no noise."""

    series: NightSeries
    improvement: float | None = None
    low: float | None = None
    high: float | None = None

    @property
    def word(self) -> Literal["better", "worse", "no clear difference"]:
        """What that comes to."""
        if self.low is not None and self.low > 0:
            return "better"
        return "worse" if self.high is not None and self.high < 0 else "no clear difference"


def comparable_releases(series: Iterable[NightSeries]) -> dict[str, tuple[str, ...]]:
    """Return engine version -> the versions that some series was measured with as well.

    Both in the order in which they were first measured; versions without a partner are left out.
    """
    known: list[set[str]] = []
    first: dict[str, Any] = {}
    for one in series:
        known.append(set())
        for night in one.nights:
            version = _version(night)
            if version is not None:
                known[-1].add(version)
                first[version] = min(first.get(version, night.at), night.at)
    order = sorted(first, key=lambda version: first[version])
    partners = {
        version: tuple(
            other
            for other in order
            if other != version and any({version, other} <= own for own in known)
        )
        for version in order
    }
    return {version: others for version, others in partners.items() if others}


def between_releases(series: Iterable[NightSeries], before: str, after: str) -> list[ReleaseEffect]:
    """Compare the nights of two versions, for each series that knows both.

    The night is the unit of noise here as well.
    """
    found = []
    for one in series:
        old, new = (
            [night for night in one.nights if _version(night) == version]
            for version in (before, after)
        )
        if not old or not new:
            continue
        every = cut_into_levels((*old, *new))
        # Each version counts as one level, however the series moved within it.
        levels = Levels(every.means, (0, len(old)), every.repeats)
        step = step_between(levels, (0, len(old)), (len(old), len(old) + len(new)))
        found.append(ReleaseEffect(one, *(() if step is None else step.improvements(one.metric))))
    return found


def _version(night: SeriesNight) -> str | None:
    version: Any = night.cell.get("engine_version")
    return str(version) if version else None
