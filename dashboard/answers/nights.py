"""What the Last nights page says of the nights: its sentence, its tables."""

from collections.abc import Iterable, Sequence

import pandas as pd
from streamlit import column_config as col

from answers.trend.words import interval, percent
from dashboard.components import Shown, shown
from dashboard.phrases import counted
from warehouse.filters import Filters
from warehouse.nights import NightSummary

NOTHING = "No night yet"
HOW_TO_BEGIN = (
    "A night is a fresh set of measurements of a study, taken in, judged and told of by one command "
    "for any timer. Begin one with:"
)
COMMAND = "draftboard nightly STUDY.yaml --results results"
#: What each outcome means, for those who did not set the timer.
_MEANS = {
    "fine": "nothing became worse",
    "regression": "something became worse",
    "not enough evidence": "too little was measured to say that nothing became worse",
    "incomplete": "it did not measure everything",
    "failed": "something failed",
    "unfinished": "it is at work, or was ended; the next call goes on from there",
}
COLUMNS = {
    name: col.TextColumn(name, alignment="right") for name in ("cells good", "took", "cost, USD")
}
#: Nights that can be chosen at once; the others are behind filters.
MOST = 200


def chosen(nights: Sequence[NightSummary], filters: Filters) -> tuple[NightSummary, ...]:
    """The nights of the chosen studies and days; other filters are about cells, not nights."""
    return tuple(
        night
        for night in nights
        if (not filters.study or night.study in filters.study)
        and (not filters.since or night.night[:10] >= filters.since)
        and (not filters.until or night.night[:10] <= filters.until)
    )


def headline(nights: Sequence[NightSummary]) -> str:
    """How did the last night go? ``nights``: newest first."""
    if not nights:
        return NOTHING
    last = nights[0]
    return f"Last night, {last.night}, {last.study}: {_MEANS[last.outcome]}"


def counts(nights: Sequence[NightSummary]) -> str:
    """``12 nights: 9 fine, 2 incomplete, 1 regression.``"""
    outcomes = [night.outcome for night in nights]
    parts = [f"{outcomes.count(word)} {word}" for word in _MEANS if word in outcomes]
    return f"{counted(len(nights), 'night')}: {', '.join(parts)}."


def names(nights: Sequence[NightSummary]) -> dict[str, int]:
    """A name for each night -> its place; two studies may share a date."""
    return {f"{night.night}, {night.study}": place for place, night in enumerate(nights[:MOST])}


def table(nights: Sequence[NightSummary]) -> Shown:
    """One row a night, newest first."""
    rows = [
        {
            "night": night.night,
            "study": night.study,
            "outcome": night.outcome,
            "cells good": f"{night.cells.good} of {night.cells.planned}",
            "took": _duration(night.seconds),
            "became worse": _worse(night),
            "what changed": _joined(change.sentence for change in night.changed),
            "what failed": _joined(_troubles(night)),
            "cost, USD": "" if night.cost_usd is None else f"{night.cost_usd:,.2f}",
            "began (UTC)": f"{night.started:%Y-%m-%d %H:%M}",
        }
        for night in nights
    ]
    return shown(pd.DataFrame(rows))


def _worse(night: NightSummary) -> str:
    if not night.regressions or night.verdict is None:
        return ""
    worst = night.regressions[0]
    count = night.verdict.regressions
    return f"{count:,} series, worst {worst.line} {percent(worst.improvement)}"


def sentence(night: NightSummary) -> str:
    """One night in a sentence or three."""
    known = night.cells
    ended = f" to {night.ended:%Y-%m-%d %H:%M}" if night.ended else ""
    parts = [
        f"{night.outcome.capitalize()}: {_MEANS[night.outcome]}.",
        f"{known.good} of {counted(known.planned, 'cell')} good, {known.failed} failed, "
        f"{known.missing} not measured.",
        f"From {night.started:%Y-%m-%d %H:%M}{ended} UTC, {_duration(night.seconds)} of work in "
        f"{counted(night.calls, 'call')}.",
    ]
    if night.undelivered:
        parts.append(f"{counted(night.undelivered, 'message')} could not be delivered yet.")
    return " ".join(parts)


def stages(night: NightSummary) -> Shown:
    """What ran, how long, and what it said where it did not do its work."""
    rows = [
        {"stage": s.name, "status": s.status, "took": _duration(s.seconds), "why": s.said}
        for s in night.stages
    ]
    return shown(pd.DataFrame(rows))


def regressions(night: NightSummary) -> Shown:
    """What became worse, the worst first."""
    rows = [
        {
            "series": one.series,
            "metric": one.line,
            "change": percent(one.improvement),
            "95 % interval": interval(one.low, one.high),
            "since": one.since,
            "changed with it": _joined(change.sentence for change in one.changed)
            or "nothing that is recorded",
        }
        for one in night.regressions
    ]
    return shown(pd.DataFrame(rows))


def drifts(night: NightSummary) -> Shown:
    """What becomes slower little by little."""
    return shown(pd.DataFrame([{"series": said} for said in night.drifts]))


def changed(night: NightSummary) -> Shown:
    """What is set otherwise than in the night before."""
    rows = [
        {"setting": c.field, "before": _said(c.before), "after": _said(c.after)}
        for c in night.changed
    ]
    return shown(pd.DataFrame(rows))


def failures(night: NightSummary) -> Shown:
    """The cells that failed, and why."""
    return shown(pd.DataFrame([{"cell": f.cell, "diagnosis": f.said} for f in night.failures]))


def _troubles(night: NightSummary) -> list[str]:
    stages_ = [
        f"{stage.name} {stage.status}: {stage.said}"
        for stage in night.stages
        if stage.status in ("failed", "stopped")
    ]
    return stages_ + [f"{failure.cell}: {failure.said}" for failure in night.failures]


def _joined(parts: Iterable[str]) -> str:
    """At most three of them; the rest is said by its number."""
    told = list(parts)
    more = f"; and {len(told) - 3} more" if len(told) > 3 else ""
    return "; ".join(told[:3]) + more


def _said(value: object) -> str:
    return "not stated" if value is None else str(value)


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
