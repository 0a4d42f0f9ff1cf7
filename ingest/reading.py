"""Reads one unit: opens it, looks whether it is known, parses, checks, cleans, writes a draft.

Only a process that reads imports this. What is wrong with the unit is raised as InvalidInput; what is
wrong with the warehouse as another DraftboardError.
"""

import gc
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from importlib.machinery import ModuleSpec
from itertools import chain
from pathlib import Path
from types import ModuleType

import pyarrow as pa
import pyarrow.parquet  # noqa: F401

from ingest import stated, table
from ingest.belonging import is_report, of_first, sniff, stood_for, with_companions
from ingest.checks import finished, require_storable, with_attainment, without_uncounted
from ingest.clean import clean_cell, clean_text
from ingest.discovery import unreadable
from ingest.formats import drop as drops
from ingest.formats import vllm_sweep
from ingest.model import ClaimsTable, Context, FileContent, IngestOptions, Parsed, ReadResult, Unit
from ingest.read import open_content
from ingest.settings import facts_beside
from ingest.stated import BROKEN, sentence
from warehouse.beside import is_published_table
from warehouse.errors import DraftboardError, InvalidInput, UnknownKey
from warehouse.rows import Cell, Source
from warehouse.secrets import scrub
from warehouse.store_draft import Draft, write_draft
from warehouse.store_files import full_disk_explained

#: A published table is YAML; results are JSON.
_TABLES = (".yaml", ".yml")
_ROW = re.compile(rb"\b(baseline|speculative|acceptance_rate|usd_per_hour)[\"']?[ \t]*:")
#: Up to here hashing takes less than decoding by far: bytes.
_SMALL = 4 << 20


def read_unit(
    unit: Unit, options: IngestOptions, root: Path, known: frozenset[str]
) -> ReadResult | ClaimsTable | None:
    """Read a unit and return what it holds, None where that is ``known``; its requests are written
    into the warehouse at ``root``, privately.

    ``--set`` wins over ``--facts``, that over a ``meta.json``; a drop has a record that says it all.
    """
    try:
        facts = {} if unit.is_drop else facts_beside(unit.path)
        facts |= {} if options.facts is None else options.facts.of(unit.path)
    except UnknownKey as error:
        raise InvalidInput(str(error)) from None
    options = replace(options, settings=facts | options.settings, facts=None)
    if unit.is_drop:
        return _drop(unit, options, root, known)
    is_yaml = unit.path.suffix in _TABLES and not is_report(unit.path)
    if is_yaml and (is_published_table(unit.path) or _ROW.search(bytes(_open(unit.path).data))):
        return _table(unit.path)
    return _file(unit, options, root, known)


def _file(
    unit: Unit, options: IngestOptions, root: Path, known: frozenset[str]
) -> ReadResult | None:
    content = _open(unit.path)
    vllm_sweep.check_not_failure(content)
    if content.data.nbytes < _SMALL and content.sha256() in known:
        return None
    # A large one is decoded before it is known whether it is new, while another core hashes it.
    parsed = _parsed(content, Context(content.sha256, options.settings, options.keep_text), options)
    source_id = content.sha256()
    if source_id in known:
        return None
    source = _source(unit, source_id, content, parsed, options)
    if parsed.apart:
        new = [(replace(source, source_id=own), cells) for own, cells in parsed.apart
               if own not in known]  # fmt: skip
        # The whole file was one source before its results were sources of their own.
        return ReadResult(_drafts(new, options, root), (source_id,)) if new else None
    replaced = tuple(stood_for(content))
    grown = (stated.former(one.data) for one in replaced if one.path.suffix == ".jsonl")
    count = len(content.beside)
    return ReadResult(
        _drafts([(source, parsed.cells)], options, root),
        # So were the ids of results of several files before they told the run.
        former=(of_first(content, count),) if count else (),
        shorter=(*parsed.former, *chain.from_iterable(grown)),
        replaced=tuple(one.sha256() for one in replaced),
        beside=None if content.alone is None else count,
    )


def _table(path: Path) -> ClaimsTable:
    """Return a published table, kept as it is; it is read once to see that it can be."""
    # Not above: it is rare, and takes as long to import as a hundred small reports to read.
    from analysis.published.claims import judge
    from analysis.published.claims_file import read_claims

    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise InvalidInput(unreadable(error)) from None
    except UnicodeDecodeError:
        raise InvalidInput("This is no text in UTF-8: convert it to UTF-8 first.") from None
    judge(read_claims(text, path.name))
    return ClaimsTable(path.name, text)


def _drop(
    unit: Unit, options: IngestOptions, root: Path, known: frozenset[str]
) -> ReadResult | None:
    try:
        drop = drops.open_drop(unit.path)
    except OSError as error:
        raise InvalidInput(unreadable(error)) from None
    content = None if drop.report is None else _open(drop.report)
    count = 0 if content is None else len(content.beside)
    ids = [
        drop.source_id(None if content is None else of_first(content, files))
        for files in range(count + 1)
    ]
    if ids[-1] in known:
        return None
    if content is None:
        cells = iter([drops.failed_cell(drop, ids[-1], options.settings)])
        parsed = Parsed(drops.NAME, {}, cells)
    else:
        facts = drop.facts() | options.settings
        parsed = _parsed(content, Context(partial(str, ids[-1]), facts, options.keep_text))
        parsed = replace(parsed, cells=drops.with_drop(parsed.cells, drop))
    source = replace(
        _source(unit, ids[-1], content, parsed, options),
        format=drops.NAME,
        provenance=drop.record.provenance,
        commands=drop.record.commands,
        environment=drop.record.environment,
        report_config=scrub(parsed.report_config) | {"record": drops.how_it_went(drop.record)},
    )
    return ReadResult(_drafts([(source, parsed.cells)], options, root), former=tuple(ids[:-1]))


def _open(path: Path) -> FileContent:
    try:
        return with_companions(open_content(path))
    except OSError as error:
        raise InvalidInput(unreadable(error)) from None


def _parsed(content: FileContent, context: Context, options: IngestOptions | None = None) -> Parsed:
    try:
        if options is None or options.columns is None:
            parsed = sniff(content).parse(content, context)
        else:
            parsed = table.parse(content, context, options.columns)
    except BROKEN as error:
        raise InvalidInput(sentence(error)) from None
    return replace(parsed, cells=_with_success(parsed.cells))


def _with_success(cells: Iterator[Cell]) -> Iterator[Cell]:
    """Yield the cells. Raise InvalidInput at their end where all of them failed: one that did is a
    result among others."""
    failed: set[bool] = set()
    for cell in cells:
        failed.add(cell.status == "failed")
        yield cell
    if failed == {True}:
        raise InvalidInput(
            "This report has no successful request; look at its errors and run the benchmark again."
        )


def _source(
    unit: Unit, source_id: str, content: FileContent | None, parsed: Parsed, options: IngestOptions
) -> Source:
    # What reads it once more (``--rebuild``).
    again = {} if options.columns is None else {"columns": dict(options.columns.said)}
    return Source(
        source_id=source_id,
        path=clean_text(str(unit.path)),
        format=parsed.format,
        bytes=unit.bytes if content is None else content.data.nbytes,
        settings=scrub(options.settings | again),
        report_config=scrub(parsed.report_config),
    )


def _drafts(
    sources: Sequence[tuple[Source, Iterator[Cell]]], options: IngestOptions, root: Path
) -> tuple[Draft, ...]:
    """Write the draft of each source; none stays where one cannot be written."""
    drafts: list[Draft] = []
    try:
        with full_disk_explained(root):
            for source, cells in sources:
                drafts.append(write_draft(root, source, _stored(cells, options.keep_text)))
    except BaseException as error:
        for draft in drafts:
            draft.discard()
        if not isinstance(error, OSError):
            raise
        raise DraftboardError(
            f"{root} could not be written ({error.strerror or error}): what was published stays; "
            "look at its disk, then run the same command again."
        ) from None
    return tuple(drafts)


def _stored(cells: Iterator[Cell], keep_text: bool) -> Iterator[Cell]:
    """Yield the cells as they are stored; whatever a broken report makes parsing raise is
    InvalidInput."""
    any_cell = False
    try:
        for cell in cells:
            any_cell = True
            require_storable(cell)
            yield finished(with_attainment(clean_cell(without_uncounted(cell), keep_text)))
    except BROKEN as error:
        raise InvalidInput(sentence(error)) from None
    if not any_cell:
        raise InvalidInput("This report holds no benchmark, so there is nothing to take in.")


# --- What is done before the first process that reads is forked.


class _WithoutPandas:
    """Keeps Arrow from importing pandas at its first array, which takes a third of a second and 40
    MB for nothing."""

    @staticmethod
    def find_spec(
        name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Refuse pandas alone."""
        if name == "pandas":
            raise ModuleNotFoundError("reading needs no pandas", name=name)
        return None


if "pandas" not in sys.modules:
    sys.meta_path.insert(0, _WithoutPandas)
    pa.array([{}])
    # Arrow asks once. A format of your own may use pandas.
    sys.meta_path.remove(_WithoutPandas)
    gc.collect()
    gc.freeze()
