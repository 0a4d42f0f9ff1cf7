"""Whether a decision still holds for what a server does now: as values, words, JSON and as it is recorded."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import takewhile
from typing import Any, Literal

from msgspec import to_builtins

from analysis.drafts.watched import LengthChange, WatchedTraffic
from answers.decide.tables import recorded_about
from answers.decide.values import DecideQuestion, DecisionSubject
from answers.wording import UNKNOWN, TextRows, badge, bracketed, interval, known, percent
from warehouse.annotations import RecordedStanding, RecordedSubject
from warehouse.catalogue import counted, duration
from warehouse.filters import Filters
from warehouse.loads import Load

Standing = Literal["holds", "no longer holds", "cannot say"]
#: How a command ends with each, as ``draftboard gate`` does.
EXIT: dict[Standing, int] = {"holds": 0, "no longer holds": 1, "cannot say": 2}
HOLDS, NO_LONGER, CANNOT_SAY = EXIT
_STANDS: dict[str, str] = {CANNOT_SAY: "cannot be judged"}
#: Whether a step yields as many tokens as were measured.
Moved = Literal["as measured", "fewer", "more"]


@dataclass(frozen=True)
class LiveQuestion:
    """What is asked. ``decide``: which decision, with the load that it was made for; its filters name the
    arm that runs, where the counters leave that open. ``models``: what the server calls its model."""

    decide: DecideQuestion
    models: tuple[str, ...]
    watched: WatchedTraffic


@dataclass(frozen=True)
class LiveAcceptance:
    """Drafts now against those that were measured. ``rate``: accepted of drafted tokens now; ``change``: of
    the tokens of a step; ``like``: the measured traffic whose acceptance this is, where it is not the one
    decided on."""

    rate: float
    drafts: float
    change: LengthChange
    moved: Moved
    like: str | None = None


@dataclass(frozen=True)
class LiveAnswer:
    """Does the decision hold? ``why``: a clause; ``instead``: what to do, a sentence or empty.

    ``running``: the arm that is served, None where it is none that was measured; ``takes``: what the
    decision takes at this load and acceptance (``baseline``: no drafts), None: not known; ``told`` and
    ``now``: the gain of what runs as measured at this load (the smaller of two beside it), and with the
    acceptance of now (ratio), None where it was not measured.
    ``measured_at``: the measured loads that stand for the one seen: itself, or those on both sides; none
    where it lies outside them. ``config``: as a decision has it."""

    at: datetime
    standing: Standing
    why: str
    instead: str
    subject: DecisionSubject
    traffic: str
    objective: str
    running: str | None
    takes: str | None
    told: float | None
    now: float | None
    decided_for: Load
    measured_at: tuple[Load, ...]
    acceptance: LiveAcceptance | None
    watched: WatchedTraffic
    config: str | None = None

    @property
    def sentence(self) -> str:
        """The answer in a sentence or two."""
        return (
            f"{self.standing.capitalize()}: {self.why}.{f' {self.instead}' if self.instead else ''}"
        )


def live_json(answer: LiveAnswer) -> dict[str, Any]:
    """Return the answer as a dict for JSON; names and meanings only ever grow, unknown is null."""
    watched = answer.watched
    own = {name: value for name, value in vars(answer).items()
           if name not in ("watched", "decided_for", "measured_at")}  # fmt: skip
    return {
        "schema_version": 1, **to_builtins(own),
        "watched": {"seconds": watched.seconds, "restarts": watched.restarts, "k": watched.k},
        "load": {
            "in_flight": watched.in_flight, "in_flight_most": watched.in_flight_most,
            "replicas": watched.replicas, "waiting": watched.waiting, "preempted": watched.preempted,
            "decided_for": answer.decided_for.as_json(),
            "measured": [one.as_json() for one in answer.measured_at],
        },
        "sentence": answer.sentence, "exit": EXIT[answer.standing],
    }  # fmt: skip


# --- The figures behind it, a row each.


def figures(answer: LiveAnswer) -> TextRows:
    """Return what was seen beside what was decided on."""
    seen, drafts = answer.watched, answer.acceptance
    waits = f"{seen.waiting:.1f} waiting, {counted(round(seen.preempted), 'preemption')}"
    both = ", the smaller of both" if len(answer.measured_at) > 1 else ""
    rows = [
        ["arm", known(answer.running), known(answer.takes),
         "no drafts" if seen.k is None else f"{seen.k:.2f} tokens a draft"],
        ["in flight", f"{seen.in_flight:.1f}", answer.decided_for.short,
         f"up to {seen.in_flight_most:.0f} in each replica; {waits}"],
        ["gain", percent(answer.now), percent(answer.told),
         f"measured at {' and '.join(one.text for one in answer.measured_at)}{both}"
         if answer.measured_at else "not measured there"],
    ]  # fmt: skip
    if drafts is not None:
        change = drafts.change
        like = f", as on {drafts.like}" if drafts.like else ""
        what = (
            f"{percent(change.ratio - 1)} (95 %: {interval(change.low - 1, change.high - 1)}){like}; "
            f"{drafts.drafts:,.0f} drafts"
        )
        rows.insert(1, ["tokens a step", f"{change.now:.2f}", f"{change.measured:.2f}", what])
    return ["", "now", "decided on", ""], rows


def about(answer: LiveAnswer) -> str:
    """Say what was watched, for how long."""
    seen, times = answer.watched, answer.watched.restarts
    left_out = f"; {counted(times, 'restart')}, and what was counted before is left out"
    return (
        f"{known(answer.subject.model)} on {answer.traffic}, decided for {answer.decided_for.text}; "
        f"{counted(seen.replicas, 'replica')} watched for {duration(seen.seconds)}"
        f"{left_out if times else ''}{bracketed(badge(answer.subject.evidence))}"
    )


# --- As it is recorded, and what Trends tells of what was.


def recorded(answer: LiveAnswer) -> RecordedStanding:
    """Return the answer as it is recorded."""
    drafts = answer.acceptance
    return RecordedStanding(
        answer.at, recorded_about(answer.subject, answer.traffic, answer.objective),
        answer.standing, answer.sentence, answer.running, answer.takes,
        answer.watched.in_flight, None if drafts is None else drafts.change.now,
        None if drafts is None else drafts.change.measured, answer.now,
    )  # fmt: skip


def chosen(
    every: Sequence[RecordedStanding], filters: Filters
) -> tuple[tuple[RecordedStanding, ...], ...]:
    """Return the records that the filters keep, by what they are about: the subject watched last first, of
    each the newest first."""
    found: dict[RecordedSubject, list[RecordedStanding]] = {}
    for one in sorted(every, key=lambda record: record.at, reverse=True):
        values = {name: getattr(one.about, name) or UNKNOWN for name in ("study", "model", "gpu")}
        day = f"{one.at:%Y-%m-%d}"
        kept = all(value in (getattr(filters, name) or (value,)) for name, value in values.items())
        if kept and (filters.since or day) <= day <= (filters.until or day):
            found.setdefault(one.about, []).append(one)
    return tuple(map(tuple, found.values()))


def headline(records: Sequence[RecordedStanding]) -> str:
    """Say how the decision on one subject stands in production, and since when (records newest
    first)."""
    last = records[0]
    since = [*takewhile(lambda one: one.standing == last.standing, records)][-1]
    return (
        f"In production the decision {_STANDS.get(last.standing, last.standing)} since "
        f"{since.at:%Y-%m-%d %H:%M} UTC ({counted(len(records), 'look')}): {known(last.about.model)} on "
        f"{last.about.traffic}{bracketed(badge(last.about.evidence))}"
    )


def record_rows(records: Sequence[RecordedStanding]) -> TextRows:
    """Return a row per look."""
    header = ["at (UTC)", "standing", "arm", "takes", "in flight", "tokens a step", "measured", "gain",
              "told"]  # fmt: skip
    return header, [
        [
            f"{one.at:%Y-%m-%d %H:%M}", one.standing, known(one.running), known(one.takes),
            f"{one.in_flight:.1f}",
            *("" if x is None else f"{x:.2f}" for x in (one.length, one.measured_length)),
            percent(one.gain), one.sentence,
        ]
        for one in records
    ]  # fmt: skip
