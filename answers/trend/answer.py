"""The trend as a value: every series judged, worst first, with its words."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from analysis.matching.difference import Change
from analysis.nightly.acceptance import Acceptance
from analysis.nightly.nights import SERIES_FIELDS, Series
from analysis.nightly.regressions import (
    FINE,
    LEAST_NIGHTS,
    OPEN,
    REGRESSION,
    Assessment,
    Budgets,
    Point,
    Status,
    assess,
    points,
    worst,
)
from answers.trend import words
from answers.trend.read import Watched
from answers.wording import UNKNOWN, badge, size

_RANK: dict[Status, int] = {REGRESSION: 0, OPEN: 1, FINE: 2}
#: What may tell two series apart whose names are the same.
_TOLD = [name for name in SERIES_FIELDS if name not in ("model", "gpu", "arm_label", "dataset")]


@dataclass(frozen=True, slots=True)
class Moved:
    """A level that begins with the night ``first``, against the level before it."""

    first: str
    last_before: str
    improvement: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Drifting:
    """A steady change: by ``per_night`` each night since ``since``, by ``total`` up to the last
    night (ratios, positive is better)."""

    since: str
    per_night: float
    total: float
    said: str


@dataclass(frozen=True, slots=True)
class Line:
    """One series. ``improvement``, ``low``, ``high``: ratios, positive is better, None: unknown;
    ``since``: the night since which it is worse, ``last_before`` the one before, ``changed`` the
    configuration between them; ``said``: all of it in sentences; ``gain``: what became of an arm's
    gain over the baseline, None for any other series."""

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
    gain: str | None = None

    @property
    def points(self) -> tuple[Point, ...]:
        """The nights as a run chart draws them, oldest first."""
        return points(self.assessed)

    @property
    def budget_text(self) -> str:
        """How much worse the series may become: ``5.0%``."""
        return f"{self.budget:.1%}"

    @property
    def since_text(self) -> str:
        """The night since which the series is worse; empty where it is not."""
        return self.since or ""

    @property
    def drift_text(self) -> str:
        """The drift in a clause; empty where there is none."""
        return self.drift.said if self.drift else ""

    @property
    def changed_text(self) -> str:
        """What changed in the configuration with the night since which the series is worse."""
        return "; ".join(one.sentence for one in self.changed) or "nothing that is recorded"

    @property
    def evidence_text(self) -> str:
        """The kind of evidence in words: ``GPU``, ``CPU lab`` …"""
        return badge(self.evidence) or "GPU"

    @property
    def about(self) -> tuple[tuple[str, object], ...]:
        """The facts that tell this series from every other."""
        return tuple(self.assessed.series.about.items())

    @property
    def reference(self) -> tuple[int, int] | None:
        """The places of the nights that the last ones are compared with: the first, and the one
        after the last."""
        return self.assessed.against

    @property
    def study(self) -> str | None:
        """The study that measured the series."""
        return self.assessed.series.about.get("study")

    @property
    def evidence(self) -> str | None:
        """What the series was measured on: ``gpu``, ``cpu``, …"""
        return self.assessed.series.about.get("evidence")

    @property
    def arm(self) -> str:
        """The arm of the series: ``eagle3 K=3``."""
        return str(self.assessed.series.about.get("arm_label") or UNKNOWN)

    @property
    def days(self) -> tuple[str, ...]:
        """The days of the nights, without versions, newest first."""
        return tuple(dict.fromkeys(night.day for night in reversed(self.assessed.series.nights)))


@dataclass(frozen=True, slots=True)
class Trend:
    """All series, worst first; ``headline``, ``summary``: what happened, in a line and in more.

    ``few``: settings with fewer nights than can be judged, beyond those in ``lines``;
    ``origins``: what was stated of where the runs come from, a sentence each."""

    status: Status
    lines: tuple[Line, ...]
    headline: str
    summary: str
    few: int = 0
    origins: tuple[str, ...] = ()

    @property
    def badges(self) -> tuple[str, ...]:
        """What a reader must know about the origin of the numbers; often nothing."""
        return tuple(sorted({badge(line.evidence) for line in self.judged} - {""}))

    @property
    def judged(self) -> tuple[Line, ...]:
        """The series of which something is known: how they changed, or that they were accepted."""
        return tuple(
            line
            for line in self.lines
            if line.nights >= LEAST_NIGHTS and (line.accepted or line.improvement is not None)
        )


def trend(
    series: Sequence[Series], budgets: Budgets, accepted: Iterable[Acceptance] = (), few: int = 0
) -> Trend:
    """Judge every series against what it may lose and what was accepted; ``few``: see ``Trend``."""
    found = sorted(_told(assess(series, budgets, accepted)), key=_urgency)
    lines = tuple(map(_line, found))
    short = {id(one.assessed.series.about) for one in lines if one.nights < LEAST_NIGHTS}
    few += len(short)
    status = worst([line.status for line in lines])
    return Trend(status, lines, headline(lines, few), summary(lines, few), few)


def _told(found: Sequence[Assessment]) -> Iterator[Assessment]:
    """Leave out gains that stand, and those of arms that are told to be slower themselves."""
    slower = {
        _line_of(one) for one in found if one.status == REGRESSION and one.series.over is None
    }
    for one in found:
        is_news = one.status == REGRESSION and _line_of(one) not in slower
        if one.series.over is None or is_news:
            yield one


def _line_of(one: Assessment) -> tuple[int, str, str]:
    return id(one.series.about), one.series.metric, one.series.statistic


def watch(known: Watched, budgets: Budgets, accepted: Iterable[Acceptance] = ()) -> Trend:
    """Judge the series that have enough nights."""
    return replace(trend(known.series, budgets, accepted, known.few), origins=known.origins)


def names(series: Sequence[Series]) -> list[str]:
    """Return a name for each series that no other series of the same metric has."""
    times = Counter((one.line, one.name) for one in series)
    first = [one.name if times[one.line, one.name] == 1 else _longer(one) for one in series]
    seen: Counter[tuple[str, str]] = Counter()
    told = []
    for one, name in zip(series, first, strict=True):
        seen[one.line, name] += 1
        again = seen[one.line, name]
        told.append(name if again == 1 else f"{name} ({again})")
    return told


def headline(lines: Sequence[Line], few: int = 0) -> str:
    """Say whether something got worse, since when and with what change. ``lines``: worst first;
    ``few``: settings with too few nights."""
    long = [line for line in lines if line.nights >= LEAST_NIGHTS]
    if not long:
        return words.TOO_FEW if few else words.NOTHING
    worse = [line for line in long if line.status == REGRESSION]
    if worse:
        return _worst(worse, len(long))
    every, since = words.series(len(long)), min(line.days[-1] for line in long)
    unsettled = sum(line.status == OPEN for line in long)
    if unsettled:
        return (
            f"Nothing is shown to have got worse since {since}, but {unsettled:,} of {every} are "
            "not settled"
        )
    drifting = sum(line.drift is not None and line.drift.total < 0 for line in long)
    if drifting:
        return (
            f"Nothing got worse beyond its budget since {since}, but {drifting:,} of {every} drift "
            "downwards"
        )
    return f"Nothing got worse since {since}: in all {every} a regression is excluded"


def _worst(worse: Sequence[Line], every: int) -> str:
    """Say which series is worst: ``Output throughput of eagle3 K=3 on code is 11.1 % worse since
    2026-11-07, with …``."""
    first = worse[0]
    others = len(worse) - 1
    amount = size(first.improvement or 0.0)
    dataset = first.assessed.series.about.get("dataset") or "an unknown dataset"
    said = f"{first.metric} of {first.arm} on {dataset} is {amount} worse since {first.since}"
    if first.gain:
        said = f"{first.gain[:1].upper()}{first.gain[1:]} ({first.metric}, {dataset}), since {first.since}"
    more = f"; {others:,} more of {words.series(every)} got worse" if others else ""
    return f"{said}, {words.through(first.changed)}{more}"


def summary(lines: Sequence[Line], few: int = 0) -> str:
    """Count the series of each status and name drifts and the nights that are covered."""
    if not lines:
        return words.few(few)
    counts = Counter(line.status for line in lines if line.nights >= LEAST_NIGHTS)
    days = sorted({day for line in lines for day in line.days})
    better = sum(bool(line.moves) and line.moves[-1].low > 0 for line in lines)
    drifts = [line for line in lines if line.drift is not None]
    parts = [f"{counts[status]:,} {status}" for status in _RANK if counts[status]]
    parts += [f"{better:,} got better"] if better else []
    parts += [f"{len(drifts):,} drift"] if drifts else []
    told = f"Of the series: {', '.join(parts)}. " if parts else ""
    span = f"{words.nights(len(days))}, {days[0]} to {days[-1]}."
    return f"{told}{span} {words.few(few)}".strip()


def _urgency(one: Assessment) -> tuple[int, bool, float]:
    size = float("inf") if one.improvement is None else one.improvement
    return _RANK[one.status], one.series.over is not None, size


def _line(one: Assessment) -> Line:
    labels = [night.label for night in one.series.nights]
    moves = tuple(
        Moved(labels[m.first], labels[m.first - 1], m.improvement, m.low, m.high) for m in one.moves
    )
    return Line(
        name=one.series.name, metric=one.series.line, status=one.status,
        why=("regression of the gain: " if one.series.over else "") + words.WHY[one.reason], said=words.said(one), improvement=one.improvement, low=one.low,
        high=one.high, change=words.percent(one.improvement),
        interval=words.interval(one.low, one.high), budget=one.budget, against=words.against(one),
        since=None if one.since is None else labels[one.since],
        last_before=labels[one.since - 1] if one.since else None, changed=one.changed, moves=moves,
        drift=_drifting(one, labels), accepted=one.accepted, nights=len(labels), assessed=one,
        gain=words.gain(one),
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
