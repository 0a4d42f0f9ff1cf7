"""Keeps looking at folders and takes in what comes; one batch, one generation.

Each pass looks, reads what has been still since the last look, publishes it, and reports to
``watch.json``. It stands in line for the writer's lock like any other. Whatever goes wrong with the warehouse or a folder is said, kept in the report and
tried again; only the start insists that everything is as it should be.
"""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from filelock import FileLock, Timeout

from ingest.clean import clean_text
from ingest.discovery import Unit, find_units
from ingest.formats.drop import RECORD
from ingest.pipeline import Options, Outcome, ingest_units
from ingest.watch_cli import Lines, Stop
from ingest.watch_memory import Memory, Scan, Sighting, keep, recall
from warehouse.beside import WATCH_FILE, WatchHealth, WatchTrouble, this_host, write_health
from warehouse.errors import DraftboardError, WarehouseBusy
from warehouse.rows import Rejection
from warehouse.store import open_writer
from warehouse.store_cache import bring_in, name_of
from warehouse.store_current import current_generation
from warehouse.store_files import full_disk_explained

#: The pause between two looks doubles while nothing happens, up to so many times the shortest.
_LONGEST_PAUSE = 12
#: A report may come so much later than announced before the watcher counts as stuck, seconds.
_GRACE_S = 120.0
_LOCK = "watch.lock"


@dataclass(frozen=True)
class Asked:
    """What to watch, where it goes, and the shortest pause between two looks (seconds)."""

    folders: tuple[Path, ...]
    root: Path
    options: Options
    interval: float


def watch(asked: Asked, stop: Stop, lines: Lines) -> None:
    """Watch until ``stop`` is asked for; the source at work is finished and the batch published.

    Raises DraftboardError at the start: where another watcher is at work for this warehouse, or
    the warehouse cannot be written.
    """
    with full_disk_explained(asked.root):
        asked.root.mkdir(parents=True, exist_ok=True)
        with _only_watcher(asked.root):
            _require_writable(asked.root)
            Watcher(asked, stop, lines).run()


class Watcher:
    """One watcher, from its start to its end."""

    def __init__(self, asked: Asked, stop: Stop, lines: Lines) -> None:
        self._asked = asked
        self._stop = stop
        self._lines = lines
        self._memory = Memory()
        self._memory.recall(recall(asked.root, asked.options))
        self._begun: list[Sighting] = []
        self._patience = 0.0
        now = datetime.now(UTC)
        self._health = WatchHealth(
            pid=os.getpid(),
            host=this_host(),
            folders=tuple(clean_text(str(folder.absolute())) for folder in asked.folders),
            interval_s=asked.interval,
            since=now,
            due=now + timedelta(seconds=_GRACE_S),
            generation=current_generation(asked.root) or 0,
        )

    def run(self) -> None:
        """Make pass after pass until the end is asked for."""
        write_health(self._asked.root, self._health)
        pause = self._asked.interval
        while not self._stop.asked:
            started = time.monotonic()
            busy = self._one_pass()
            pause = self._asked.interval if busy else self._longer(pause)
            took = time.monotonic() - started
            self._report(_GRACE_S + pause + 2 * took)
            self._stop.wait(pause)
        self._update(stopped=datetime.now(UTC))
        self._report(0)

    def _longer(self, pause: float) -> float:
        return min(2 * pause, _LONGEST_PAUSE * self._asked.interval)

    def _one_pass(self) -> bool:
        """Look once, take in what is new, and return whether something happened."""
        self._start_anew_without_warehouse()
        scan = Scan(self._asked.folders, left_out=self._asked.root)
        outcome = trouble = None
        waited = False
        try:
            for folder in self._asked.folders:
                bring_in(folder)
            seen = self._alive(scan.sightings())
            ready = self._memory.ready(seen, complete=lambda: not scan.problems)
            outcome = self._take_in(ready) if ready else None
            trouble = next(iter(scan.problems), None)
        except WarehouseBusy:
            trouble = "another process is writing to the warehouse; what has come waits for it"
            waited = True
        except (DraftboardError, OSError) as error:
            trouble = str(error)
        self._note(outcome, trouble)
        return outcome is not None or self._memory.news or waited

    def _start_anew_without_warehouse(self) -> None:
        """Take in everything again where somebody removed the warehouse, or put an older one in its
        place."""
        with suppress(DraftboardError, OSError):
            if (current_generation(self._asked.root) or 0) < self._health.generation:
                self._memory.forget()
                self._update(generation=0)

    def _take_in(self, ready: list[Sighting]) -> Outcome:
        self._begun = []
        before = self._memory.rejections()
        self._patience = self._until()
        with open_writer(self._asked.root, while_waiting=self._in_line) as store:
            units = self._units(ready)
            outcome = ingest_units(units, store, self._asked.options, alive=self._at_work)
        rejected = {rejection.path for rejection in outcome.rejected}
        for sighting in self._begun:
            self._memory.settle(sighting, clean_text(str(sighting.path)) in rejected)
        if self._memory.rejections() != before:
            keep(self._asked.root, self._asked.options, self._memory.rejections())
        return outcome

    def _until(self) -> float:
        """Return until when the watcher waits for its turn to write: the longest pause; then it
        looks at its folders and reports."""
        return time.monotonic() + _LONGEST_PAUSE * self._asked.interval

    def _at_work(self) -> None:
        self._say_alive()
        self._patience = self._until()

    def _in_line(self) -> None:
        """Report while the watcher waits for its turn to write, and end the waiting when that lasts
        too long."""
        self._say_alive()
        if self._stop.asked or time.monotonic() > self._patience:
            raise WarehouseBusy("Another process is writing.")

    def _units(self, ready: list[Sighting]) -> Iterator[Unit | Rejection]:
        """Yield what to read, each looked up when its turn comes; ends early when asked to stop."""
        for sighting in ready:
            if self._stop.asked:
                return
            # A drop that lost its record meanwhile is none.
            if not os.path.lexists(sighting.path / RECORD if sighting.is_drop else sighting.path):
                continue
            self._begun.append(sighting)
            for unit in find_units([sighting.path]):
                self._say_alive()
                yield unit

    def _alive(self, seen: Iterator[Sighting]) -> Iterator[Sighting]:
        """Pass sightings on and report meanwhile: a long look at a slow file system is not a stuck
        watcher."""
        for sighting in seen:
            self._say_alive()
            yield sighting

    def _say_alive(self) -> None:
        """Report again before the promised moment of the next report comes near."""
        if datetime.now(UTC) + timedelta(seconds=_GRACE_S - 5) > self._health.due:
            self._report(_GRACE_S)

    def _note(self, outcome: Outcome | None, trouble: str | None) -> None:
        if outcome is not None:
            self._lines.batch(outcome)
            self._update(
                accepted=self._health.accepted + outcome.accepted,
                duplicate=self._health.duplicate + outcome.known,
                rejected=self._health.rejected + len(outcome.rejected),
                generation=outcome.generation,
            )
        text = None if trouble is None else clean_text(trouble)
        self._lines.trouble(text)
        now = datetime.now(UTC)
        last = self._health.last_error if text is None else WatchTrouble(at=now, text=text)
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
            write_health(self._asked.root, self._health)

    def _update(self, **changes: object) -> None:
        self._health = self._health.model_copy(update=changes)


@contextmanager
def _only_watcher(root: Path) -> Iterator[None]:
    lock = FileLock(root / _LOCK, fallback_to_soft=False, preserve_lock_file=True)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        raise DraftboardError(
            f"Another watcher is at work for {name_of(root)} ({root / WATCH_FILE} names it); "
            "give all folders to one watcher, or stop the other."
        ) from None
    try:
        yield
    finally:
        lock.release()


def _require_writable(root: Path) -> None:
    """Raise an error for a wrong path or an outdated warehouse at the start; later such trouble is
    waited out."""
    with suppress(WarehouseBusy), open_writer(root, wait=False):
        pass
