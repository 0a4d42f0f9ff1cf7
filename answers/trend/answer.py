"""The trend as a value: every series judged, worst first, with its words."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from analysis.matching.difference import Change
from analysis.nightly.acceptance import Acceptance
from analysis.nightly.budgets import Budgets
from analysis.nightly.nights import SERIES_FIELDS, Series
from analysis.nightly.regressions import (
    FINE,
    OPEN,
    REGRESSION,
    Assessment,
    Status,
    assess,
    worst,
)
from answers.trend import words

_RANK: dict[Status, int] = {REGRESSION: 0, OPEN: 1, FINE: 2}
#: What may tell two series apart whose names are the same.
_TOLD = [name for name in SERIES_FIELDS if name not in ("model", "gpu", "arm_label", "dataset")]


@dataclass(frozen=True, slots=True)
class Moved:
    """The level is another from the night ``first`` on, against the level before it."""

    first: str
    last_before: str
    improvement: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Drifting:
    """It changes by ``per_night`` each night since ``since``, by ``total`` up to the last one."""

    since: str
    per_night: float
    total: float
    said: str


@dataclass(frozen=True, slots=True)
class Line:
    """One series. ``improvement``, ``low``, ``high``: ratios, positive is better, None: unknown;
    ``since``: the night since which it is worse, ``last_before`` the one before, ``changed`` the
    configuration between them; ``said``: all of it in sentences."""

    name: str
    metric: str
    status: Status
    why: str
    said: str
    improvement: float | None
    low: float | None
    high: float | None
    change: str
    interval: str
    budget: float
    against: str
    since: str | None
    last_before: str | None
    changed: tuple[Change, ...]
    moves: tuple[Moved, ...]
    drift: Drifting | None
    accepted: Acceptance | None
    nights: int
    assessed: Assessment


@dataclass(frozen=True, slots=True)
class Trend:
    """All series, worst first; ``headline``, ``summary``: what happened, in a line and in more."""

    status: Status
    lines: tuple[Line, ...]
    headline: str
    summary: str


def trend(series: Sequence[Series], budgets: Budgets, accepted: Iterable[Acceptance] = ()) -> Trend:
    """Judge every series against what it may lose and what was accepted."""
    found = sorted(assess(series, budgets, accepted), key=_urgency)
    lines = tuple(map(_line, found))
    return Trend(worst([line.status for line in lines]), lines, headline(lines), summary(lines))


def names(series: Sequence[Series]) -> list[str]:
    """A name for each that no other series of the same metric has."""
    times = Counter((one.line, one.name) for one in series)
    first = [one.name if times[one.line, one.name] == 1 else _longer(one) for one in series]
    seen: Counter[tuple[str, str]] = Counter()
    told = []
    for one, name in zip(series, first, strict=True):
        seen[one.line, name] += 1
        again = seen[one.line, name]
        told.append(name if again == 1 else f"{name} ({again})")
    return told


def headline(lines: Sequence[Line]) -> str:
    """Did something break, since when, and how badly? ``lines``: worst first."""
    if not lines:
        return words.NOTHING
    every = words.series(len(lines))
    worse = [line for line in lines if line.status == REGRESSION]
    if worse:
        amount = words.percent(-(worse[0].improvement or 0.0)).removeprefix("+")
        return f"{len(worse)} of {every} became worse, the worst by {amount} since {worse[0].since}"
    if all(line.nights < 2 for line in lines):
        return "Did something break? Not known yet: every series has one night only"
    unsettled = sum(line.status == OPEN for line in lines)
    if unsettled:
        return f"Nothing is shown to be worse, but {unsettled} of {every} are not settled"
    drifting = sum(line.drift is not None and line.drift.total < 0 for line in lines)
    if drifting:
        return f"Nothing became worse beyond its budget, but {drifting} of {every} drift downwards"
    return f"Nothing became worse: in all {every} a regression is excluded"


def summary(lines: Sequence[Line]) -> str:
    """The worst regression, how many of which status, which drift, over which nights."""
    if not lines:
        return ""
    counts = Counter(line.status for line in lines)
    days = sorted({night.day for line in lines for night in line.assessed.series.nights})
    better = sum(bool(line.moves) and line.moves[-1].low > 0 for line in lines)
    drifts = [line for line in lines if line.drift is not None]
    parts = [f"{counts[status]} {status}" for status in _RANK if counts[status]]
    parts.append(f"{better} became better")
    parts += [f"{len(drifts)} drift"] if drifts else []
    span = f"{words.nights(len(days))}, {days[0]} to {days[-1]}."
    return f"{_worst(lines[0])}{', '.join(parts)}. {span}"


def _worst(line: Line) -> str:
    if line.status != REGRESSION or line.improvement is None:
        return ""
    return (
        f"Worst: {line.metric} of {line.name}: {line.change} (95 %: {line.interval}) since "
        f"{line.since}. "
    )


def _urgency(one: Assessment) -> tuple[int, float]:
    return _RANK[one.status], float("inf") if one.improvement is None else one.improvement


def _line(one: Assessment) -> Line:
    labels = [night.label for night in one.series.nights]
    moves = tuple(
        Moved(labels[m.first], labels[m.first - 1], m.improvement, m.low, m.high) for m in one.moves
    )
    return Line(
        name=one.series.name, metric=one.series.line, status=one.status,
        why=words.WHY[one.reason], said=words.said(one), improvement=one.improvement, low=one.low,
        high=one.high, change=words.percent(one.improvement),
        interval=words.interval(one.low, one.high), budget=one.budget, against=words.against(one),
        since=None if one.since is None else labels[one.since],
        last_before=labels[one.since - 1] if one.since else None, changed=one.changed, moves=moves,
        drift=_drifting(one, labels), accepted=one.accepted, nights=len(labels), assessed=one,
    )  # fmt: skip


def _drifting(one: Assessment, labels: Sequence[str]) -> Drifting | None:
    known = one.drift
    if known is None:
        return None
    since = labels[known.first]
    return Drifting(
        since, known.per_night, known.total, words.drift(known.per_night, known.total, since)
    )


def _longer(one: Series) -> str:
    told = [f"{name.replace('_', ' ')} {one.about[name]}" for name in _TOLD if one.about.get(name)]
    return f"{one.name} ({', '.join(told)})"
