"""From paths to the warehouse: find, hash, skip what is known, parse, check, write, publish."""

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

import msgspec
from pydantic import ValidationError

from analysis.published.claims import judge
from analysis.published.claims_file import read_claims
from ingest.acceptance import finished
from ingest.attainment import with_attainment
from ingest.belonging import with_companions
from ingest.checks import require_storable
from ingest.clean import clean_cell, clean_text
from ingest.discovery import Unit, unreadable
from ingest.facts_file import FactsFile
from ingest.formats import drop as drops
from ingest.formats import vllm_sweep
from ingest.meta_file import facts_beside
from ingest.model import Content, Context, Parsed
from ingest.read import open_content
from ingest.secrets import scrub
from ingest.sniff import is_report, sniff
from warehouse.errors import InvalidInput, UnknownKey
from warehouse.rows import Cell, Rejection, Source

#: A batch is published after this many seconds, so that a long ingest shows up while it runs.
BATCH_SECONDS = 10.0


#: A published table is YAML; results are JSON.
_TABLES = (".yaml", ".yml")


class Store(Protocol):
    """What the pipeline needs of ``warehouse.store.Writer``."""

    def known(self, source_id: str) -> bool: ...
    def forget(self, source_id: str) -> None: ...
    def add(self, source: Source, cells: Iterable[Cell]) -> int: ...
    def reject(self, rejection: Rejection) -> None: ...
    def unreject(self, path: str) -> None: ...
    def keep_table(self, name: str, text: str) -> bool: ...
    def commit(self) -> int: ...


@dataclass(frozen=True)
class Options:
    """What the user asked for; ``settings`` are validated facts of ``--set``."""

    settings: dict[str, Any] = field(default_factory=dict)
    keep_text: bool = False
    replace: bool = False
    facts: FactsFile | None = None
    """What ``--facts`` tells of each result by its path."""

    def of(self, unit: Unit) -> "Options":
        """The options for one result: ``--set`` wins over ``--facts``, that over a ``meta.json``.

        A drop has a record that says it all.
        """
        told = {} if unit.is_drop else facts_beside(unit.path)
        told |= {} if self.facts is None else self.facts.of(unit.path)
        return replace(self, settings=told | self.settings, facts=None)


@dataclass
class Outcome:
    """What an ingest did."""

    accepted: int = 0
    known: int = 0
    rejected: list[Rejection] = field(default_factory=list)
    cells: int = 0
    requests: int = 0
    generation: int = 0

    def as_json(self) -> dict[str, Any]:
        """The object that ``--json`` prints."""
        return {
            "accepted": self.accepted,
            "known": self.known,
            "rejected": [{"path": r.path, "reason": r.reason} for r in self.rejected],
            "cells": self.cells,
            "requests": self.requests,
            "generation": self.generation,
        }


def ingest_units(
    units: Iterable[Unit | Rejection],
    store: Store,
    options: Options,
    advance: Callable[[Unit], None] = lambda unit: None,
) -> Outcome:
    """Take in what was found; ``advance`` is called after each unit.

    Foreign files that cannot be read are rejected with a reason; an error of the warehouse itself
    (a full disk, a lock) is raised, and what was published before stays.
    """
    outcome = Outcome()
    published = time.monotonic()
    for unit in units:
        if isinstance(unit, Rejection):
            _reject(unit, store, outcome)
            continue
        take(unit, store, options, outcome)
        advance(unit)
        if time.monotonic() - published > BATCH_SECONDS:
            store.commit()
            published = time.monotonic()
    outcome.generation = store.commit()
    return outcome


def take(unit: Unit, store: Store, options: Options, outcome: Outcome) -> None:
    """Take one unit in, or reject it with a reason; nothing is published yet."""
    try:
        is_table = unit.path.suffix in _TABLES and not is_report(unit.path)
        read = _take_drop if unit.is_drop else _take_table if is_table else _take_file
        read(unit, store, options.of(unit), outcome)
    except (InvalidInput, UnknownKey) as error:
        _reject(Rejection(str(unit.path), str(error)), store, outcome)


def _reject(rejection: Rejection, store: Store, outcome: Outcome) -> None:
    cleaned = Rejection(clean_text(rejection.path), clean_text(rejection.reason))
    store.reject(cleaned)
    outcome.rejected.append(cleaned)


def _take_file(unit: Unit, store: Store, options: Options, outcome: Outcome) -> None:
    content = _open(unit.path)
    vllm_sweep.check_not_failure(content)
    # Decoding before it is known whether the content is new costs a known file little, and gives
    # a large new one the time that hashing takes on another core.
    parsed = _parse(content, Context(content.sha256, options.settings, options.keep_text))
    source_id = content.sha256()
    if _is_known(source_id, store, options, outcome):
        store.unreject(clean_text(str(unit.path)))
        return
    source = _source(unit, source_id, content, parsed, options)
    _add(source, parsed.cells, store, options, outcome)
    for shorter in filter(store.known, parsed.former):
        store.forget(shorter)


def _take_table(unit: Unit, store: Store, options: Options, outcome: Outcome) -> None:
    """A published table: read once to see that it can be, and kept as it is."""
    try:
        text = unit.path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = unreadable(error) if isinstance(error, OSError) else "This is no text in UTF-8."
        raise InvalidInput(why) from None
    judge(read_claims(text, unit.path.name))
    if store.keep_table(unit.path.name, text):
        outcome.accepted += 1
    else:
        outcome.known += 1
    store.unreject(clean_text(str(unit.path)))


def _take_drop(unit: Unit, store: Store, options: Options, outcome: Outcome) -> None:
    try:
        drop = drops.open_drop(unit.path)
    except OSError as error:
        raise InvalidInput(unreadable(error)) from None
    content = None if drop.report is None else _open(drop.report)
    source_id = drop.source_id(None if content is None else content.sha256())
    if _is_known(source_id, store, options, outcome):
        store.unreject(clean_text(str(unit.path)))
        return
    facts = drop.facts() | options.settings
    if content is None:
        cells: Iterator[Cell] = iter([drops.failed_cell(drop, source_id, options.settings)])
        parsed = Parsed(drops.NAME, {}, cells)
    else:
        parsed = _parse(content, Context(lambda: source_id, facts, options.keep_text))
        parsed = replace(parsed, cells=drops.with_drop(parsed.cells, drop))
    source = replace(
        _source(unit, source_id, content, parsed, options),
        format=drops.NAME,
        provenance=drop.record.provenance,
        commands=drop.record.commands,
        environment=drop.record.environment,
        report_config=scrub(parsed.report_config) | {"record": drops.how_it_went(drop.record)},
    )
    _add(source, parsed.cells, store, options, outcome)


def _open(path: Path) -> Content:
    try:
        return with_companions(open_content(path))
    except OSError as error:
        raise InvalidInput(unreadable(error)) from None


def _is_known(source_id: str, store: Store, options: Options, outcome: Outcome) -> bool:
    if not store.known(source_id):
        return False
    if options.replace:
        return False
    outcome.known += 1
    return True


def _parse(content: Content, context: Context) -> Parsed:
    try:
        return sniff(content).parse(content, context)
    except _BROKEN as error:
        raise InvalidInput(_sentence(error)) from None


def _source(
    unit: Unit, source_id: str, content: Content | None, parsed: Parsed, options: Options
) -> Source:
    return Source(
        source_id=source_id,
        path=clean_text(str(unit.path)),
        format=parsed.format,
        bytes=unit.bytes if content is None else content.data.nbytes,
        settings=scrub(options.settings),
        report_config=scrub(parsed.report_config),
    )


def _add(
    source: Source, cells: Iterator[Cell], store: Store, options: Options, outcome: Outcome
) -> None:
    counted = Outcome()
    if options.replace and store.known(source.source_id):
        store.forget(source.source_id)
    outcome.cells += store.add(source, _ready(cells, options.keep_text, counted))
    outcome.requests += counted.requests
    outcome.accepted += 1


def _ready(cells: Iterator[Cell], keep_text: bool, counted: Outcome) -> Iterator[Cell]:
    """The cells as they are stored; whatever a broken report makes parsing raise is InvalidInput."""
    any_cell = False
    try:
        for cell in cells:
            any_cell = True
            require_storable(cell)
            ready = finished(with_attainment(clean_cell(cell, keep_text)))
            counted.requests += 0 if ready.requests is None else ready.requests.num_rows
            yield ready
    except _BROKEN as error:
        raise InvalidInput(_sentence(error)) from None
    if not any_cell:
        raise InvalidInput("This report holds no benchmark, so there is nothing to take in.")


#: What parsing foreign data may raise where an adapter did not foresee it.
_BROKEN = (ValueError, TypeError, LookupError, ArithmeticError, RecursionError, AttributeError)


def _sentence(error: BaseException) -> str:
    if isinstance(error, ValidationError):
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        return f"This report's {where} is out of range: {first['msg']}."
    if isinstance(error, msgspec.DecodeError):
        return f"This report cannot be read: {error}."
    said = " ".join(str(error).split())[:200]
    return f"This report is not built like any known one ({type(error).__name__}: {said})."
