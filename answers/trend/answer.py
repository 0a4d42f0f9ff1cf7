"""The trend as a value: every series judged, worst first, with its words."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from math import inf
from pathlib import Path
from typing import Any

import msgspec
import pandas as pd

from analysis.matching.comparison import STUDY_TABLE
from analysis.nightly.nights import SERIES_FIELDS, NightSeries, of_many_nights, series_over_nights
from analysis.nightly.regressions import (
    FINE,
    LEAST_NIGHTS,
    OPEN,
    REGRESSION,
    AcceptedNight,
    Assessment,
    Budgets,
    ReleaseEffect,
    RunPoint,
    SeriesDrift,
    Status,
    assess,
    between_releases,
    points,
    worst,
)
from answers.trend import words
from answers.wording import UNKNOWN, badge, size
from warehouse import annotations, queries
from warehouse.annotations import AnnotationTarget
from warehouse.catalogue import counted
from warehouse.errors import UnknownKey
from warehouse.filters import Filters
from warehouse.store import Reader

# --- What a trend is read from: the nights of every series, and what was accepted.


def accept(reader: Reader, what: AnnotationTarget, why: str, author: str) -> str:
    """Write down that a night is accepted, the last one where none is named, and say for how many series it
    is.

    Raises UnknownKey where no series is meant or none has that night, InvalidInput for a reason
    that may not be.
    """
    every = series(reader, Filters())
    acceptance = AcceptedNight("", "", "", datetime.now(UTC), what.study, what.series)
    meant = [each for each in every if acceptance.holds(each)]
    if not meant:
        example = f'; a series has these parts: "{", ".join(every[0].words)}"' if every else ""
        raise UnknownKey(
            f"No series of {what.study or 'any study'} has the parts {what.series!r}{example}."
        )
    days = sorted({night.day for each in meant for night in each.nights})
    if what.night is not None and what.night not in days:
        raise UnknownKey(
            f"None of these {len(meant):,} series has the night {what.night}; the last is {days[-1]}."
        )
    target = replace(what, night=what.night or days[-1])
    annotations.add(reader.root, annotations.annotation("accept", target, why, author))
    return f"Accepted: {target.name}, for {len(meant):,} of {len(every):,} series."


@dataclass(frozen=True, slots=True)
class WatchedSeries:
    """The series with enough nights to be judged; ``few``: how many settings have fewer;
    ``origins``: what was stated of where their runs come from, a sentence each."""

    series: tuple[NightSeries, ...]
    few: int
    origins: tuple[str, ...] = ()


def series(reader: Reader, filters: Filters, since: datetime | None = None) -> list[NightSeries]:
    """Read the series of every setting and line of the study's table, from the day ``since`` on."""
    cells = queries.cells(reader, filters).to_pandas()
    if since is not None:
        cells = cells[cells["started_at"] >= pd.Timestamp(since, tz="UTC")]
    return _series(reader, filters, cells)


def watched(reader: Reader, filters: Filters) -> WatchedSeries:
    """Read the series of the settings that have enough nights to be judged; no value of the others
    is read."""
    cells, few = of_many_nights(queries.cells(reader, filters).to_pandas(), LEAST_NIGHTS)
    if cells.empty:
        return WatchedSeries((), few)
    stated = queries.provenances(reader, cells["cell_id"].tolist())
    origins = tuple(stated.column("provenance").to_pylist())
    return WatchedSeries(tuple(_series(reader, filters, cells)), few, origins)


def _series(reader: Reader, filters: Filters, cells: pd.DataFrame) -> list[NightSeries]:
    metrics, statistics = ([*dict.fromkeys(words)] for words in zip(*STUDY_TABLE, strict=True))
    values = queries.measurements(reader, filters, metrics, statistics).to_pandas()
    lines = pd.DataFrame(list(STUDY_TABLE), columns=["metric", "statistic"])
    return series_over_nights(cells, values.merge(lines, on=["metric", "statistic"]))


def accepted(root: Path) -> tuple[AcceptedNight, ...]:
    """Return the nights that people accepted, in the order in which they said so."""
    return tuple(
        AcceptedNight(
            night=str(event.target.night), why=event.text, by=event.author, at=event.at,
            study=event.target.study, series=event.target.series,
        )
        for event in annotations.accepted(root)
    )  # fmt: skip


# --- The trend as a value: every series judged, worst first, with its words.


_RANK: dict[Status, int] = {REGRESSION: 0, OPEN: 1, FINE: 2}
#: What may tell two series apart whose names are the same.
_TOLD = [name for name in SERIES_FIELDS if name not in ("model", "gpu", "arm_label", "dataset")]


@dataclass(frozen=True, slots=True)
class TrendLine:
    """One series, its figures in ``assessed``. ``since``: the night since which it is worse, ``last_before``
    the one before; ``said``: all of it in sentences; ``gain``: what became of an arm's gain over the
    baseline, None for any other series. ``about``: the facts that tell this series from every other;
    ``days``: of the nights, without versions, newest first. What ends in ``_text`` is for a table; it is
    empty where there is nothing to say."""

    name: str
    metric: str
    status: Status
    why: str
    said: str
    change: str
    interval: str
    budget_text: str
    against: str
    since: str | None
    since_text: str
    last_before: str | None
    changed_text: str
    drift: SeriesDrift | None
    drift_text: str
    nights: int
    days: tuple[str, ...]
    about: tuple[tuple[str, object], ...]
    study: str | None
    arm: str
    evidence: str | None
    evidence_text: str
    assessed: Assessment
    gain: str | None

    @property
    def table_cells(self) -> tuple[str, ...]:
        """What a row of a table begins with: series, metric, change, 95 % interval, budget, since."""
        return (
            self.name, self.metric, self.change, self.interval, self.budget_text, self.since_text,
        )  # fmt: skip

    @property
    def points(self) -> tuple[RunPoint, ...]:
        """The nights as a run chart draws them, oldest first."""
        return points(self.assessed)


@dataclass(frozen=True, slots=True)
class Trend:
    """All series, worst first; ``headline``, ``summary``: what happened, in a line and in more.

    ``few``: settings with fewer nights than can be judged, beyond those in ``lines``;
    ``origins``: what was stated of where the runs come from, a sentence each."""

    status: Status
    lines: tuple[TrendLine, ...]
    headline: str
    summary: str
    few: int = 0
    origins: tuple[str, ...] = ()

    @property
    def badges(self) -> tuple[str, ...]:
        """What a reader must know about the origin of the numbers; often nothing."""
        return tuple(sorted({badge(line.evidence) for line in self.judged} - {""}))

    @property
    def judged(self) -> tuple[TrendLine, ...]:
        """The series of which something is known: how they changed, or that they were accepted."""
        return tuple(
            line
            for line in self.lines
            if line.nights >= LEAST_NIGHTS
            and (line.assessed.accepted or line.assessed.improvement is not None)
        )


def trend(
    series: Sequence[NightSeries],
    budgets: Budgets,
    accepted: Iterable[AcceptedNight] = (),
    few: int = 0,
    origins: tuple[str, ...] = (),
) -> Trend:
    """Judge every series against what it may lose and what was accepted; ``few``, ``origins``: see
    ``Trend``. Left out are gains that stand, and those of arms that are told to be slower themselves."""
    assessments = assess(series, budgets, accepted)
    slower = {
        _line_of(assessment)
        for assessment in assessments
        if assessment.status == REGRESSION and assessment.series.over is None
    }
    shown = [
        assessment
        for assessment in assessments
        if assessment.series.over is None
        or (assessment.status == REGRESSION and _line_of(assessment) not in slower)
    ]
    lines = tuple(
        map(
            _line,
            sorted(
                shown,
                key=lambda assessment: (
                    _RANK[assessment.status], assessment.series.over is not None,
                    inf if assessment.improvement is None else assessment.improvement,
                ),
            ),
        )
    )  # fmt: skip
    few += len({id(line.assessed.series.about) for line in lines if line.nights < LEAST_NIGHTS})
    status = worst([line.status for line in lines])
    return Trend(status, lines, _headline(lines, few), _summary(lines, few), few, origins)


def _line_of(assessment: Assessment) -> tuple[int, str, str]:
    return id(assessment.series.about), assessment.series.metric, assessment.series.statistic


def watch(
    watched: WatchedSeries, budgets: Budgets, accepted: Iterable[AcceptedNight] = ()
) -> Trend:
    """Judge the series that have enough nights."""
    return trend(watched.series, budgets, accepted, watched.few, watched.origins)


def names(series: Sequence[NightSeries]) -> list[str]:
    """Return a name for each series that no other series of the same metric has."""
    times = Counter((each.line, each.name) for each in series)
    seen: Counter[tuple[str, str]] = Counter()
    named = []
    for each in series:
        name = each.name
        if times[each.line, name] > 1:
            facts = (f"{x.replace('_', ' ')} {each.about[x]}" for x in _TOLD if each.about.get(x))
            name = f"{name} ({', '.join(facts)})"
        seen[each.line, name] += 1
        again = seen[each.line, name]
        named.append(name if again == 1 else f"{name} ({again})")
    return named


def _headline(lines: Sequence[TrendLine], few: int) -> str:
    long = [line for line in lines if line.nights >= LEAST_NIGHTS]
    if not long:
        return words.TOO_FEW if few else words.NOTHING
    worse = [line for line in long if line.status == REGRESSION]
    if worse:
        # Which series is worst: `Output throughput of eagle3 K=3 on code is 11.1 % worse since
        # 2026-11-07, with …`.
        first, others = worse[0], len(worse) - 1
        dataset = first.assessed.series.about.get("dataset") or "an unknown dataset"
        sentence = (
            f"{first.metric} of {first.arm} on {dataset} is {size(first.assessed.improvement or 0.0)} worse since "
            f"{first.since}"
        )
        if first.gain:
            sentence = f"{first.gain[:1].upper()}{first.gain[1:]} ({first.metric}, {dataset}), since {first.since}"
        more = f"; {others:,} more of {len(long):,} watched figures got worse" if others else ""
        # Whose setting it is says its name.
        changed = words.through(first.assessed.changed).replace("server_args.", "")
        return f"{sentence}, {changed}{more}"
    every, since = f"{len(long):,} watched figures", min(line.days[-1] for line in long)
    unsettled = sum(line.status == OPEN for line in long)
    if unsettled:
        return (
            f"Nothing is shown to have got worse since {since}, but too little is known of "
            f"{unsettled:,} of {every}"
        )
    drifting = sum(line.drift is not None and line.drift.total < 0 for line in long)
    if drifting:
        return (
            f"Nothing got worse by more than is fine since {since}, but {drifting:,} of {every} slowly "
            "get worse"
        )
    return f"Nothing got worse since {since} by more than is fine, in any of {every}"


def _summary(lines: Sequence[TrendLine], few: int) -> str:
    if not lines:
        return words.few(few)
    counts = Counter(line.status for line in lines if line.nights >= LEAST_NIGHTS)
    days = sorted({day for line in lines for day in line.days})
    better = sum(bool(moves) and moves[-1].low > 0 for moves in (x.assessed.moves for x in lines))
    drifts = sum(line.drift is not None for line in lines)
    parts = [f"{counts[status]:,} {status}" for status in _RANK if counts[status]]
    parts += [f"{better:,} got better"] if better else []
    parts += [f"{drifts:,} drift"] if drifts else []
    of_series = f"Of the series: {', '.join(parts)}. " if parts else ""
    span = f"{counted(len(days), 'night')}, {days[0]} to {days[-1]}."
    return f"{of_series}{span} {words.few(few)}".strip()


def _line(assessment: Assessment) -> TrendLine:
    series, first = assessment.series, assessment.since
    about, labels = series.about, [night.label for night in series.nights]
    since, evidence = None if first is None else labels[first], about.get("evidence")
    changes = "; ".join(change.sentence for change in assessment.changed)
    return TrendLine(
        name=series.name, metric=series.line, status=assessment.status,
        why=("regression of the gain: " if series.over else "") + words.WHY[assessment.reason],
        said=words.said(assessment), change=words.percent(assessment.improvement), interval=words.interval(assessment.low, assessment.high),
        budget_text=f"{assessment.budget:.1%}", against=words.against(assessment),
        since=since, since_text=since or "", last_before=labels[first - 1] if first else None,
        changed_text=changes or "nothing that is recorded",
        drift=assessment.drift, drift_text=words.drift(assessment.drift) if assessment.drift else "",
        nights=len(labels),
        days=tuple(dict.fromkeys(night.day for night in reversed(series.nights))),
        about=tuple(about.items()), study=about.get("study"),
        arm=str(about.get("arm_label") or UNKNOWN), evidence=evidence,
        evidence_text=badge(evidence) or "GPU", assessed=assessment, gain=words.gain(assessment),
    )  # fmt: skip


# --- The trend as plain values for JSON: unknown is None, nothing is NaN.


def trend_json(judged: Trend) -> dict[str, Any]:
    """Return ``status``, ``headline`` and one object for each series, worst first, as a dict for
    JSON."""
    return {
        "status": judged.status,
        "headline": judged.headline,
        "series": [_line_json(line) for line in judged.lines],
    }


def _line_json(line: TrendLine) -> dict[str, Any]:
    assessment, drift, accepted = line.assessed, line.drift, line.assessed.accepted
    return {
        "series": line.name,
        "about": {name: _without_numpy(value) for name, value in line.about},
        "metric": assessment.series.metric,
        "statistic": assessment.series.statistic,
        "line": line.metric,
        **{name: getattr(line, name) for name in ("status", "why", "said", "gain")},
        **{name: getattr(assessment, name)
           for name in ("budget", "improvement", "low", "high", "p_value")},
        "against": None if assessment.against is None else line.against,
        "first_bad": line.since,
        "last_before": line.last_before,
        "nights": line.nights,
        "changed": [
            {"field": c.field, "before": _without_numpy(c.before), "after": _without_numpy(c.after)}
            for c in assessment.changed
        ],
        "moves": msgspec.to_builtins(list(assessment.moves)),
        "drift": None if drift is None else {**asdict(drift), "said": line.drift_text},
        "accepted": None if accepted is None else {
            **asdict(accepted), "at": accepted.at.isoformat(),
        },
    }  # fmt: skip


def _without_numpy(value: Any) -> Any:
    return value.item() if hasattr(value, "item") else value


# --- One release against another, in a sentence: what the newer one did to every series.


@dataclass(frozen=True, slots=True)
class Release:
    """The series that know both releases, and what the newer did to them in a sentence."""

    effects: tuple[ReleaseEffect, ...]
    headline: str

    @property
    def lines(self) -> tuple[str, ...]:
        """The metric lines of which something is known."""
        lines = (effect.series.line for effect in self.effects if effect.improvement is not None)
        return tuple(dict.fromkeys(lines))

    def of(self, line: str) -> tuple[ReleaseEffect, ...]:
        """Return what is known of one metric line, the worst first."""
        of_line = [
            (effect.improvement, effect)
            for effect in self.effects
            if effect.series.line == line and effect.improvement is not None
        ]
        return tuple(effect for _, effect in sorted(of_line, key=lambda pair: pair[0]))


def release(series: Sequence[NightSeries], before: str, after: str) -> Release:
    """Compare the release ``after`` with ``before``."""
    effects = tuple(between_releases(series, before, after))
    if not effects:
        return Release((), f"No series was measured with both {before} and {after}.")
    verdicts = [effect.word for effect in effects]
    return Release(
        effects,
        f"{after} against {before}: {verdicts.count('better')} better, {verdicts.count('worse')} worse and "
        f"{verdicts.count('no clear difference')} without a clear difference, of "
        f"{len(effects):,} series.",
    )
