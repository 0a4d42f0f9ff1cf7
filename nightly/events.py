"""What of a night is worth a message, and the message: regressions, drifts, failures, a spent budget,
another decision."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Literal
from urllib.parse import urlencode

from answers.wording import size
from nightly.judged import Drift, Judged, identity
from nightly.words import cells, changes, cost, counted, sized, troubles
from warehouse.nights import NightSummary, Regression

Kind = Literal["failure", "warning", "info"]
_KINDS: tuple[Kind, ...] = ("failure", "warning", "info")
#: Lines of a message; the rest is behind its link.
MOST = 5


@dataclass(frozen=True)
class Event:
    """One message. ``key``: what it is about; a key is told once. ``series``: those it announces."""

    key: str
    kind: Kind
    title: str
    body: str
    series: tuple[str, ...] = ()


@dataclass(frozen=True)
class Told:
    """What people were told before: keys of events, and series -> the night in which it was
    told."""

    keys: frozenset[str]
    series: Mapping[str, str]


def events(night: NightSummary, judged: Judged | None, told: Told, link: str) -> list[Event]:
    """Return the events of a night that nobody was told of yet. ``link``: address of the
    dashboard."""
    worse = new_regressions(judged, told)
    found = [_regressed(night, one, link) for one in _by_start(worse)]
    drifts = new_drifts(judged, told)
    if drifts:
        found.append(_drifted(night, drifts, link))
    if any(stage.status == "failed" for stage in night.stages):
        found.append(_failed(night, link))
    if night.stage("run").status == "stopped":
        found.append(_stopped(night, link))
    if night.redecided:
        found.append(_redecided(night, link))
    return [event for event in found if event.key not in told.keys]


def new_regressions(judged: Judged | None, told: Told) -> list[Regression]:
    """Return regressions that were not told, or whose series became worse in a night after it was
    told."""
    known = () if judged is None else judged.regressions
    return [one for one in known if one.since[:10] > told.series.get(identity(one), "")]


def new_drifts(judged: Judged | None, told: Told) -> list[Drift]:
    """Return series that drift downwards and that nobody was told of since the drift began."""
    known = () if judged is None else judged.drifts
    return [one for one in known if one.since[:10] > told.series.get(one.key, "")]


def digest(night: NightSummary, found: Sequence[Event], link: str) -> Event:
    """Return one message for a whole night, whether something happened or not."""
    title = f"Draftboard: {night.study}, night {night.night}: {night.outcome}"
    parts = [f"{cells(night)}; {cost(night)}.", *(f"{e.title}\n{e.body}" for e in found)]
    parts += [] if found else ["Nothing new happened.", *_linked(_nights_link(night, link))]
    kinds = {event.kind for event in found}
    worst: Kind = next((kind for kind in _KINDS if kind in kinds), "info")
    series = tuple(name for event in found for name in event.series)
    return Event(f"digest {night.night}", worst, title, "\n\n".join(parts), series)


def _by_start(found: Iterable[Regression]) -> list[list[Regression]]:
    """Group the regressions that began in one night: most likely they have one cause, so they make
    one message."""
    ordered = sorted(found, key=lambda one: (one.since, one.improvement))
    return [list(group) for _, group in groupby(ordered, key=lambda one: one.since)]


def _regressed(night: NightSummary, found: list[Regression], link: str) -> Event:
    worst = found[0]
    what = worst.gain or f"{worst.line} {size(worst.improvement)} worse"
    title = f"Draftboard: {night.study}: {what} since {worst.since} ({len(found):,} series)"
    lines = [f"{one.series}: {sized(one)}" for one in found[:MOST]]
    lines += [f"and {len(found) - MOST:,} more"] if len(found) > MOST else []
    lines += [
        f"Since {worst.since}; before that, up to {worst.before or 'unknown'}, it was not so. "
        "Negative is worse; in brackets the 95 % interval.",
        f"Changed in the configuration: {changes(worst.changed)}",
        *_linked(_trends_link(night, worst, link)),
    ]
    series = tuple(identity(one) for one in found)
    key = f"regression {night.night} {worst.since}"
    return Event(key, "failure", title, "\n".join(lines), series)


def _drifted(night: NightSummary, found: list[Drift], link: str) -> Event:
    title = f"Draftboard: {night.study}: {len(found):,} series drift downwards"
    lines = [*_some([one.said for one in found]), *_linked(_trends_link(night, found[0], link))]
    series = tuple(one.key for one in found)
    return Event(f"drift {night.night}", "warning", title, "\n".join(lines), series)


def _failed(night: NightSummary, link: str) -> Event:
    title = f"Draftboard: {night.study}, night {night.night}: something failed"
    lines = [f"{cells(night)}; {cost(night)}.", *_some(troubles(night))]
    body = "\n".join([*lines, *_linked(_nights_link(night, link))])
    return Event(f"failed {night.night}", "failure", title, body)


def _stopped(night: NightSummary, link: str) -> Event:
    title = f"Draftboard: {night.study}, night {night.night}: not everything was measured"
    lines = [f"{cells(night)}; {cost(night)}.", night.stage("run").said]
    body = "\n".join([*lines, *_linked(_nights_link(night, link))])
    return Event(f"stopped {night.night}", "warning", title, body)


def _redecided(night: NightSummary, link: str) -> Event:
    title = f"Draftboard: {night.study}, night {night.night}: another decision"
    address = f"{link}/decide?{urlencode({'study': night.study})}" if link else ""
    body = "\n".join([*_some(list(night.redecided)), *_linked(address)])
    return Event(f"decided {night.night}", "info", title, body)


def _some(lines: list[str]) -> list[str]:
    more = [f"and {len(lines) - MOST} more"] if len(lines) > MOST else []
    return lines[:MOST] + more


def _trends_link(night: NightSummary, one: Regression | Drift, link: str) -> str:
    words = {"study": night.study, "dataset": one.about.get("dataset"), "line": one.line}
    return f"{link}/trends?{urlencode({k: v for k, v in words.items() if v})}" if link else ""


def _nights_link(night: NightSummary, link: str) -> str:
    words = {"last_nights": "true", "study": night.study}
    return f"{link}/trends?{urlencode(words)}" if link else ""


def _linked(address: str) -> list[str]:
    return [address] if address else []


def summary_line(found: Sequence[Event]) -> str:
    """Return how many messages there are, ``2 messages``, for the log of the stage."""
    return counted(len(found), "message")
