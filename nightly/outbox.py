"""What people were told, and what waits to be told: kept before it is sent, so nothing is lost.

A message that was delivered just before a kill may be delivered once more; none is forgotten.
"""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from pydantic import AwareDatetime, ValidationError

from nightly.events import Event, Kind, Told
from nightly.place import write_whole
from warehouse.nights import Part, folder
from warehouse.secrets.texts import scrub_text

FILE = ".outbox.json"
#: After so long nobody needs to hear of it any more.
KEPT = timedelta(days=7)
#: Keys of events that are remembered; a night makes a few.
_REMEMBERED = 200


class Message(Part):
    """A message and the names of those that have not got it yet."""

    kind: Kind
    title: str
    body: str
    to: tuple[str, ...]
    made: AwareDatetime


class Outbox(Part):
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
    return folder(root) / study / FILE
