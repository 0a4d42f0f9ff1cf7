"""Keeps looking at folders and takes in what comes; one batch, one generation.

Each pass looks, reads what has been still since the last look, publishes it, and reports to
``watch.json``. It stands in line for the writer's lock like any other. Whatever goes wrong with the
warehouse or a folder is said, kept in the report and tried again; only the start insists that
everything is as it should be.

What is settled is kept in memory only and learnt again after a restart: the warehouse knows every
content that it holds, so what was taken in before is a duplicate and changes nothing. What was
rejected is written down: reading it may have taken all that a unit may take.
"""

import hashlib
import json
import os
import signal
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import FrameType

import click
from filelock import FileLock, Timeout

from ingest.clean import clean_text
from ingest.discovery import find_units, is_wanted, may_belong, unreadable
from ingest.formats.drop import RECORD
from ingest.model import IngestOptions, Unit
from ingest.pipeline import IngestOutcome, ingest_units
from warehouse import queries
from warehouse.beside import WATCH_FILE, WatchHealth, WatchTrouble, this_host, write_health
from warehouse.errors import DraftboardError, WarehouseBusy
from warehouse.json_text import json_text
from warehouse.rows import Rejection
from warehouse.secrets import scrub_text
from warehouse.storage.cache import bring_in, name_of
from warehouse.storage.current import current_generation
from warehouse.storage.files import full_disk_explained, write_whole
from warehouse.store import Reader, open_writer

# --- Looks over watched folders: two looks per known drop, whatever it holds and however large.
#
# Polling, because a network file system tells nobody what another machine wrote.

#: When a file was last written (ns) and how long it is (bytes). No inode: some network file
#: systems hand out a new one with every look.
Mark = tuple[int, int]
#: The names and marks of everything that a unit consists of.
Fingerprint = tuple[tuple[str, Mark], ...]

_UNREADABLE: Mark = (-1, -1)


@dataclass(frozen=True)
class Sighting:
    """A drop or a report as it lay there: its path, the mark of its record or its file, and the
    marks of the files that belong to a report.
    """

    path: Path
    is_drop: bool
    mark: Mark
    beside: Fingerprint = ()

    @property
    def marks(self) -> Fingerprint:
        """The marks by which it is known once it was read: of a drop only that of its record."""
        return (("", self.mark), *self.beside)

    def fingerprint(self) -> Fingerprint:
        """Return the marks of all files of a sighting, the hidden ones of a drop too: ``rsync``
        writes under hidden names.
        """
        if not self.is_drop:
            return self.marks
        try:
            with os.scandir(self.path) as members:
                return tuple(sorted((member.name, _mark(member)) for member in members))
        except OSError:
            return ()


def sightings(folders: Iterable[Path], left_out: Path, problems: list[str]) -> Iterator[Sighting]:
    """Yield every drop and report under the folders, by name; the rules are those of ``find_units``. What
    cannot be looked at is added to ``problems``."""
    watched = tuple(folders)
    # Folders met: a second name or a loop of links is not followed, and the warehouse itself, which
    # holds JSON of its own, is never watched.
    met: set[tuple[int, int]] = set()
    with suppress(OSError):
        met.add(_identity(left_out.stat()))

    for folder in watched:
        yield from _look(folder, watched, met, problems)


def _look(
    path: Path, watched: tuple[Path, ...], met: set[tuple[int, int]], problems: list[str]
) -> Iterator[Sighting]:
    members: list[os.DirEntry[str]] = []
    try:
        if (identity := _identity(path.stat())) in met:
            return
        met.add(identity)
        record = _mark_of_record(path / RECORD)
        if record is None:
            with os.scandir(path) as entries:
                members = [member for member in entries if not member.name.startswith(".")]
    except OSError as error:
        # Below the watched folders a name may go while we look: cells are renamed.
        if path in watched or not isinstance(error, FileNotFoundError):
            problems.append(f"{path}: {unreadable(error)}")
        return
    if record is not None:
        yield Sighting(path, True, record)
    by_name = {member.name: member for member in sorted(members, key=lambda entry: entry.name)}
    for member in by_name.values():
        file = Path(member.path)
        if file.is_dir():
            yield from _look(file, watched, met, problems)
        elif is_wanted(file):
            # By the names that the folder lists: what is not there costs no look.
            names = {other.name for other in may_belong(file)} & by_name.keys() - {file.name}
            beside = tuple((name, _mark(by_name[name])) for name in sorted(names))
            yield Sighting(file, False, _mark(member), beside)


def _identity(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


def _mark_of_record(record: Path) -> Mark | None:
    try:
        return _mark_of(record.stat())
    except OSError as error:
        if record.is_symlink():
            return _UNREADABLE
        if isinstance(error, FileNotFoundError):
            return None
        raise


def _mark(member: os.DirEntry[str]) -> Mark:
    try:
        return _mark_of(member.stat())
    except OSError:
        return _UNREADABLE


def _mark_of(status: os.stat_result) -> Mark:
    return status.st_mtime_ns, status.st_size


class Memory:
    """Paths that are settled (in the warehouse), rejected, or waiting, each with the marks by which it
    is known. ``news``: whether the last look saw something that the one before it did not."""

    def __init__(self, rejections: Mapping[str, Fingerprint] | None = None) -> None:
        """``rejections``: what an earlier watcher rejected."""
        self._states = {path: ("rejected", marks) for path, marks in (rejections or {}).items()}
        self.news = False

    @property
    def waiting(self) -> int:
        return sum(state == "waiting" for state, _ in self._states.values())

    @property
    def rejections(self) -> dict[str, Fingerprint]:
        """The rejected paths that are unchanged since, each as it was when it was read."""
        return {path: marks for path, (state, marks) in self._states.items() if state == "rejected"}

    def ready(self, seen: Iterable[Sighting], complete: Callable[[], bool]) -> list[Sighting]:
        """Return what is new and has been still since the last look. Anything may have been written
        in place or copied file by file, so it is read when two looks in a row saw the same. What
        is gone is forgotten, unless the look was not ``complete``, which is known at its end: a
        folder could not be read.
        """
        self.news = False
        there: set[str] = set()
        still = []
        for sighting in seen:
            path = str(sighting.path)
            there.add(path)
            before = self._states.get(path)
            if before == ("settled", sighting.marks):
                continue
            fingerprint = sighting.fingerprint()
            if before == ("waiting", fingerprint):
                still.append(sighting)
            elif before != ("rejected", fingerprint):
                self._states[path] = "waiting", fingerprint
                self.news = True
        if complete():
            self._states = {path: state for path, state in self._states.items() if path in there}
        return still

    def settle(self, sighting: Sighting, rejected: bool) -> None:
        """Note that a sighting was read, so that it is looked at again only when it changes."""
        path = str(sighting.path)
        if rejected and path in self._states:
            self._states[path] = "rejected", self._states[path][1]
        else:
            self._states[path] = "settled", sighting.marks


# --- ``watch-rejected.json`` in the warehouse's folder: what a watcher rejected, for the next one.
#
# A path is in it with the marks of its files. It holds for as long as they stay the same, for the
# code that rejected them, and for what the user asked of it: a better reader, or higher limits, try
# again.

_REJECTED = "watch-rejected.json"
_HOME = Path(__file__).parents[1]


def _recalled(root: Path, by: str) -> dict[str, Fingerprint]:
    """Return what was rejected for reasons that still hold, and is listed as rejected in the
    warehouse.
    """
    with suppress(OSError, ValueError, TypeError, KeyError, DraftboardError):
        kept = json.loads((root / _REJECTED).read_bytes())
        if kept["by"] == by:
            with Reader(root) as reader:
                listed = set(queries.rejections(reader).column("path").to_pylist())
            return {
                path: tuple((str(name), (int(at), int(size))) for name, (at, size) in marks)
                for path, marks in kept["rejected"].items()
                if clean_text(path) in listed
            }
    return {}


def _hash_of(options: IngestOptions) -> str:
    """Return a hash of our code and of what was asked: with another hash, rejected files are read
    again.
    """
    code = hashlib.sha256()
    for folder in ("ingest", "analysis", "warehouse"):
        for path in sorted((_HOME / folder).rglob("*.py")):
            code.update(path.read_bytes())
    return hashlib.sha256(f"{code.hexdigest()} {options}".encode()).hexdigest()


# --- What a watcher prints: a line when something happened, none when nothing did.


class WatchLog:
    """The lines that a watcher prints, each with its time; with ``as_json`` one object for each
    batch."""

    def __init__(self, as_json: bool = False) -> None:
        self._as_json = as_json
        self._trouble: str | None = None

    def say(self, text: str) -> None:
        """Print one line for people; a reader of JSON gets it on stderr."""
        click.echo(f"{_now_text()}  {scrub_text(text)}", err=self._as_json)

    def batch(self, outcome: IngestOutcome) -> None:
        """Print what one batch did, and why some of it was not taken in."""
        if self._as_json:
            click.echo(json_text({"at": _now_text(), **outcome.as_json()}))
            return
        counts = (
            (outcome.accepted, "accepted"),
            (outcome.known, "known already"),
            (len(outcome.rejected), "rejected"),
        )
        if words := ", ".join(f"{count:,} {name}" for count, name in counts if count):
            self.say(f"{words}; generation {outcome.generation}")
        for rejection in outcome.rejected:
            self.say(f"rejected {rejection.path}: {rejection.reason}")

    def trouble(self, text: str | None) -> None:
        """Print why nothing can be taken in just now (None: all is well); the same is said once."""
        if text != self._trouble:
            self._trouble = text
            self.say("goes on" if text is None else text)


def _now_text() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


# --- Ends a watcher at a point of its choosing when SIGINT or SIGTERM asks for it.

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Stop:
    """Whether a signal has asked the command to end; once True, ``requested`` stays so."""

    def __init__(self) -> None:
        self.requested = False

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Note the first signal that comes in the block; a second one ends the process at once."""
        before = {number: signal.signal(number, self._note) for number in _SIGNALS}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def wait(self, seconds: float) -> None:
        """Return after ``seconds``, or soon after a signal."""
        until = time.monotonic() + seconds
        while not self.requested and (left := until - time.monotonic()) > 0:
            # A pause is slept in pieces, because Python goes on sleeping after a signal that it handled.
            time.sleep(min(left, 0.2))

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.requested = True
        for each in _SIGNALS:
            signal.signal(each, signal.SIG_DFL)


# --- The watcher.

#: The pause between two looks doubles while nothing happens, up to so many times the shortest.
_LONGEST_PAUSE = 12
#: A report may come so much later than announced before the watcher counts as stuck, seconds.
_GRACE_S = 120.0


def watch(
    folders: tuple[Path, ...], root: Path, options: IngestOptions, interval: float, stop: Stop,
    log: WatchLog,
) -> None:  # fmt: skip
    """Watch the folders for the warehouse at ``root`` until ``stop`` is asked for; the source at work is
    finished and the batch published. ``interval``: the shortest pause between two looks (seconds).

    Raises DraftboardError at the start: where another watcher is at work for this warehouse, or
    the warehouse cannot be written.
    """
    with full_disk_explained(root):
        root.mkdir(parents=True, exist_ok=True)
        lock = FileLock(root / "watch.lock", fallback_to_soft=False, preserve_lock_file=True)
        try:
            lock.acquire(timeout=0)
        except Timeout:
            raise DraftboardError(
                f"Another watcher is at work for {name_of(root)} ({root / WATCH_FILE} names it); "
                "give all folders to one watcher, or stop the other."
            ) from None
        try:
            # A wrong path or an outdated warehouse is an error now; later such trouble is waited out.
            with suppress(WarehouseBusy), open_writer(root, wait=False):
                pass
            _Watcher(folders, root, options, interval, stop, log).run()
        finally:
            lock.release()


class _Watcher:
    def __init__(
        self, folders: tuple[Path, ...], root: Path, options: IngestOptions, interval: float, stop: Stop,
        log: WatchLog,
    ) -> None:  # fmt: skip
        self._folders, self._root, self._options, self._interval = folders, root, options, interval
        self._stop, self._log = stop, log
        self._by = _hash_of(options)
        self._memory = Memory(_recalled(root, self._by))
        self._begun: list[Sighting] = []
        self._patience = 0.0
        now = datetime.now(UTC)
        self._health = WatchHealth(
            pid=os.getpid(),
            host=this_host(),
            folders=tuple(clean_text(str(folder.absolute())) for folder in folders),
            interval_s=interval,
            since=now,
            due=now + timedelta(seconds=_GRACE_S),
            generation=current_generation(root) or 0,
        )

    def run(self) -> None:
        """Make pass after pass until the end is asked for."""
        write_health(self._root, self._health)
        pause = self._interval
        while not self._stop.requested:
            started = time.monotonic()
            longer = min(2 * pause, _LONGEST_PAUSE * self._interval)
            pause = self._interval if self._pass_once() else longer
            self._report(_GRACE_S + pause + 2 * (time.monotonic() - started))
            self._stop.wait(pause)
        self._update(stopped=datetime.now(UTC))
        self._report(0)

    def _pass_once(self) -> bool:
        """Look once, take in what is new, and return whether something happened.
        Where somebody removed the warehouse, or put an older one in its place, all is new again.
        """
        with suppress(DraftboardError, OSError):
            if (current_generation(self._root) or 0) < self._health.generation:
                self._memory = Memory()
                self._update(generation=0)
        problems: list[str] = []
        outcome, trouble, waited = None, None, False
        try:
            for folder in self._folders:
                bring_in(folder)
            ready = self._memory.ready(self._looked_at(problems), complete=lambda: not problems)
            outcome = self._take_in(ready) if ready else None
            trouble = next(iter(problems), None)
        except WarehouseBusy:
            trouble = "another process is writing to the warehouse; what has come waits for it"
            waited = True
        except (DraftboardError, OSError) as error:
            trouble = str(error)
        self._note(outcome, None if trouble is None else clean_text(trouble))
        return outcome is not None or self._memory.news or waited

    def _looked_at(self, problems: list[str]) -> Iterator[Sighting]:
        for sighting in sightings(self._folders, self._root, problems):
            # A long look at a slow file system is not a stuck watcher.
            self._say_alive()
            yield sighting

    def _take_in(self, ready: list[Sighting]) -> IngestOutcome:
        self._begun = []
        before = self._memory.rejections
        self._at_work()
        with open_writer(self._root, while_waiting=self._in_line) as store:
            outcome = ingest_units(self._units(ready), store, self._options, alive=self._at_work)
        rejected = {rejection.path for rejection in outcome.rejected}
        for sighting in self._begun:
            self._memory.settle(sighting, clean_text(str(sighting.path)) in rejected)
        if self._memory.rejections != before:
            kept = {"by": self._by, "rejected": self._memory.rejections}
            # ASCII, as json writes: a name that is no UTF-8 cannot be written otherwise.
            write_whole(self._root / _REJECTED, json.dumps(kept))
        return outcome

    def _at_work(self) -> None:
        self._say_alive()
        # The watcher waits for its turn to write up to the longest pause; then it looks at its
        # folders and reports.
        self._patience = time.monotonic() + _LONGEST_PAUSE * self._interval

    def _in_line(self) -> None:
        self._say_alive()
        if self._stop.requested or time.monotonic() > self._patience:
            raise WarehouseBusy("Another process is writing.")

    def _units(self, ready: list[Sighting]) -> Iterator[Unit | Rejection]:
        for sighting in ready:
            if self._stop.requested:
                return
            # A drop that lost its record meanwhile is none.
            if not os.path.lexists(sighting.path / RECORD if sighting.is_drop else sighting.path):
                continue
            self._begun.append(sighting)
            for unit in find_units([sighting.path]):
                self._say_alive()
                yield unit

    def _say_alive(self) -> None:
        """Report again before the promised moment of the next report comes near."""
        if datetime.now(UTC) + timedelta(seconds=_GRACE_S - 5) > self._health.due:
            self._report(_GRACE_S)

    def _note(self, outcome: IngestOutcome | None, trouble: str | None) -> None:
        if outcome is not None:
            self._log.batch(outcome)
            self._update(
                accepted=self._health.accepted + outcome.accepted,
                duplicate=self._health.duplicate + outcome.known,
                rejected=self._health.rejected + len(outcome.rejected),
                generation=outcome.generation,
            )
        self._log.trouble(trouble)
        now = datetime.now(UTC)
        last = self._health.last_error if trouble is None else WatchTrouble(at=now, text=trouble)
        self._update(
            last_pass=now,
            passes=self._health.passes + 1,
            waiting=self._memory.waiting,
            last_error=last,
        )

    def _report(self, due_s: float) -> None:
        self._update(due=datetime.now(UTC) + timedelta(seconds=due_s))
        # Where the disk is full the report grows old, and the health check says so.
        with suppress(OSError):
            write_health(self._root, self._health)

    def _update(self, **changes: object) -> None:
        self._health = self._health.model_copy(update=changes)
