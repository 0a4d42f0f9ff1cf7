"""A night in words: what the gate said, the same in the summary, in messages, in the history and on the terminal."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC
from pathlib import Path
from typing import Any

from answers.trend import words as trend
from answers.wording import markdown as as_markdown
from nightly.nights import plain, write_whole
from warehouse.beside import NIGHT_STAMP, Changed, NightSummary, Regression, Verdict, nights_folder
from warehouse.secrets import scrub
from warehouse.store_cache import changed_aside

# --- What `draftboard gate --json` said, as a summary keeps it and a message tells it.


#: Regressions that a summary holds; the verdict counts them all.
MOST = 50


@dataclass(frozen=True)
class Drift:
    """A series that drifts downwards ``since`` a night; ``key``: what it is remembered by."""

    key: str
    line: str
    about: dict[str, Any]
    since: str
    said: str


@dataclass(frozen=True)
class Judged:
    """What the gate answered. ``regressions``: all, the worst first; ``status``: of every series,
    by its identity."""

    verdict: Verdict
    regressions: tuple[Regression, ...]
    status: dict[str, str]
    drifts: tuple[Drift, ...] = ()

    @property
    def summary(self) -> dict[str, Any]:
        """Return what a night's summary keeps of the judgement."""
        return {
            "verdict": self.verdict,
            "regressions": self.regressions[:MOST],
            "drifts": tuple(one.said for one in self.drifts[:MOST]),
        }


def read(path: Path) -> Judged | None:
    """Read the answer of the gate; None where it did not come to one."""
    try:
        said = json.loads(path.read_bytes())
        rows = said["series"]
        worse = [_regression(row) for row in rows if row["status"] == "regression"]
        status = {_name(row): row["status"] for row in rows}
        drifts = [_drift(row) for row in rows if (row.get("drift") or {}).get("total", 0) < 0]
        verdict = _verdict(said["status"], [row["status"] for row in rows])
    except (OSError, ValueError, KeyError, TypeError):
        return None
    worst = tuple(sorted(worse, key=lambda one: one.improvement))
    return Judged(verdict, worst, status, tuple(drifts))


def identity(one: Regression) -> str:
    """Return what makes a series the same from night to night."""
    return _name(one.model_dump())


def _name(row: dict[str, Any]) -> str:
    gain = ["gain"] if row.get("gain") else []
    return json.dumps([row["about"], row["metric"], row["statistic"], *gain], sort_keys=True)


def _verdict(status: Any, found: list[str]) -> Verdict:
    return Verdict(
        status=status,
        series=len(found),
        fine=found.count("fine"),
        regressions=found.count("regression"),
        unsettled=found.count("not enough evidence"),
    )


def _drift(row: dict[str, Any]) -> Drift:
    line, known = row["line"], row["drift"]
    said = f"{row['series']}: {line} {known['said']}"
    return Drift(f"drift {_name(row)}", line, row["about"], known["since"], said)


def _regression(row: dict[str, Any]) -> Regression:
    return Regression(
        series=row["series"],
        about=row["about"],
        metric=row["metric"],
        statistic=row["statistic"],
        line=row["line"],
        gain=row.get("gain"),
        improvement=row["improvement"],
        low=row["low"],
        high=row["high"],
        budget=row["budget"],
        since=row["first_bad"],
        before=row["last_before"],
        changed=tuple(
            Changed(field=c["field"], before=plain(c["before"]), after=plain(c["after"]))
            for c in row["changed"]
        ),
    )


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


def sized(one: Regression) -> str:
    """Write a metric with its change, ``Output throughput -62.1 % (95 %: -65.9 % to -58.0 %)``, or
    what became of a gain."""
    return one.gain or trend.sized(one.line, one.improvement, one.low, one.high)


def changes(found: Iterable[Changed]) -> str:
    """Return the changes in one line."""
    return "; ".join(change.sentence for change in found) or UNRECORDED


def duration(seconds: float) -> str:
    """Write a duration: ``40 s``, ``12 min``, ``3.5 h``."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def counted(number: int, what: str) -> str:
    """Return a count with its noun: ``1 cell``, ``2,000 cells``."""
    return f"{number:,} {what}" + ("" if number == 1 else "s")


def cells(night: NightSummary) -> str:
    """Say what became of the cells: ``22 of 24 cells good, 1 failed, 1 not measured``."""
    known = night.cells
    parts = [f"{known.good} of {counted(known.planned, 'cell')} good"]
    parts += [f"{known.failed} failed"] if known.failed else []
    parts += [f"{known.missing} not measured"] if known.missing else []
    return ", ".join(parts)


def cost(night: NightSummary) -> str:
    """Say what the night cost: ``measured for 3.5 h, 12.30 USD``; without a price only the time."""
    spent = f"measured for {duration(night.measuring_hours * 3600)}"
    return spent if night.cost_usd is None else f"{spent}, {night.cost_usd:,.2f} USD"


def troubles(night: NightSummary) -> list[str]:
    """Return a line for each stage that did not do its work, then for each cell that failed."""
    stages = [
        f"{stage.name} {stage.status}: {stage.said}"
        for stage in night.stages
        if stage.status in ("failed", "stopped")
    ]
    return stages + [f"{failure.cell}: {failure.said}" for failure in night.failures]


def markdown(night: NightSummary) -> str:
    """Return the summary for people: what happened first, the stages last."""
    lines = [f"# {night.study}, night {night.night}: {night.outcome}", ""]
    lines += [f"{cells(night)}; {cost(night)}. {_gate(night)}", ""]
    lines += _section("Became worse", [_worse(one) for one in night.regressions])
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
    return "\n".join([*lines, "", f"{times}{ended}{calls}.", *_undelivered(night), ""])


def _undelivered(night: NightSummary) -> list[str]:
    if not night.undelivered:
        return []
    return [f"{counted(night.undelivered, 'message')} could not be delivered yet."]


def _gate(night: NightSummary) -> str:
    known = night.verdict
    if known is None:
        return "The gate has not judged it."
    return (
        f"Of {known.series:,} series: {known.regressions:,} worse, {known.unsettled:,} not settled, "
        f"{known.fine:,} fine."
    )


def _worse(one: Regression) -> str:
    against = f", against nights up to {one.before}" if one.before else ""
    return f"{one.series}: {sized(one)} since {one.since}{against}; changed: {changes(one.changed)}"


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
