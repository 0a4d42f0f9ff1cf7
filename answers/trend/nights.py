"""The nights of ``draftboard nightly`` in words: how each ended, what changed, what failed."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from answers.trend.words import interval, percent
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


@dataclass(frozen=True, slots=True)
class NightRow:
    """One night in words, a table's row."""

    night: str
    study: str
    outcome: str
    good: str
    took: str
    worse: str
    changed: str
    failed: str
    cost: str
    began: str


@dataclass(frozen=True, slots=True)
class NightPart:
    """Something that a night holds: its title, the names of its columns, its rows."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


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


def row(night: NightSummary) -> NightRow:
    """Return one night as a row of a table."""
    worse = ""
    if night.regressions and night.verdict is not None:
        worst = f"{night.regressions[0].line} {percent(night.regressions[0].improvement)}"
        worse = f"{night.verdict.regressions:,} series, worst {worst}"
    return NightRow(
        night.night, night.study, night.outcome, f"{night.cells.good} of {night.cells.planned}",
        duration(night.seconds), worse, _first_few(change.sentence for change in night.changed),
        _first_few(troubles(night)), "" if night.cost_usd is None else f"{night.cost_usd:,.2f}",
        f"{night.started:%Y-%m-%d %H:%M}",
    )  # fmt: skip


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


def parts(night: NightSummary) -> tuple[NightPart, ...]:
    """Return what became worse, drifts, changed, failed and ran in a night; parts without a row are
    left out."""
    worse = tuple(
        (
            one.series, one.line, percent(one.improvement), interval(one.low, one.high), one.since,
            _first_few(change.sentence for change in one.changed) or "nothing that is recorded",
        )
        for one in night.regressions
    )  # fmt: skip
    changed = tuple(
        (c.field, *("not stated" if x is None else str(x) for x in (c.before, c.after)))
        for c in night.changed
    )
    ran = tuple((s.name, s.status, duration(s.seconds), s.said) for s in night.stages)
    every = (
        NightPart("What got worse",
                  ("series", "metric", "change", "95 % interval", "since", "changed with it"), worse),
        NightPart("What drifts", ("series",), tuple((said,) for said in night.drifts)),
        NightPart("Changed since the night before", ("setting", "before", "after"), changed),
        NightPart("Cells that failed", ("cell", "diagnosis"),
                  tuple((f.cell, f.said) for f in night.failures)),
        NightPart("What ran", ("stage", "status", "took", "why"), ran),
    )  # fmt: skip
    return tuple(part for part in every if part.rows)


def _first_few(parts: Iterable[str]) -> str:
    told = list(parts)
    more = f"; and {len(told) - _LISTED} more" if len(told) > _LISTED else ""
    return "; ".join(told[:_LISTED]) + more
