"""Messages about a night: what is worth one, what was told and what waits, and Apprise, which sends them."""

import hashlib
import logging
import os
import re
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import groupby
from pathlib import Path
from typing import Literal
from urllib.parse import urlencode

from pydantic import AwareDatetime, ValidationError

from answers.wording import size
from nightly import words
from nightly.nights import write_whole
from nightly.words import Drift, Judged, cells, changes, cost, counted, identity, sized, troubles
from warehouse.beside import NightLimits, NightSummary, Regression, StrictPart, nights_folder
from warehouse.secrets import scrub_text

# --- What of a night is worth a message, and the message: regressions, drifts, failures, a spent budget,
# another decision.


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


# --- What people were told, and what waits to be told: kept before it is sent, so nothing is lost.
#
# A message that was delivered just before a kill may be delivered once more; none is forgotten.


FILE = ".outbox.json"
#: After so long nobody needs to hear of it any more.
KEPT = timedelta(days=7)
#: Keys of events that are remembered; a night makes a few.
_REMEMBERED = 200


class Message(StrictPart):
    """A message and the names of those that have not got it yet."""

    kind: Kind
    title: str
    body: str
    to: tuple[str, ...]
    made: AwareDatetime


class Outbox(StrictPart):
    """What was told and what waits, as the file in the warehouse's ``nights/<study>`` holds it."""

    keys: tuple[str, ...] = ()
    series: dict[str, str] = {}
    waiting: tuple[Message, ...] = ()

    @property
    def told(self) -> Told:
        """Everything that was told, or waits to be told."""
        return Told(frozenset(self.keys), self.series)


#: Sends one message to one receiver by name: None where it arrived, else why not.
Deliver = Callable[[Message, str], str | None]


def read(root: Path, study: str) -> Outbox:
    """Read the outbox of a study; a missing or damaged one is empty: rather tell twice than
    never."""
    try:
        return Outbox.model_validate_json(_file(root, study).read_bytes())
    except (OSError, ValidationError):
        return Outbox()


def write(root: Path, study: str, box: Outbox) -> None:
    """Write the outbox of a study into the warehouse."""
    write_whole(_file(root, study), box.model_dump_json(indent=1) + "\n")


def queued(box: Outbox, found: Sequence[Event], to: Sequence[str], night: str) -> Outbox:
    """Return the outbox with the messages of new events added, told in ``night``."""
    now = datetime.now(UTC)
    new = [
        Message(
            kind=event.kind, title=scrub_text(event.title), body=scrub_text(event.body),
            to=tuple(to), made=now,
        )
        for event in found
    ]  # fmt: skip
    series = box.series | {name: night for event in found for name in event.series}
    keys = (*box.keys, *(event.key for event in found))[-_REMEMBERED:]
    return Outbox(keys=keys, series=series, waiting=(*box.waiting, *new))


def deliver(box: Outbox, by: Deliver, known: Sequence[str]) -> tuple[Outbox, list[str]]:
    """Try to deliver every message that waits. Return the outbox after that, and why some could not
    be delivered.

    A receiver that is not configured any more, and a message older than KEPT, are given up.
    """
    left, problems = [], []
    for message in box.waiting:
        failed = []
        for name in (name for name in message.to if name in known):
            why = by(message, name)
            if why is not None:
                failed.append(name)
                problems.append(f"“{message.title}” could not be delivered to {name}: {why}")
        if failed and datetime.now(UTC) - message.made < KEPT:
            left.append(message.model_copy(update={"to": tuple(failed)}))
    return box.model_copy(update={"waiting": tuple(left)}), problems


def _file(root: Path, study: str) -> Path:
    return nights_folder(root) / study / FILE


# --- Messages by Apprise. Its addresses are secrets: they come from the environment and go nowhere else.


#: Addresses as Apprise knows them, separated by spaces or newlines.
VARIABLE = "DRAFTBOARD_NOTIFY_URLS"
#: Seconds for one message to one receiver, all that it needs.
_PATIENCE_S = 30
_SCHEME = re.compile(r"([a-z][a-z0-9+.-]*)://", re.IGNORECASE)
_STATUS = re.compile(r"error=(\d{3})\b")


@dataclass(frozen=True)
class Receivers:
    """The addresses by a name that may be shown: the service, and four digits that tell two apart.

    Four hexadecimal digits of a hash say next to nothing of what they stand for.
    """

    addresses: dict[str, str] = field(repr=False)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the receivers, such as ``slack-3fa1``."""
        return tuple(self.addresses)

    def deliver(self, message: Message, name: str) -> str | None:
        """Send one message: None where the service took it, else why not, without its address."""
        import apprise

        # Apprise may name an address in its log; nothing of it is shown but a status.
        logging.getLogger(apprise.logger.name).handlers = [logging.NullHandler()]
        logging.getLogger(apprise.logger.name).propagate = False
        with warnings.catch_warnings():
            # Apprise loads all its services, some of which use what Python has deprecated.
            warnings.simplefilter("ignore", DeprecationWarning)
            service = apprise.Apprise.instantiate(self.addresses[name])
        if service is None:
            return f"Apprise does not understand the address; correct it in {VARIABLE}"
        sent = apprise.Apprise(service).notify(
            body=message.body,
            title=message.title,
            notify_type=apprise.NotifyType(message.kind),
            body_format=apprise.NotifyFormat.TEXT,
            timeout=_PATIENCE_S,
        )
        return None if sent else _why(" ".join(entry.message for entry in sent.logs()))


def receivers() -> Receivers:
    """Return the receivers that the environment names; none where the variable is not set."""
    found = dict.fromkeys(os.environ.get(VARIABLE, "").split())
    return Receivers({_name(address): address for address in found})


def without_addresses() -> dict[str, str]:
    """Return the environment for the stages without the addresses: an engine has no business with
    these secrets."""
    return {name: value for name, value in os.environ.items() if name != VARIABLE}


def _name(address: str) -> str:
    scheme = _SCHEME.match(address)
    digits = hashlib.sha256(address.encode()).hexdigest()[:4]
    return f"{scheme[1].lower() if scheme else 'unknown'}-{digits}"


def _why(said: str) -> str:
    status = _STATUS.search(said)
    answer = f"it answered with status {status[1]}" if status else "it does not answer as it should"
    return f"{answer}; the next call tries again"


# --- The notify stage: the events of a night become messages, and those that wait are tried again.


@dataclass(frozen=True)
class Settings:
    """What a call of the nightly is asked for. ``gate``: options of `draftboard gate`; ``run``:
    more arguments of `draftboard run`; ``link``: address of the dashboard, without a slash at its
    end; ``echo`` gets what the stages say."""

    study: Path
    results: Path
    warehouse: Path
    echo: Callable[[str], None]
    limits: NightLimits = NightLimits()
    gate: tuple[str, ...] = ()
    open_exit: int = 2
    run: tuple[str, ...] = ()
    link: str = ""
    dry_run: bool = False
    digest: bool = False
    again: bool = field(default=False)
    """Begin another night although this one is done."""


def notify(night: NightSummary, answer: Path, settings: Settings) -> int:
    """Say what is new. Return the number of messages that could not be delivered.

    ``answer``: what the gate said. Without receivers nothing counts as told.
    """
    box = read(settings.warehouse, night.study)
    known = words.read(answer)
    found = _found(night, known, box, settings)
    if settings.dry_run:
        settings.echo(f"notify: a dry run, {summary_line(found)} would be sent\n")
        for event in found:
            settings.echo(f"--- {event.kind}: {event.title}\n{event.body}\n")
        return len(box.waiting)
    to = receivers()
    if not to.names:
        return 0
    box = queued(box, found, to.names, night.night)
    write(settings.warehouse, night.study, box)
    return flush(settings, night.study)


def flush(settings: Settings, study: str) -> int:
    """Try to deliver what waits. Return the number of messages that still wait."""
    to = receivers()
    box = read(settings.warehouse, study)
    if not box.waiting or not to.names or settings.dry_run:
        return len(box.waiting)
    box, problems = deliver(box, to.deliver, to.names)
    write(settings.warehouse, study, box)
    for problem in problems:
        settings.echo(f"notify: {problem}\n")
    return len(box.waiting)


def _found(
    night: NightSummary, known: words.Judged | None, box: Outbox, settings: Settings
) -> list[Event]:
    found = events(night, known, box.told, settings.link)
    if not settings.digest:
        return found
    one = digest(night, found, settings.link)
    return [] if one.key in box.told.keys else [one]
