"""From paths to the warehouse: what was found is read elsewhere, adopted here, and published."""

import itertools
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from ingest.adopting import Adopting
from ingest.clean import clean_text
from ingest.discovery import Unit, first_names
from ingest.exchange import Known, NotWritten, Options, Read, Refused, Result, Table, Task
from ingest.pool import Pool
from warehouse.errors import DraftboardError, WarehouseBusy
from warehouse.rows import Rejection
from warehouse.store_draft import Draft

__all__ = ["Intake", "Options", "Outcome", "Store", "ingest_each", "ingest_units"]

#: A batch is published after this many seconds, so that a long ingest shows up while it runs.
BATCH_SECONDS = 10.0
#: So long an ingest keeps others from writing who stand in line.
TURN_SECONDS = 2.0
#: Whether another waits is a question to the disk, and not asked after each small file.
_ASKING_SECONDS = 0.1


Found = Iterator[tuple[Unit | Rejection, Options]]


class Store(Protocol):
    """What the pipeline needs of ``warehouse.store.Writer``."""

    root: Path

    @property
    def is_awaited(self) -> bool: ...
    def give_way(self) -> None: ...
    def known(self, source_id: str) -> bool: ...
    def forget(self, source_id: str) -> None: ...
    def adopt(self, draft: Draft) -> int: ...
    def reject(self, rejection: Rejection) -> None: ...
    def unreject(self, path: str) -> None: ...
    def keep_table(self, name: str, text: str) -> bool: ...
    def commit(self) -> int: ...


@dataclass
class Outcome:
    """What an ingest did."""

    accepted: int = 0
    known: int = 0
    rejected: list[Rejection] = field(default_factory=list)
    cells: int = 0
    requests: int = 0
    generation: int = 0
    passed_over: list[Path] = field(default_factory=list)
    """Files in folders that may have been a result and are none."""

    def as_json(self) -> dict[str, Any]:
        """Return the object that ``--json`` prints."""
        return {
            "accepted": self.accepted,
            "known": self.known,
            "rejected": [{"path": r.path, "reason": r.reason} for r in self.rejected],
            "passed_over": [clean_text(str(path)) for path in self.passed_over],
            "cells": self.cells,
            "requests": self.requests,
            "generation": self.generation,
        }

    @property
    def said_of_passed_over(self) -> str:
        """What these are, with a few of their names."""
        files = "file" if len(self.passed_over) == 1 else "files"
        holds, own = ("holds", "its") if len(self.passed_over) == 1 else ("hold", "their")
        return clean_text(
            f"{files} that {holds} no result of {own} own: {first_names(self.passed_over)}"
        )


def _nothing(_: Unit) -> None:
    pass


def ingest_units(
    units: Iterable[Unit | Rejection],
    store: Store,
    options: Options,
    advance: Callable[[Unit], None] = _nothing,
    alive: Callable[[], None] = lambda: None,
) -> Outcome:
    """Take in what was found; ``advance`` is called after each unit, ``alive`` every second or so.

    Foreign files that cannot be read are rejected with a reason; an error of the warehouse itself
    (a full disk) is raised, and what was published before stays. Others who stand in line to write
    get a turn in between; where waiting for the next one is ended (WarehouseBusy), the rest of the
    units is left, and is not in the outcome.
    """
    return ingest_each(((unit, options) for unit in units), store, advance, alive)


def ingest_each(
    found: Found,
    store: Store,
    advance: Callable[[Unit], None] = _nothing,
    alive: Callable[[], None] = lambda: None,
) -> Outcome:
    """Do what ``ingest_units`` does, each unit with options of its own."""
    intake = Intake(store, advance)
    with suppress(WarehouseBusy):
        while _one_turn(intake, found, store, alive):
            store.give_way()
    return intake.outcome


def _one_turn(intake: "Intake", found: Found, store: Store, alive: Callable[[], None]) -> bool:
    """Take in until there is no more, or another process wants to write; return whether one
    does."""
    published = time.monotonic()
    ask_at, is_over = published + TURN_SECONDS, False

    def until_it_is_over() -> Found:
        while not is_over and (one := next(found, None)) is not None:
            yield one

    for _ in intake.take_in(until_it_is_over()):
        alive()
        now = time.monotonic()
        if not is_over and now > ask_at:
            is_over, ask_at = store.is_awaited, now + _ASKING_SECONDS
        if now - published > BATCH_SECONDS:
            store.commit()
            published = now
    intake.outcome.generation = store.commit()
    return is_over


class Intake:
    """Takes units into a store; what became of them is in ``outcome``, and nothing is published."""

    def __init__(self, store: Store, advance: Callable[[Unit], None] = _nothing) -> None:
        self.outcome = Outcome()
        self._store = store
        self._adopting = Adopting(store)
        self._advance = advance
        self._rejected: dict[int, Rejection] = {}
        self._number = itertools.count()

    @property
    def superseded(self) -> set[str]:
        """The ids of which something that was taken in is the whole."""
        return self._adopting.superseded

    def take_in(self, found: Found) -> Iterator[None]:
        """Read every unit and adopt what it holds, or reject it; yields after each, and while it
        waits. Raises DraftboardError where the warehouse cannot be written.
        """
        tasks = self._tasks(found)
        first = next(tasks, None)
        if first is not None:
            limits = first.options.limits
            with Pool(self._store.root, limits.processes) as pool:
                for heard in pool.results(_again(first, tasks), self._is_known):
                    if heard is not None:
                        self._settle(*heard)
                    yield
        self.outcome.rejected = [self._rejected[number] for number in sorted(self._rejected)]

    def _tasks(self, found: Found) -> Iterator[Task]:
        for unit, options in found:
            number = next(self._number)
            if isinstance(unit, Rejection):
                self._reject(number, unit)
            else:
                yield Task(number, unit, options, options.limits.of(unit))

    def _is_known(self, task: Task, source_id: str) -> bool:
        return self._store.known(source_id) and not task.options.replace

    def _settle(self, task: Task, result: Result) -> None:
        path = str(task.unit.path)
        match result:
            case Read():
                self._take(result, task)
            case Known():
                self._note_known(path)
            case Table(name, text):
                self._keep(name, text, path)
            case Refused(reason):
                self._reject(task.number, Rejection(path, reason))
            case NotWritten(sentence):
                raise DraftboardError(sentence)
        self._advance(task.unit)

    def _take(self, read: Read, task: Task) -> None:
        new = self._adopting.take(read, task.options.replace)
        if not new:
            self._note_known(str(task.unit.path))
            return
        self.outcome.accepted += 1
        self.outcome.cells += sum(draft.cells for draft in new)
        self.outcome.requests += sum(draft.rows for draft in new)

    def _keep(self, name: str, text: str, path: str) -> None:
        if self._store.keep_table(name, text):
            self.outcome.accepted += 1
            self._store.unreject(clean_text(path))
        else:
            self._note_known(path)

    def _note_known(self, path: str) -> None:
        self.outcome.known += 1
        self._store.unreject(clean_text(path))

    def _reject(self, number: int, rejection: Rejection) -> None:
        cleaned = Rejection(clean_text(rejection.path), clean_text(rejection.reason))
        self._store.reject(cleaned)
        self._rejected[number] = cleaned


def _again(first: Task, others: Iterator[Task]) -> Iterator[Task]:
    yield first
    yield from others
