"""What people say of runs and nights, kept apart from results: notes, exclusions, acceptances.

One file in the warehouse's folder, one JSON object a line, only ever added to. Nothing here changes
a result: a reader leaves out the runs whose last word is an exclusion (``store_read.Reader``).
"""

import re
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Literal

import msgspec

from warehouse.controls import CONTROL
from warehouse.errors import InvalidInput
from warehouse.lines import append
from warehouse.secrets.texts import scrub_text
from warehouse.store_files import full_disk_explained

FILE = "annotations.jsonl"
#: What ``lines.append`` locks.
LOCK = "annotations.lock"
LONGEST_TEXT = 1000
LONGEST_AUTHOR = 80
_NIGHT = re.compile(r"\d{4}-\d{2}-\d{2}")

Action = Literal["note", "exclude", "include", "accept"]
_OF_RUNS: tuple[Action, ...] = ("exclude", "include")


@dataclass(frozen=True)
class Target:
    """One run of one source, or one night (``YYYY-MM-DD``, noon to noon UTC) of a study or of all.

    ``series``: parts of the name of those series whose night is meant (``gate accept``); None: all.

    A source is known by the hash of its content, so an exclusion outlives a rebuild and never falls
    on the run of the same name of another night.
    """

    run_id: str | None = None
    source_id: str | None = None
    night: str | None = None
    study: str | None = None
    series: str | None = None

    @property
    def name(self) -> str:
        """What people call the target: the run, or the night and its study."""
        if self.run_id is not None:
            return self.run_id
        of = f" of {self.study}" if self.study else ""
        return f"night {self.night}{of}" + (f" ({self.series})" if self.series else "")


@dataclass(frozen=True)
class Annotation:
    """Who said what of what, and when (UTC)."""

    at: Annotated[datetime, msgspec.Meta(tz=True)]
    author: str
    action: Action
    target: Target
    text: str
    #: What a login vouched for; None where nobody logged in.
    account: str | None = None


def annotation(action: Action, target: Target, text: str, author: str) -> Annotation:
    """Make an event of now, without credentials that stand in it.

    Raises InvalidInput for a text, an author or a target that may not be.
    """
    given = Annotation(datetime.now(UTC), author.strip(), action, target, text.strip())
    said = replace(given, author=scrub_text(given.author), text=scrub_text(given.text))
    for problem in filter(None, map(_problem, (given, said))):
        raise InvalidInput(problem)
    return said


def run(run_id: str, source_id: str) -> Target:
    """Return one run of one source as a target."""
    return Target(run_id=run_id, source_id=source_id)


def night(day: str, study: str | None = None, series: str | None = None) -> Target:
    """Return a night as a target, by the day on which it began (``2026-11-21``); of one study, or
    of every study."""
    return Target(night=day, study=study, series=series)


def add(root: Path, *events: Annotation) -> None:
    """Write events behind the others, durably; several processes may do so at once.

    Raises InvalidInput for an event that may not be, WarehouseMissing where there is no warehouse,
    WarehouseBusy where another process keeps the file locked, and a sentence for a full disk.
    """
    for problem in filter(None, map(_problem, events)):
        raise InvalidInput(problem)
    append(root, FILE, b"".join(map(_line, events)))


def read(root: Path) -> tuple[Annotation, ...]:
    """Return every event, oldest first. A line that is only half written is passed over."""
    return _read(root)[0]


def unreadable(root: Path) -> int:
    """Return how many lines are passed over because they are no event."""
    return _read(root)[1]


def version(root: Path) -> str:
    """Return a text that changes with every event, empty where there is none. It costs one look at
    the file."""
    try:
        found = (root / FILE).stat()
    except (FileNotFoundError, NotADirectoryError):
        return ""
    return f"{found.st_ino}-{found.st_size}-{found.st_mtime_ns}"


def excluded_runs(root: Path) -> dict[Target, Annotation]:
    """Return the runs that are left out now, each with the exclusion: of a run's events the last
    counts."""
    last = {event.target: event for event in read(root) if event.action in _OF_RUNS}
    return {target: event for target, event in last.items() if event.action == "exclude"}


def exclusions_version(root: Path) -> str:
    """Return a text that changes with every exclusion and every taking back only; empty before the
    first.

    It counts them, so that what was cached before an exclusion is not taken for what is true after
    it was taken back.
    """
    count = sum(event.action in _OF_RUNS for event in read(root))
    return f"{count}" if count else ""


def accepted(root: Path) -> tuple[Annotation, ...]:
    """Return the nights that were accepted as a reference for later nights, in the order in which
    people said so."""
    return tuple(event for event in read(root) if event.action == "accept")


def _read(root: Path) -> tuple[tuple[Annotation, ...], int]:
    known = version(root)
    return _parsed(root / FILE, known) if known else ((), 0)


@lru_cache(maxsize=16)
def _parsed(path: Path, known: str) -> tuple[tuple[Annotation, ...], int]:
    """Return the events of the file and the number of lines that are none. ``known``: the file's
    version, for which the answer is remembered."""
    del known
    with full_disk_explained(path.parent):
        lines = [line for line in path.read_bytes().split(b"\n") if line.strip()]
    events = [event for event in map(_event, lines) if event is not None]
    return tuple(events), len(lines) - len(events)


def _event(line: bytes) -> Annotation | None:
    try:
        found = msgspec.json.decode(line, type=Annotation)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    return None if _problem(found) else found


def _line(event: Annotation) -> bytes:
    target = {name: value for name, value in vars(event.target).items() if value is not None}
    known = {name: value for name, value in vars(event).items() if value is not None}
    return msgspec.json.encode({**known, "target": target}) + b"\n"


def _problem(event: Annotation) -> str:
    """Say why an event may not be, in a sentence; empty where it may."""
    checks: tuple[Callable[[Annotation], str], ...] = (_of_text, _of_author, _of_target)
    return next((said for check in checks if (said := check(event))), "")


def _of_text(event: Annotation) -> str:
    what = "note" if event.action == "note" else "reason"
    if not event.text.strip():
        return f"A {what} needs a text; write one sentence."
    if len(event.text) > LONGEST_TEXT:
        return (
            f"This {what} has {len(event.text):,} characters and may have {LONGEST_TEXT:,}; "
            "make it shorter."
        )
    return _unprintable(event.text, f"This {what}")


def _of_author(event: Annotation) -> str:
    if not event.author or len(event.author) > LONGEST_AUTHOR:
        return f"An author's name has between 1 and {LONGEST_AUTHOR} characters; give another."
    return _unprintable(event.author, "This author's name")


def _of_target(event: Annotation) -> str:
    target = event.target
    is_run = bool(target.run_id and target.source_id and not (target.night or target.study))
    is_night = bool(target.night and not (target.run_id or target.source_id))
    if event.action in _OF_RUNS and not is_run:
        return "Only a run can be excluded or taken back; name one."
    if event.action == "accept" and not is_night:
        return "Only a night can be accepted; name one."
    if not (is_run or is_night):
        return "A note is about one run or about one night; name one of them."
    if target.series is not None and event.action != "accept":
        return "Only an acceptance is about some series; leave the series out."
    return _of_night(target) if is_night else ""


def _of_night(target: Target) -> str:
    day = str(target.night)
    try:
        date.fromisoformat(day if _NIGHT.fullmatch(day) else "")
    except ValueError:
        return f"{day!r} is no night; write the day on which it began, e.g. 2026-11-21."
    named = ((target.study, "This study's name"), (target.series, "This series' name"))
    return next((bad for text, what in named if (bad := _unprintable(text or "", what))), "")


def _unprintable(text: str, what: str) -> str:
    if CONTROL.search(text) or {unicodedata.category(letter) for letter in text} & {"Cc", "Cs"}:
        return f"{what} holds a line break or another control character; write it on one line."
    return ""
