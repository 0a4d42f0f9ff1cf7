"""From paths to the warehouse: what was found is read elsewhere, adopted here, and published."""

import itertools
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ingest.clean import clean_text
from ingest.discovery import find_units, first_names, run_of
from ingest.model import ClaimsTable, IngestOptions, ReadResult, Unit
from ingest.processes import Answer, ReadingTask, answers
from ingest.settings import checked_facts
from ingest.table import column_map
from warehouse.beside import keep_table
from warehouse.errors import InvalidInput, WarehouseBusy
from warehouse.rows import Rejection
from warehouse.storage.draft import Draft
from warehouse.storage.tables import HeldSource
from warehouse.store import Writer

#: So long an ingest keeps others from writing who stand in line.
TURN_SECONDS = 2.0
#: Whether another waits is a question to the disk, and not asked after each small file.
_ASKING_SECONDS = 0.1
#: Of the results that cannot be read again.
_NAMED = 3

#: What was found, each with the options for it.
UnitsWithOptions = Iterator[tuple[Unit | Rejection, IngestOptions]]


@dataclass
class IngestOutcome:
    """What an ingest did. ``passed_over``: files in folders that may have been a result and are none."""

    accepted: int = 0
    known: int = 0
    rejected: list[Rejection] = field(default_factory=list)
    cells: int = 0
    requests: int = 0
    generation: int = 0
    passed_over: list[Path] = field(default_factory=list)

    def as_json(self) -> dict[str, object]:
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
    def words_of_passed_over(self) -> str:
        """What these are, with a few of their names."""
        several = len(self.passed_over) != 1
        what = f"file{'s that hold' if several else ' that holds'} no result of {'their' if several else 'its'} own"
        return clean_text(f"{what}: {first_names(self.passed_over)}")


def ingest_units(
    units: Iterable[Unit | Rejection],
    store: Writer,
    options: IngestOptions | Callable[[Unit | Rejection], IngestOptions],
    advance: Callable[[Unit], None] = lambda unit: None,
    alive: Callable[[], None] = lambda: None,
) -> IngestOutcome:
    """Take in what was found, with the same ``options`` or those of each unit; ``advance`` is called
    after each unit, ``alive`` every second or so.

    Foreign files that cannot be read are rejected with a reason; an error of the warehouse itself
    (a full disk) is raised, and what was published before stays. Others who stand in line to write
    get a turn in between; where waiting for the next one is ended (WarehouseBusy), the rest of the
    units is left, and is not in the outcome.
    """
    intake = Intake(store, advance)
    with_options = ((unit, options(unit) if callable(options) else options) for unit in units)
    with suppress(WarehouseBusy):
        while _turn(intake, with_options, store, alive):
            store.give_way()
    return intake.outcome


def with_facts(
    options: IngestOptions, unit: Unit | Rejection, facts: Mapping[str, Mapping[str, Any]]
) -> IngestOptions:
    """Return the options for one unit, with the facts of its path as it is stored; ``--set`` wins."""
    own = facts.get(clean_text(str(unit.path)), {})
    return replace(options, settings={**own, **options.settings}) if own else options


def _turn(
    intake: "Intake", units: UnitsWithOptions, store: Writer, alive: Callable[[], None]
) -> bool:
    """Take in until there is no more, or another process wants to write; return whether one does."""
    published = time.monotonic()
    ask_at, is_over = published + TURN_SECONDS, False

    def until_it_is_over() -> UnitsWithOptions:
        while not is_over and (one := next(units, None)) is not None:
            yield one

    for _ in intake.take_in(until_it_is_over()):
        alive()
        now = time.monotonic()
        if not is_over and now > ask_at:
            is_over, ask_at = store.is_awaited, now + _ASKING_SECONDS
        # A batch is published after this many seconds, so that a long ingest shows up while it runs.
        if now - published > 10.0:
            store.commit()
            published = now
    intake.outcome.generation = store.commit()
    return is_over


class Intake:
    """Takes units into a store; what became of them is in ``outcome``, and nothing is published.

    Ids that begin alike are of one run (``belonging.run_of``): of its files one was read with more
    that belongs to it, or with something changed. ``superseded``: the ids of which something that
    was taken in is the whole.
    """

    def __init__(
        self, store: Writer, advance: Callable[[Unit], None], held: Iterable[str] = ()
    ) -> None:
        """``held``: ids of a warehouse that is read again, which the store holds no more."""
        self.outcome = IngestOutcome()
        self.superseded: set[str] = set()
        self._store = store
        self._advance = advance
        self._rejected: dict[int, Rejection] = {}
        self._number = itertools.count()
        self._runs: defaultdict[str, set[str]] = defaultdict(set)
        for source_id in (*store.sources, *held):
            self._runs[run_of(source_id)].add(source_id)
        self._former: set[str] = set()
        self._replaced: set[str] = set()
        self._most: dict[str, int] = {}

    def take_in(self, units: UnitsWithOptions) -> Iterator[None]:
        """Read every unit and adopt what it holds, or reject it; yields after each, and while it
        waits. Raises DraftboardError where the warehouse cannot be written.
        """
        tasks = self._tasks(units)
        for first in tasks:
            everything = itertools.chain([first], tasks)
            processes = first.options.limits.processes
            for answer in answers(everything, self._store.root, self._store.sources, processes):
                if answer is not None:
                    self._settle(*answer)
                yield
        self.outcome.rejected = [self._rejected[number] for number in sorted(self._rejected)]

    def _tasks(self, units: UnitsWithOptions) -> Iterator[ReadingTask]:
        for unit, options in units:
            number = next(self._number)
            if isinstance(unit, Rejection):
                self._reject(number, unit.path, unit.reason)
            else:
                yield ReadingTask(number, unit, options)

    def _settle(self, task: ReadingTask, answer: Answer) -> None:
        if isinstance(answer, InvalidInput):
            self._reject(task.number, str(task.unit.path), str(answer))
        else:
            is_new = False
            if isinstance(answer, ReadResult):
                is_new = self._adopt(answer, task.options.replace)
            elif isinstance(answer, ClaimsTable):
                # It waits for no commit.
                is_new = keep_table(self._store.root, answer.name, answer.text)
            self.outcome.accepted += is_new
            self.outcome.known += not is_new
            self._store.unreject(clean_text(str(task.unit.path)))
        self._advance(task.unit)

    def _reject(self, number: int, path: str, reason: str) -> None:
        self._rejected[number] = Rejection(clean_text(path), clean_text(reason))
        self._store.reject(self._rejected[number])

    def _adopt(self, result: ReadResult, replaces: bool) -> bool:
        """Adopt what is new of a result, and let go in whose place it stands; return whether
        something is new. ``replaces``: also what is known.
        """
        if not replaces and all(self._store.holds(draft.source_id) for draft in result.drafts):
            # The same content under another name was read at the same time.
            for draft in result.drafts:
                draft.discard()
            return False
        if not self._is_part(result, replaces):
            self._former.update(result.former)
            self._let_go(result.former)
            self._forget(result.shorter)
            for main in result.replaced:
                self._replaced.add(run_of(main))
                self._let_go(self._runs[run_of(main)] | {main})
        new = [draft for draft in result.drafts if self._is_adopted(draft, replaces)]
        self.outcome.cells += sum(draft.cells for draft in new)
        self.outcome.requests += sum(draft.rows for draft in new)
        return bool(new)

    def _is_part(self, result: ReadResult, replaces: bool) -> bool:
        """Return whether the same run is held with more files, or as many that were read at the same
        time; if not, what is held of it is let go.
        """
        if result.beside is None:
            return False
        own = result.drafts[0].source_id
        others = self._runs[run_of(own)] - {own}
        is_held = any(map(self._store.holds, others))
        most = self._most.get(run_of(own))
        if is_held and (
            result.beside == 0 and not replaces if most is None else result.beside <= most
        ):
            self._former.add(own)
            return True
        self._most[run_of(own)] = result.beside
        self._let_go(others)
        return False

    def _is_adopted(self, draft: Draft, replaces: bool) -> bool:
        own = draft.source_id
        if own in self._former or run_of(own) in self._replaced:
            self.superseded.add(own)
        elif replaces or not self._store.holds(own):
            self._store.forget(own)
            self._store.adopt(draft)
            self._runs[run_of(own)].add(own)
            return True
        draft.discard()
        return False

    def _let_go(self, ids: Iterable[str]) -> None:
        self.superseded.update(ids)
        self._forget(ids)

    def _forget(self, ids: Iterable[str]) -> None:
        for source_id in filter(self._store.holds, ids):
            self._store.forget(source_id)


# --- ``draftboard ingest --rebuild`` without paths: all that a warehouse holds, read again.


def read_again(
    sources: Sequence[HeldSource],
    store: Writer,
    options: IngestOptions,
    advance: Callable[[Unit], None] = lambda unit: None,
) -> IngestOutcome:
    """Take in every source anew, each with what ``--set`` said of it, and publish all at once.

    Raises InvalidInput, and publishes nothing, where one of them is not there as it was.
    """
    intake = Intake(store, advance, (source.source_id for source in sources))
    for _ in intake.take_in(_units_again(sources, options)):
        pass
    outcome, there = intake.outcome, intake.superseded
    if lost := [s for s in sources if not (store.holds(s.source_id) or s.source_id in there)]:
        reasons = {rejection.path: rejection.reason for rejection in outcome.rejected}
        named = [
            f"{source.path}: {reasons.get(str(source.path), 'not there, or changed since')}"
            for source in lost[:_NAMED]
        ]
        more = f"; and {len(lost) - _NAMED} more" if len(lost) > _NAMED else ""
        raise InvalidInput(
            f"Nothing was changed, since {len(lost)} of {len(sources)} results cannot be read again "
            f"as they were ({'; '.join(named)}{more}): put them back, or start anew from others with: "
            "draftboard ingest PATHS --rebuild"
        )
    outcome.generation = store.commit()
    return outcome


def _units_again(sources: Sequence[HeldSource], options: IngestOptions) -> UnitsWithOptions:
    read = set()
    for source in sources:
        columns = source.settings.get("columns")
        kinds = options.categories or source.settings.get("categories", {})
        own = {k: v for k, v in source.settings.items() if k not in ("columns", "categories")}
        settings = checked_facts(own | options.settings)
        # The results of a collection are a source each.
        if (place := (source.path, repr(settings))) in read:
            continue
        read.add(place)
        for unit in find_units([source.path]):
            if isinstance(unit, Unit):
                mapped = None if columns is None else column_map(columns)
                yield unit, replace(options, settings=settings, columns=mapped, categories=kinds)
