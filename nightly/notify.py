"""The notify stage: the events of a night become messages, and those that wait are tried again."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from nightly import delivery, events, judged, outbox
from warehouse.nights import Limits, NightSummary


@dataclass(frozen=True)
class Settings:
    """What a call of the nightly is asked for. ``gate``: options of `draftboard gate`; ``run``:
    more arguments of `draftboard run`; ``link``: address of the dashboard, without a slash at its
    end; ``echo`` gets what the stages say."""

    study: Path
    results: Path
    warehouse: Path
    echo: Callable[[str], None]
    limits: Limits = Limits()
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
    box = outbox.read(settings.warehouse, night.study)
    known = judged.read(answer)
    found = _found(night, known, box, settings)
    if settings.dry_run:
        settings.echo(f"notify: a dry run, {events.summary_line(found)} would be sent\n")
        for event in found:
            settings.echo(f"--- {event.kind}: {event.title}\n{event.body}\n")
        return len(box.waiting)
    to = delivery.receivers()
    if not to.names:
        return 0
    box = outbox.queued(box, found, to.names, night.night)
    outbox.write(settings.warehouse, night.study, box)
    return flush(settings, night.study)


def flush(settings: Settings, study: str) -> int:
    """Try to deliver what waits. Return the number of messages that still wait."""
    to = delivery.receivers()
    box = outbox.read(settings.warehouse, study)
    if not box.waiting or not to.names or settings.dry_run:
        return len(box.waiting)
    box, problems = outbox.deliver(box, to.deliver, to.names)
    outbox.write(settings.warehouse, study, box)
    for problem in problems:
        settings.echo(f"notify: {problem}\n")
    return len(box.waiting)


def _found(
    night: NightSummary, known: judged.Judged | None, box: outbox.Outbox, settings: Settings
) -> list[events.Event]:
    found = events.events(night, known, box.told, settings.link)
    if not settings.digest:
        return found
    one = events.digest(night, found, settings.link)
    return [] if one.key in box.told.keys else [one]
