"""Reads one unit: opens it, asks whether it is known, parses, checks, cleans, writes a draft.

What is wrong with the unit is raised as InvalidInput; what is wrong with the warehouse as another
DraftboardError.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import chain
from pathlib import Path

from ingest import lines, table
from ingest.belonging import of_first, stood_for, with_companions
from ingest.checks import finished, require_storable, with_attainment, without_uncounted
from ingest.clean import clean_cell, clean_text
from ingest.discovery import Unit, unreadable
from ingest.exchange import Known, Options, Read, Result, Table
from ingest.formats import drop as drops
from ingest.formats import vllm_sweep
from ingest.model import Content, Context, Parsed
from ingest.read import open_content
from ingest.settings import facts_beside
from ingest.sniff import is_report, sniff
from ingest.table import ColumnMap
from ingest.unreadable import BROKEN, sentence
from warehouse.beside import is_published_table
from warehouse.errors import DraftboardError, InvalidInput, UnknownKey
from warehouse.rows import Cell, Source
from warehouse.secrets import scrub
from warehouse.store_draft import Draft, write_draft
from warehouse.store_files import full_disk_explained

_NO_TEXT = "This is no text in UTF-8: convert it to UTF-8 first."
#: Whether the warehouse holds the content of this hash.
IsKnown = Callable[[str], bool]

#: A published table is YAML; results are JSON.
_TABLES = (".yaml", ".yml")
_ROW = re.compile(rb"\b(baseline|speculative|acceptance_rate|usd_per_hour)[\"']?[ \t]*:")
#: Up to here hashing takes less than decoding by far: bytes.
_SMALL = 4 << 20


def read_unit(unit: Unit, options: Options, root: Path, is_known: IsKnown) -> Result:
    """Read a unit and return what it holds; its requests are written into the warehouse at
    ``root``, privately."""
    told = _told(unit, options)
    if unit.is_drop:
        return _drop(unit, told, root, is_known)
    if unit.path.suffix in _TABLES and not is_report(unit.path) and _may_be_table(unit.path):
        return _table(unit)
    return _file(unit, told, root, is_known)


def _told(unit: Unit, options: Options) -> Options:
    """Return the options for one result: ``--set`` wins over ``--facts``, that over a
    ``meta.json``. A drop has a record that says it all.
    """
    try:
        facts = {} if unit.is_drop else facts_beside(unit.path)
        facts |= {} if options.facts is None else options.facts.of(unit.path)
    except UnknownKey as error:
        raise InvalidInput(str(error)) from None
    return replace(options, settings=facts | options.settings, facts=None)


def _file(unit: Unit, options: Options, root: Path, is_known: IsKnown) -> Result:
    content = _open(unit.path)
    vllm_sweep.check_not_failure(content)
    small = content.data.nbytes < _SMALL
    if small and is_known(content.sha256()):
        return Known()
    # A large one is decoded before it is known whether it is new, while another core hashes it.
    context = Context(content.sha256, options.settings, options.keep_text)
    parsed = _parse(content, context, options.columns)
    source_id = content.sha256()
    if not small and is_known(source_id):
        return Known()
    source = _source(unit, source_id, content, parsed, options)
    if parsed.apart:
        return _apart(source, parsed, options, root, is_known)
    draft = _draft(source, parsed.cells, options, root)
    replaced = tuple(stood_for(content))
    grown = (lines.former(one.data) for one in replaced if one.path.suffix == ".jsonl")
    count = len(content.beside)
    return Read(
        (draft,),
        # So were the ids of results of several files before they told the run.
        former=(of_first(content, count),) if count else (),
        shorter=(*parsed.former, *chain.from_iterable(grown)),
        replaced=tuple(one.sha256() for one in replaced),
        beside=None if content.alone is None else count,
    )


def _apart(
    source: Source, parsed: Parsed, options: Options, root: Path, is_known: IsKnown
) -> Read | Known:
    """Return a draft for each result of a collection that is not known yet."""
    drafts: list[Draft] = []
    try:
        for source_id, cells in parsed.apart:
            if not is_known(source_id):
                one = replace(source, source_id=source_id)
                drafts.append(_draft(one, cells, options, root))
    except BaseException:
        for draft in drafts:
            draft.discard()
        raise
    # The whole file was one source before its results were sources of their own.
    return Read(tuple(drafts), (source.source_id,)) if drafts else Known()


def _may_be_table(path: Path) -> bool:
    """Return whether a YAML file is meant as a published table: by its name, or by its rows."""
    return is_published_table(path) or _ROW.search(bytes(_open(path).data)) is not None


def _table(unit: Unit) -> Result:
    """Return a published table, kept as it is; it is read once to see that it can be."""
    # Not above: it is rare, and takes as long to import as a hundred small reports to read.
    from analysis.published.claims import judge
    from analysis.published.claims_file import read_claims

    try:
        text = unit.path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = unreadable(error) if isinstance(error, OSError) else _NO_TEXT
        raise InvalidInput(why) from None
    judge(read_claims(text, unit.path.name))
    return Table(unit.path.name, text)


def _drop(unit: Unit, options: Options, root: Path, is_known: IsKnown) -> Result:
    try:
        drop = drops.open_drop(unit.path)
    except OSError as error:
        raise InvalidInput(unreadable(error)) from None
    content = None if drop.report is None else _open(drop.report)
    count = 0 if content is None else len(content.beside)

    def with_first(files: int) -> str:
        return drop.source_id(None if content is None else of_first(content, files))

    source_id = with_first(count)
    if is_known(source_id):
        return Known()
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
    draft = _draft(source, parsed.cells, options, root)
    return Read((draft,), former=tuple(map(with_first, range(count))))


def _open(path: Path) -> Content:
    try:
        return with_companions(open_content(path))
    except OSError as error:
        raise InvalidInput(unreadable(error)) from None


def _parse(content: Content, context: Context, columns: ColumnMap | None = None) -> Parsed:
    try:
        if columns is None:
            parsed = sniff(content).parse(content, context)
        else:
            parsed = table.parse(content, context, columns)
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
    unit: Unit, source_id: str, content: Content | None, parsed: Parsed, options: Options
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


def _draft(source: Source, cells: Iterator[Cell], options: Options, root: Path) -> Draft:
    try:
        with full_disk_explained(root):
            return write_draft(root, source, _ready(cells, options.keep_text))
    except OSError as error:
        raise DraftboardError(
            f"{root} could not be written ({error.strerror or error}): what was published stays; "
            "look at its disk, then run the same command again."
        ) from None


def _ready(cells: Iterator[Cell], keep_text: bool) -> Iterator[Cell]:
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
