"""The nights of ``draftboard nightly`` in words: how each ended, what changed, what failed."""

from collections.abc import Iterable, Sequence

from answers.trend.words import interval, percent
from answers.wording import TextRows
from warehouse.beside import NightSummary
from warehouse.catalogue import counted, duration
from warehouse.filters import Filters

HOW_TO_BEGIN = (
    "A night is a fresh set of measurements of a study, taken in, judged and told of by one command "
    "for any timer. Begin one with:"
)
COMMAND = "draftboard nightly STUDY.yaml --results results"
#: What each outcome means, for those who did not set the timer.
_MEANS = {
    "fine": "nothing got worse",
    "regression": "something got worse",
    "not enough evidence": "too little was measured to say that nothing got worse",
    "incomplete": "it did not measure everything",
    "failed": "something failed",
    "unfinished": "it is at work, or was ended; the next call goes on from there",
}
_LISTED = 3


def chosen(nights: Sequence[NightSummary], filters: Filters) -> tuple[NightSummary, ...]:
    """Return the nights of the chosen studies and days; other filters are about cells, not
    nights."""
    return tuple(
        night
        for night in nights
        if (not filters.study or night.study in filters.study)
        and (not filters.since or night.night[:10] >= filters.since)
        and (not filters.until or night.night[:10] <= filters.until)
    )


def headline(nights: Sequence[NightSummary]) -> str:
    """Say how the last night went. ``nights``: newest first."""
    if not nights:
        return "Last nights: none yet"
    last = nights[0]
    return f"Last night, {last.night}, {last.study}: {_MEANS[last.outcome]}"


def counts(nights: Sequence[NightSummary]) -> str:
    """Count the nights and what became of them: ``12 nights: 9 fine, 2 incomplete, 1
    regression.``"""
    outcomes = [night.outcome for night in nights]
    parts = [f"{outcomes.count(word)} {word}" for word in _MEANS if word in outcomes]
    return f"{counted(len(nights), 'night')}: {', '.join(parts)}."


def night_rows(nights: Sequence[NightSummary]) -> TextRows:
    """Return a row per night: how it ended, what got worse, changed and failed, what it cost."""
    header = ["night", "study", "outcome", "cells good", "took", "got worse", "what changed", "what failed",
              "cost, USD", "began (UTC)"]  # fmt: skip
    return header, [
        [
            night.night, night.study, night.outcome, f"{night.cells.good} of {night.cells.planned}",
            duration(night.seconds), _worse(night),
            _first_few(change.sentence for change in night.changed), _first_few(troubles(night)),
            "" if night.cost_usd is None else f"{night.cost_usd:,.2f}", f"{night.started:%Y-%m-%d %H:%M}",
        ]
        for night in nights
    ]  # fmt: skip


def _worse(night: NightSummary) -> str:
    if not night.regressions or night.verdict is None:
        return ""
    worst = f"{night.regressions[0].line} {percent(night.regressions[0].improvement)}"
    return f"{night.verdict.regressions:,} series, worst {worst}"


def troubles(night: NightSummary) -> list[str]:
    """Return a line for each stage that did not do its work, then for each cell that failed."""
    stages = [
        f"{stage.name} {stage.status}: {stage.said}"
        for stage in night.stages
        if stage.status in ("failed", "stopped")
    ]
    return stages + [f"{failure.cell}: {failure.said}" for failure in night.failures]


def sentence(night: NightSummary) -> str:
    """Return one night in a sentence or three."""
    known = night.cells
    ended = f" to {night.ended:%Y-%m-%d %H:%M}" if night.ended else ""
    undelivered = f" {counted(night.undelivered, 'message')} could not be delivered yet."
    return (
        f"{night.outcome.capitalize()}: {_MEANS[night.outcome]}. "
        f"{known.good} of {counted(known.planned, 'cell')} good, {known.failed} failed, "
        f"{known.missing} not measured. "
        f"From {night.started:%Y-%m-%d %H:%M}{ended} UTC, {duration(night.seconds)} of work in "
        f"{counted(night.calls, 'call')}.{undelivered if night.undelivered else ''}"
    )


def parts(night: NightSummary) -> tuple[tuple[str, TextRows], ...]:
    """Return what became worse, drifts, changed, failed and ran in a night, each part with its title; parts
    without a row are left out."""
    worse = [
        [
            one.series, one.line, percent(one.improvement), interval(one.low, one.high), one.since,
            _first_few(change.sentence for change in one.changed) or "nothing that is recorded",
        ]
        for one in night.regressions
    ]  # fmt: skip
    changed = [
        [c.field, *("not stated" if x is None else str(x) for x in (c.before, c.after))]
        for c in night.changed
    ]
    ran = [[s.name, s.status, duration(s.seconds), s.said] for s in night.stages]
    every: dict[str, TextRows] = {
        "What got worse": (
            ["series", "metric", "change", "95 % interval", "since", "changed with it"],
            worse,
        ),
        "What drifts": (["series"], [[said] for said in night.drifts]),
        "Changed since the night before": (["setting", "before", "after"], changed),
        "Cells that failed": (["cell", "diagnosis"], [[f.cell, f.said] for f in night.failures]),
        "What ran": (["stage", "status", "took", "why"], ran),
    }
    return tuple((title, (header, rows)) for title, (header, rows) in every.items() if rows)


def _first_few(parts: Iterable[str]) -> str:
    told = list(parts)
    more = f"; and {len(told) - _LISTED} more" if len(told) > _LISTED else ""
    return "; ".join(told[:_LISTED]) + more
