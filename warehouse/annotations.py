"""What people and commands say beside the results: notes, exclusions, acceptances, deeds, decisions.

Files in the warehouse's folder, one JSON object a line, only ever added to. Nothing here changes a result: a
reader leaves out the runs whose last word is an exclusion (``store.Reader``).
"""

import os
import re
import secrets
import unicodedata
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from hashlib import sha256
from hmac import compare_digest
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import idna
import msgspec
from filelock import FileLock, Timeout

from warehouse.errors import InvalidInput, UnknownKey, WarehouseBusy
from warehouse.json_text import CONTROL
from warehouse.secrets import scrub_text
from warehouse.storage.cache import append_remote, is_copy
from warehouse.storage.current import follow, require_current
from warehouse.storage.files import full_disk_explained, refuse_bundle, sync

FILE = "annotations.jsonl"
#: What ``append_lines`` locks.
LOCK = "annotations.lock"
AUDIT_FILE = "audit.jsonl"
DECISIONS_FILE = "decisions.jsonl"
STANDINGS_FILE = "standings.jsonl"
LONGEST_TEXT = 1000
LONGEST_AUTHOR = 80
#: Nobody holds the lock for longer than a few lines take to write.
_LOCK_S = 10.0
_NIGHT = re.compile(r"\d{4}-\d{2}-\d{2}")

Action = Literal["note", "exclude", "include", "accept"]
_OF_RUNS: tuple[Action, ...] = ("exclude", "include")
Line = TypeVar("Line")
_Time = Annotated[datetime, msgspec.Meta(tz=True)]


def append_lines(root: Path, name: str, *values: Any) -> None:
    """Write a line for each value behind the others, durably; several processes may do so at once. Raises
    WarehouseMissing where there is no warehouse, WarehouseBusy where another process keeps the
    file locked, and a sentence for a full disk.
    """
    refuse_bundle(root)
    require_current(root)
    lines = b"".join(msgspec.json.encode(value) + b"\n" for value in values)
    if is_copy(root):
        append_remote(root, name, lines)
        return
    path = root / name
    lock = FileLock(path.with_suffix(".lock"), fallback_to_soft=False, preserve_lock_file=True)
    with full_disk_explained(root):
        try:
            with lock.acquire(timeout=_LOCK_S):
                _write_behind(path, lines)
        except Timeout as error:
            raise WarehouseBusy(
                f"Another process has kept {lock.lock_file} locked for {_LOCK_S:g} s; try again."
            ) from error


def _write_behind(path: Path, lines: bytes) -> None:
    new = not path.exists()
    descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o644)
    size = os.fstat(descriptor).st_size
    try:
        # The last line has no end where a writer was killed in the middle of it.
        if size and os.pread(descriptor, 1, size - 1) != b"\n":
            lines = b"\n" + lines
        while lines:
            lines = lines[os.write(descriptor, lines) :]
        os.fsync(descriptor)
    except OSError:
        # A line that does not fit is taken back whole.
        os.ftruncate(descriptor, size)
        if new:
            path.unlink()
        raise
    finally:
        os.close(descriptor)
    if new:
        sync(path.parent)


def read_lines(path: Path, kind: type[Line]) -> list[Line]:
    """Return the lines of a file as values of one kind; none where there is no file. A line that is
    no such value, such as one that is only half written, is passed over.
    """
    if is_copy(path.parent):
        follow(path.parent)
    try:
        lines = path.read_bytes().split(b"\n")
    except (FileNotFoundError, NotADirectoryError):
        return []
    return [value for line in lines if (value := _decoded(line, kind)) is not None]


def _decoded(line: bytes, kind: type[Line]) -> Line | None:
    try:
        return msgspec.json.decode(line, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


# --- Notes, exclusions and acceptances.


@dataclass(frozen=True)
class AnnotationTarget:
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

    at: _Time
    author: str
    action: Action
    target: AnnotationTarget
    text: str
    #: What a login vouched for; None where nobody logged in.
    account: str | None = None


def annotation(action: Action, target: AnnotationTarget, text: str, author: str) -> Annotation:
    """Make an event of now, without credentials that stand in it.

    Raises InvalidInput for a text, an author or a target that may not be.
    """
    given = Annotation(datetime.now(UTC), author.strip(), action, target, text.strip())
    scrubbed = replace(given, author=scrub_text(given.author), text=scrub_text(given.text))
    _require_valid(given, scrubbed)
    return scrubbed


def add(root: Path, *events: Annotation) -> None:
    """Write events behind the others, durably; several processes may do so at once.

    Raises InvalidInput for an event that may not be, WarehouseMissing where there is no warehouse,
    WarehouseBusy where another process keeps the file locked, and a sentence for a full disk.
    """
    _require_valid(*events)
    lines = [_stated(event) | {"target": _stated(event.target)} for event in events]
    append_lines(root, FILE, *lines)


def _stated(value: Annotation | AnnotationTarget) -> dict[str, Any]:
    return {name: field for name, field in vars(value).items() if field is not None}


def read(root: Path) -> tuple[Annotation, ...]:
    """Return every event, oldest first. A line that is only half written is passed over."""
    return _parsed(root / FILE, version(root))[0]


def unreadable(root: Path) -> int:
    """Return how many lines are passed over because they are no event."""
    return _parsed(root / FILE, version(root))[1]


def version(root: Path) -> str:
    """Return a text that changes with every event, empty where there is none. It costs one look at
    the file."""
    try:
        stat = (root / FILE).stat()
    except (FileNotFoundError, NotADirectoryError):
        return ""
    return f"{stat.st_ino}-{stat.st_size}-{stat.st_mtime_ns}"


@lru_cache(maxsize=16)
def _parsed(path: Path, file_version: str) -> tuple[tuple[Annotation, ...], int]:
    """Return the events of the file and the number of lines that are none, remembered for a version
    of the file.
    """
    if not file_version:
        return (), 0
    with full_disk_explained(path.parent):
        lines = [line for line in path.read_bytes().split(b"\n") if line.strip()]
    events = (_decoded(line, Annotation) for line in lines)
    valid = tuple(event for event in events if event is not None and not _problem(event))
    return valid, len(lines) - len(valid)


def excluded_runs(root: Path) -> dict[AnnotationTarget, Annotation]:
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


def _require_valid(*events: Annotation) -> None:
    for problem in filter(None, map(_problem, events)):
        raise InvalidInput(problem)


def _problem(event: Annotation) -> str:
    """Say why an event may not be, in a sentence; empty where it may."""
    what, target = "note" if event.action == "note" else "reason", event.target
    of_runs, accepts = event.action in _OF_RUNS, event.action == "accept"
    is_run = bool(target.run_id and target.source_id and not (target.night or target.study))
    is_night = bool(target.night and not (target.run_id or target.source_id))
    length = len(event.text)
    too_long = (
        f"This {what} has {length:,} characters and may have {LONGEST_TEXT:,}; make it shorter."
    )
    no_night = f"{target.night!r} is no night; write the day on which it began, e.g. 2026-11-21."
    control = "holds a line break or another control character; write it on one line."
    problems = (
        (not event.text.strip(), f"A {what} needs a text; write one sentence."),
        (length > LONGEST_TEXT, too_long),
        (_is_unprintable(event.text), f"This {what} {control}"),
        (
            not 0 < len(event.author) <= LONGEST_AUTHOR,
            f"An author's name has between 1 and {LONGEST_AUTHOR} characters; give another.",
        ),
        (_is_unprintable(event.author), f"This author's name {control}"),
        (of_runs and not is_run, "Only a run can be excluded or taken back; name one."),
        (accepts and not is_night, "Only a night can be accepted; name one."),
        (
            not (is_run or is_night),
            "A note is about one run or about one night; name one of them.",
        ),
        (
            target.series is not None and not accepts,
            "Only an acceptance is about some series; leave the series out.",
        ),
        (is_night and not _is_day(str(target.night)), no_night),
        (is_night and _is_unprintable(target.study or ""), f"This study's name {control}"),
        (is_night and _is_unprintable(target.series or ""), f"This series' name {control}"),
    )
    return next((sentence for is_so, sentence in problems if is_so), "")


def _is_day(text: str) -> bool:
    try:
        return _NIGHT.fullmatch(text) is not None and bool(date.fromisoformat(text))
    except ValueError:
        return False


def _is_unprintable(text: str) -> bool:
    kinds = {unicodedata.category(letter) for letter in text}
    return CONTROL.search(text) is not None or bool(kinds & {"Cc", "Cs"})


# --- The audit trail: who did what to the warehouse, besides measuring.


What = Literal["keep", "token", "revoke", "note", "exclude", "include", "accept"]


@dataclass(frozen=True)
class Deed:
    """Who did what, when (UTC), to what. ``account``: what the login vouched for, None without one;
    ``who``: what they call themselves; ``why``: their own words."""

    at: _Time
    who: str
    account: str | None
    what: What
    about: str
    why: str = ""


def add_deed(root: Path, who: str, account: str | None, what: What, about: str) -> None:
    """Write down a deed of now that is no annotation, durably. Raises as ``append_lines`` does."""
    append_lines(root, AUDIT_FILE, Deed(datetime.now(UTC), who, account, what, about))


def deeds(root: Path) -> tuple[Deed, ...]:
    """Return every deed and every annotation, oldest first. A line that is only half written is
    passed over."""
    annotated = (
        Deed(event.at, event.author, event.account, event.action, event.target.name, event.text)
        for event in read(root)
    )
    return tuple(sorted((*annotated, *read_lines(root / AUDIT_FILE, Deed)), key=lambda d: d.at))


# --- Recorded decisions: what was said last is what counts. A decision could be made again from the results;
# what was decided on a day cannot.


@dataclass(frozen=True)
class RecordedSubject:
    """What a decision is about; the engine's version is not part of it, since it moves on.
    ``traffic`` in words."""

    study: str | None
    model: str | None
    gpu: str | None
    engine: str | None
    tensor_parallel_size: int | None
    evidence: str | None
    traffic: str
    objective: str
    configuration: str | None = None


@dataclass(frozen=True)
class RecordedDecision:
    """A decision as it was recorded at a moment (UTC). ``loads``: each load with its word;
    ``gain``: the improvement at the operating load (ratio)."""

    at: _Time
    about: RecordedSubject
    engine_version: str | None
    answer: str
    arm: str
    table: tuple[tuple[int, int, int], ...] | None
    loads: tuple[tuple[str, str], ...]
    operating_load: str | None
    gain: float | None


def last_decisions(root: Path) -> tuple[RecordedDecision, ...]:
    """Return the last decision about each subject; a line that is only half written is passed
    over."""
    recorded = read_lines(root / DECISIONS_FILE, RecordedDecision)
    return tuple({decision.about: decision for decision in recorded}.values())


@dataclass(frozen=True)
class RecordedStanding:
    """Whether a decision held for what a server did at a moment (UTC), as ``answers.live`` has it."""

    at: _Time
    about: RecordedSubject
    standing: str
    sentence: str
    running: str | None
    takes: str | None
    in_flight: float
    length: float | None
    measured_length: float | None
    gain: float | None


def standings(root: Path) -> tuple[RecordedStanding, ...]:
    """Return what was recorded, oldest first; a line that is only half written is passed over."""
    return tuple(read_lines(root / STANDINGS_FILE, RecordedStanding))


# --- Personal tokens, by which a program asks in a person's name. Only a hash of each is kept.
#
# One file, a JSON object a line, only ever added to: a token is made, and one is taken back.


TOKENS_FILE = "tokens.jsonl"
TOKEN_PREFIX = "draftboard_"


@dataclass(frozen=True)
class Token:
    """Whose token, and until when it counts (UTC). ``digest``: SHA-256 of the secret, whose 256
    random bits nobody guesses. ``revoked``: this line takes the token of that id back."""

    id: str
    account: str
    made: _Time
    ends: _Time
    digest: str
    revoked: bool = False


def account_of(address: str) -> str:
    """Return a mail address as it is compared: its domain as the rules of domain names say (IDNA), what
    stands before it with small letters for A to Z only. ``groß`` is not ``gross``."""
    name, at, domain = address.rpartition("@")
    try:
        domain = idna.encode(domain, uts46=True).decode()
    except idna.IDNAError:
        domain = _small(domain)
    return f"{_small(name)}{at}{domain}"


def _small(text: str) -> str:
    # Of bytes only A to Z have small letters.
    return text.encode("utf-8", "surrogatepass").lower().decode("utf-8", "surrogatepass")


def make_token(root: Path, account: str, days: int, who: str) -> tuple[Token, str]:
    """Make a token, and return it with its secret, which is told once and kept nowhere. ``who``: who
    makes it.

    Raises as ``append_lines``.
    """
    number, word = secrets.token_hex(4), secrets.token_urlsafe(32)
    secret, now = f"{TOKEN_PREFIX}{number}_{word}", datetime.now(UTC)
    token = Token(number, account_of(account), now, now + timedelta(days=days), _digest_of(secret))
    append_lines(root, TOKENS_FILE, token)
    add_deed(root, who, None, "token", f"token {token.id} of {token.account}")
    return token, secret


def revoke_token(root: Path, number: str, who: str) -> Token:
    """Take a token back; it counts no more from the next request on. Raises UnknownKey."""
    token = next((one for one in tokens_held(root) if one.id == number), None)
    if token is None:
        known = ", ".join(one.id for one in tokens_held(root)) or "none"
        raise UnknownKey(f"There is no token {number!r}; those that count are: {known}.")
    append_lines(root, TOKENS_FILE, replace(token, revoked=True))
    add_deed(root, who, None, "revoke", f"token {number} of {token.account}")
    return token


def tokens_held(root: Path) -> tuple[Token, ...]:
    """Return the tokens that count now, oldest first."""
    known = {token.id: token for token in read_lines(root / TOKENS_FILE, Token)}
    now = datetime.now(UTC)
    return tuple(one for one in known.values() if not one.revoked and now < one.ends)


def find_token(root: Path, secret: str) -> Token | None:
    """Return the token whose secret this is, where it counts."""
    digest = _digest_of(secret)
    return next((one for one in tokens_held(root) if compare_digest(one.digest, digest)), None)


def _digest_of(secret: str) -> str:
    return sha256(secret.encode()).hexdigest()
