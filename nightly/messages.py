"""Messages about a night: what is worth one, what was told and what waits, and Apprise, which sends them."""

import hashlib
import logging
import os
import re
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import groupby
from pathlib import Path
from typing import Literal
from urllib.parse import urlencode

from pydantic import AwareDatetime, ValidationError

from answers.trend.nights import troubles
from answers.wording import size
from nightly.nights import Decline, Judgement, cells, changes, cost, identity, sized
from warehouse.beside import NightLimits, NightSummary, Regression, StrictPart, nights_folder
from warehouse.catalogue import counted
from warehouse.secrets import scrub_text
from warehouse.storage.files import write_whole


@dataclass(frozen=True)
class Settings:
    """What a call of the nightly is asked for. ``max_regression``, ``since``: as `draftboard gate` takes
    them; ``run``: more arguments of `draftboard run`; ``link``: address of the dashboard, without a
    slash at its end; ``echo`` gets what the stages say; ``again``: begin another night although this
    one is done."""

    study: Path
    results: Path
    warehouse: Path
    echo: Callable[[str], None]
    limits: NightLimits = NightLimits()
    max_regression: tuple[str, ...] = ()
    since: datetime | None = None
    open_exit: int = 2
    run: tuple[str, ...] = ()
    link: str = ""
    dry_run: bool = False
    digest: bool = False
    again: bool = False


# --- What people were told, and what waits to be told: kept before it is sent, so nothing is lost.
#
# A message that was delivered just before a kill may be delivered once more; none is forgotten.


Kind = Literal["failure", "warning", "info"]
_KINDS: tuple[Kind, ...] = ("failure", "warning", "info")
FILE = ".outbox.json"
#: After so long nobody needs to hear of it any more.
KEPT = timedelta(days=7)


class Message(StrictPart):
    """A message and the names of those that have not got it yet."""

    kind: Kind
    title: str
    body: str
    to: tuple[str, ...]
    made: AwareDatetime


class Outbox(StrictPart):
    """What was told and what waits, as the file in the warehouse's ``nights/<study>`` holds it.
    ``keys``: of events that were told; ``series``: of each series, the night in which it was told."""

    keys: tuple[str, ...] = ()
    series: dict[str, str] = {}
    waiting: tuple[Message, ...] = ()


def read(root: Path, study: str) -> Outbox:
    """Read the outbox of a study; a missing or damaged one is empty: rather tell twice than never."""
    try:
        return Outbox.model_validate_json((nights_folder(root) / study / FILE).read_bytes())
    except (OSError, ValidationError):
        return Outbox()


def write(root: Path, study: str, box: Outbox) -> None:
    """Write the outbox of a study into the warehouse."""
    write_whole(nights_folder(root) / study / FILE, box.model_dump_json(indent=1) + "\n")


# --- What of a night is worth a message, and the message: regressions, drifts, failures, a spent budget,
# another decision.


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


def events(night: NightSummary, judged: Judgement | None, box: Outbox, link: str) -> list[Event]:
    """Return the events of a night that nobody was told of yet; a series is told again where it became
    worse in a night after it was told. ``link``: address of the dashboard."""
    judged_worse = () if judged is None else judged.regressions
    judged_drifts = () if judged is None else judged.drifts
    worse = [r for r in judged_worse if r.since[:10] > box.series.get(identity(r), "")]
    drifts = [d for d in judged_drifts if d.since[:10] > box.series.get(d.key, "")]
    # Regressions that began in one night most likely have one cause, so they make one message.
    worse.sort(key=lambda regression: (regression.since, regression.improvement))
    by_start = groupby(worse, key=lambda regression: regression.since)
    found = [_regressed(night, list(group), link) for _, group in by_start]
    of_night = f"Draftboard: {night.study}, night {night.night}"
    took = f"{cells(night)}; {cost(night)}."
    if drifts:
        found.append(Event(
            f"drift {night.night}", "warning",
            f"Draftboard: {night.study}: {len(drifts):,} series drift downwards",
            _body([*_first([drift.said for drift in drifts]), _trends_link(night, drifts[0], link)]),
            tuple(drift.key for drift in drifts),
        ))  # fmt: skip
    if any(stage.status == "failed" for stage in night.stages):
        found.append(Event(
            f"failed {night.night}", "failure", f"{of_night}: something failed",
            _body([took, *_first(troubles(night)), _nights_link(night, link)]),
        ))  # fmt: skip
    if night.stage("run").status == "stopped":
        found.append(Event(
            f"stopped {night.night}", "warning", f"{of_night}: not everything was measured",
            _body([took, night.stage("run").said, _nights_link(night, link)]),
        ))  # fmt: skip
    if night.redecided:
        found.append(Event(
            f"decided {night.night}", "info", f"{of_night}: another decision",
            _body([*_first(night.redecided), _link(link, "decide", study=night.study)]),
        ))  # fmt: skip
    return [event for event in found if event.key not in box.keys]


def digest(night: NightSummary, found: Sequence[Event], link: str) -> Event:
    """Return one message for a whole night, whether something happened or not."""
    parts = [f"{cells(night)}; {cost(night)}.", *(f"{e.title}\n{e.body}" for e in found)]
    if not found:
        parts += ["Nothing new happened.", _nights_link(night, link)]
    kinds = {event.kind for event in found}
    return Event(
        f"digest {night.night}", next((kind for kind in _KINDS if kind in kinds), "info"),
        f"Draftboard: {night.study}, night {night.night}: {night.outcome}",
        "\n\n".join(filter(None, parts)), tuple(name for event in found for name in event.series),
    )  # fmt: skip


def _regressed(night: NightSummary, found: list[Regression], link: str) -> Event:
    worst = found[0]
    what = worst.gain or f"{worst.line} {size(worst.improvement)} worse"
    lines = [
        *_first([f"{regression.series}: {sized(regression)}" for regression in found]),
        f"Since {worst.since}; before that, up to {worst.before or 'unknown'}, it was not so. "
        "Negative is worse; in brackets the 95 % interval.",
        f"Changed in the configuration: {changes(worst.changed)}",
        _trends_link(night, worst, link),
    ]
    return Event(
        f"regression {night.night} {worst.since}", "failure",
        f"Draftboard: {night.study}: {what} since {worst.since} ({len(found):,} series)",
        _body(lines), tuple(map(identity, found)),
    )  # fmt: skip


def _first(lines: Sequence[str]) -> list[str]:
    more = [f"and {len(lines) - MOST:,} more"] if len(lines) > MOST else []
    return [*lines[:MOST], *more]


def _body(lines: Sequence[str]) -> str:
    return "\n".join(filter(None, lines))


def _trends_link(night: NightSummary, series: Regression | Decline, link: str) -> str:
    dataset = series.about.get("dataset")
    return _link(link, "trends", study=night.study, dataset=dataset, line=series.line)


def _nights_link(night: NightSummary, link: str) -> str:
    return _link(link, "trends", last_nights="true", study=night.study)


def _link(base: str, page: str, **words: str | None) -> str:
    """Return the address of a page of the dashboard; empty where its address is not known."""
    chosen = {name: value for name, value in words.items() if value}
    return f"{base}/{page}?{urlencode(chosen)}" if base else ""


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
        if sent:
            return None
        status = _STATUS.search(" ".join(entry.message for entry in sent.logs()))
        how = f"answered with status {status[1]}" if status else "does not answer as it should"
        return f"it {how}; the next call tries again"


def receivers() -> Receivers:
    """Return the receivers that the environment names; none where the variable is not set."""
    found = {}
    for address in os.environ.get(VARIABLE, "").split():
        scheme = _SCHEME.match(address)
        digits = hashlib.sha256(address.encode()).hexdigest()[:4]
        found[f"{scheme[1].lower() if scheme else 'unknown'}-{digits}"] = address
    return Receivers(found)


def forget_addresses() -> None:
    """Take the addresses out of the environment of this process: an engine has no business with these
    secrets."""
    os.environ.pop(VARIABLE, None)


# --- The notify stage: the events of a night become messages, and those that wait are tried again.


def notify(night: NightSummary, judged: Judgement | None, settings: Settings) -> int:
    """Say what is new. Return the number of messages that could not be delivered.

    Without receivers nothing counts as told.
    """
    box = read(settings.warehouse, night.study)
    found = events(night, judged, box, settings.link)
    if settings.digest:
        daily = digest(night, found, settings.link)
        found = [] if daily.key in box.keys else [daily]
    if settings.dry_run:
        settings.echo(f"notify: a dry run, {counted(len(found), 'message')} would be sent\n")
        for event in found:
            settings.echo(f"--- {event.kind}: {event.title}\n{event.body}\n")
        return len(box.waiting)
    to = receivers()
    if not to.addresses:
        return 0
    write(settings.warehouse, night.study, queued(box, found, tuple(to.addresses), night.night))
    return flush(settings, night.study)


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
    # Keys of events that are remembered; a night makes a few.
    keys = (*box.keys, *(event.key for event in found))[-200:]
    return Outbox(keys=keys, series=series, waiting=(*box.waiting, *new))


def flush(settings: Settings, study: str) -> int:
    """Try to deliver every message that waits. Return the number of those that still wait.

    A receiver that is not configured any more, and a message older than KEPT, are given up.
    """
    to = receivers()
    box = read(settings.warehouse, study)
    if not box.waiting or not to.addresses or settings.dry_run:
        return len(box.waiting)
    left, problems = [], []
    for message in box.waiting:
        failed = []
        for name in (name for name in message.to if name in to.addresses):
            why = to.deliver(message, name)
            if why is not None:
                failed.append(name)
                problems.append(f"“{message.title}” could not be delivered to {name}: {why}")
        if failed and datetime.now(UTC) - message.made < KEPT:
            left.append(message.model_copy(update={"to": tuple(failed)}))
    write(settings.warehouse, study, box.model_copy(update={"waiting": tuple(left)}))
    for problem in problems:
        settings.echo(f"notify: {problem}\n")
    return len(left)
