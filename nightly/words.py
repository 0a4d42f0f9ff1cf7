"""A night in words: what the gate judged, the same in the summary, in messages, in the history and on the terminal."""

import json
from collections.abc import Iterable, Sequence
from datetime import UTC
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from answers.trend import words as trend_words
from answers.trend.nights import troubles
from answers.wording import markdown as as_markdown
from nightly.nights import plain, write_whole
from warehouse.beside import (
    NIGHT_STAMP,
    Changed,
    NightSummary,
    Regression,
    StrictPart,
    Verdict,
    nights_folder,
)
from warehouse.catalogue import counted, duration
from warehouse.secrets import scrub
from warehouse.store_cache import changed_aside

if TYPE_CHECKING:
    from answers.trend.answer import Trend, TrendLine

# --- What the gate judged, as a summary keeps it and a message tells it.


#: Regressions that a summary holds; the verdict counts them all.
MOST = 50


class Decline(StrictPart):
    """A series that drifts downwards ``since`` a night; ``key``: what it is remembered by."""

    key: str
    line: str
    about: dict[str, Any]
    since: str
    said: str


class Judgement(StrictPart):
    """What the gate says of the nights. ``regressions``: all, the worst first."""

    verdict: Verdict
    regressions: tuple[Regression, ...] = ()
    drifts: tuple[Decline, ...] = ()

    @property
    def summary(self) -> dict[str, Any]:
        """What a night's summary keeps of the judgement."""
        return {
            "verdict": self.verdict,
            "regressions": self.regressions[:MOST],
            "drifts": tuple(drift.said for drift in self.drifts[:MOST]),
        }


def read_judgement(path: Path) -> Judgement | None:
    """Read what the gate judged; None where it did not come to it."""
    try:
        return Judgement.model_validate_json(path.read_bytes())
    except (OSError, ValidationError):
        return None


def judgement(trend: "Trend") -> Judgement:
    """Return what a night keeps of a trend."""
    statuses = [line.status for line in trend.lines]
    worse = [_regression(line) for line in trend.lines if line.status == "regression"]
    falling = [line for line in trend.lines if line.drift is not None and line.drift.total < 0]
    return Judgement(
        verdict=Verdict(
            status=trend.status, series=len(statuses), fine=statuses.count("fine"),
            regressions=len(worse), unsettled=statuses.count("not enough evidence"),
        ),
        regressions=tuple(sorted(worse, key=lambda regression: regression.improvement)),
        drifts=tuple(map(_decline, falling)),
    )  # fmt: skip


def _decline(line: "TrendLine") -> Decline:
    assert line.drift is not None
    about, series = _about(line), line.assessed.series
    return Decline(
        key=f"drift {_key(about, series.metric, series.statistic, line.gain)}",
        line=line.metric, about=about, since=line.drift.since,
        said=f"{line.name}: {line.metric} {line.drift_text}",
    )  # fmt: skip


def _regression(line: "TrendLine") -> Regression:
    assessed = line.assessed
    changed = [
        Changed(
            field=change.field,
            before=plain(change.before),
            after=plain(change.after),
        )
        for change in line.changed
    ]
    return Regression.model_validate({
        "series": line.name, "about": _about(line), "metric": assessed.series.metric,
        "statistic": assessed.series.statistic, "line": line.metric, "gain": line.gain,
        "improvement": assessed.improvement, "low": assessed.low, "high": assessed.high,
        "budget": line.budget, "since": line.since, "before": line.last_before,
        "changed": changed,
    })  # fmt: skip


def _about(line: "TrendLine") -> dict[str, Any]:
    return {name: plain(value) for name, value in line.about}


def identity(regression: Regression) -> str:
    """Return what makes a series the same from night to night."""
    about, metric = regression.about, regression.metric
    return _key(about, metric, regression.statistic, regression.gain)


def _key(about: dict[str, Any], metric: str, statistic: str, gain: str | None) -> str:
    return json.dumps([about, metric, statistic, *(["gain"] if gain else [])], sort_keys=True)


# --- A night in words: the same in the summary, in messages and on the terminal.


#: What each outcome means, and its exit status.
EXIT = {"fine": 0, "regression": 1, "not enough evidence": 2, "incomplete": 3, "failed": 4}
UNRECORDED = "nothing that is recorded"


def outcome_of(night: NightSummary) -> str:
    """Say what became of a night that has gone through all its stages.

    A regression comes first, since it was measured; then a stage that failed, then the budget.
    """
    if night.verdict is not None and night.verdict.status == "regression":
        return "regression"
    if any(stage.status == "failed" for stage in night.stages):
        return "failed"
    if night.stage("run").status == "stopped":
        return "incomplete"
    return "failed" if night.verdict is None else night.verdict.status


def sized(regression: Regression) -> str:
    """Write a metric with its change, ``Output throughput -62.1 % (95 %: -65.9 % to -58.0 %)``, or
    what became of a gain."""
    found = regression
    return found.gain or trend_words.sized(found.line, found.improvement, found.low, found.high)


def changes(found: Iterable[Changed]) -> str:
    """Return the changes in one line."""
    return "; ".join(change.sentence for change in found) or UNRECORDED


def cells(night: NightSummary) -> str:
    """Say what became of the cells: ``22 of 24 cells good, 1 failed, 1 not measured``."""
    count = night.cells
    parts = [f"{count.good} of {counted(count.planned, 'cell')} good"]
    parts += [f"{count.failed} failed"] if count.failed else []
    parts += [f"{count.missing} not measured"] if count.missing else []
    return ", ".join(parts)


def cost(night: NightSummary) -> str:
    """Say what the night cost: ``measured for 3.5 h, 12.30 USD``; without a price only the time."""
    spent = f"measured for {duration(night.measuring_hours * 3600)}"
    return spent if night.cost_usd is None else f"{spent}, {night.cost_usd:,.2f} USD"


def markdown(night: NightSummary) -> str:
    """Return the summary for people: what happened first, the stages last."""
    verdict, gate = night.verdict, "The gate has not judged it."
    if verdict is not None:
        gate = (
            f"Of {verdict.series:,} series: {verdict.regressions:,} worse, "
            f"{verdict.unsettled:,} not settled, {verdict.fine:,} fine."
        )
    lines = [f"# {night.study}, night {night.night}: {night.outcome}", ""]
    lines += [f"{cells(night)}; {cost(night)}. {gate}", ""]
    lines += _section("Became worse", list(map(_worse, night.regressions)))
    lines += _section("Drifts", night.drifts)
    lines += _section("Changed since the night before", [c.sentence for c in night.changed])
    lines += _section("Decided otherwise than before", night.redecided)
    lines += _section("What is decided", night.decided)
    lines += _section("Failed or missing", troubles(night))
    lines += ["| stage | status | took |", "|---|---|---|"]
    lines += [f"| {s.name} | {s.status} | {duration(s.seconds)} |" for s in night.stages]
    times = f"Began {night.started:%Y-%m-%d %H:%M} UTC"
    ended = f", ended {night.ended:%Y-%m-%d %H:%M} UTC" if night.ended else ""
    calls = f", in {night.calls} calls" if night.calls > 1 else ""
    lines += ["", f"{times}{ended}{calls}."]
    if night.undelivered:
        lines.append(f"{counted(night.undelivered, 'message')} could not be delivered yet.")
    return "\n".join([*lines, ""])


def _worse(regression: Regression) -> str:
    before = regression.before
    against = f", against nights up to {before}" if before else ""
    return (
        f"{regression.series}: {sized(regression)} since {regression.since}{against}; "
        f"changed: {changes(regression.changed)}"
    )


def _section(title: str, found: Sequence[str]) -> list[str]:
    if not found:
        return []
    return [f"## {title}", "", *(f"- {as_markdown(line)}" for line in found), ""]


# --- Writes the nights' history into the warehouse folder; ``warehouse/beside.py`` reads it.


def write(root: Path, night: NightSummary) -> Path:
    """Put a summary in place, as JSON and as Markdown; a night that goes on replaces its own."""
    night = NightSummary.model_validate(scrub(night.model_dump()))
    name = night.started.astimezone(UTC).strftime(NIGHT_STAMP)
    path = nights_folder(root) / night.study / f"{name}.json"
    write_whole(path.with_suffix(".md"), markdown(night))
    write_whole(path, night.model_dump_json(indent=1) + "\n")
    changed_aside(root, [path.with_suffix(".md"), path])
    return path
