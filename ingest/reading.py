"""Reads one unit: opens it, looks whether it is known, parses, checks, cleans, writes a draft.

Only a process that reads imports this. What is wrong with the unit is raised as InvalidInput; what is
wrong with the warehouse as another DraftboardError.
"""

import gc
import itertools
import math
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from importlib.machinery import ModuleSpec
from itertools import chain
from pathlib import Path
from types import ModuleType

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet
from numpy.typing import NDArray

from analysis.drafts.acceptance import cross_check
from analysis.flags.lints import lint
from analysis.flags.validity import defects
from ingest import stated, table
from ingest.clean import clean_cell, clean_text
from ingest.discovery import is_report, of_first, sniff, stood_for, unreadable, with_companions
from ingest.formats import drop as drops
from ingest.formats import vllm_sweep
from ingest.kinds import PromptKinds
from ingest.model import (
    ClaimsTable,
    Context,
    FileContent,
    IngestOptions,
    Parsed,
    ReadResult,
    Unit,
    open_content,
)
from ingest.settings import facts_beside
from ingest.stated import BROKEN, sentence
from warehouse.beside import is_published_table
from warehouse.catalogue import (
    LONGEST_CELL_S,
    METRICS,
    MOST_REQUESTS,
    PERCENTILES,
    REQUEST_METRICS,
    Metric,
    percentile_label,
)
from warehouse.defects import known_defects
from warehouse.errors import DraftboardError, InvalidInput, UnknownKey
from warehouse.loads import load_of
from warehouse.rows import COMPLETED, Acceptance, Cell, Measurement, Origin, Source
from warehouse.secrets import scrub
from warehouse.storage.draft import Draft, write_draft
from warehouse.storage.files import full_disk_explained

# --- What every cell goes through before it is taken in, step by step as ``_stored`` calls them.
#
# Zeros that stand for what nobody counted: load generators write 0 where they have no value.


#: Of a completed request none of these is 0. A rate of requests may be.
_NEVER_ZERO = frozenset(
    {"output_throughput", "total_throughput", "ttft", "itl", "tpot", "chunk_gap",
     "request_latency", "prompt_tokens", "output_tokens"}
)  # fmt: skip


def without_uncounted(cell: Cell) -> Cell:
    """Return the cell without reported metrics whose mean of completed requests is 0: they are
    unknown. A server without streaming has no first token, one that says no usage no tokens;
    GuideLLM and ``vllm bench`` then report 0 for every statistic.
    """
    unknown = {
        m.metric
        for m in cell.measurements
        if (m.origin, m.statistic, m.value) == ("reported", "mean", 0) and m.metric in _NEVER_ZERO
    }
    if not unknown:
        return cell
    kept = (m for m in cell.measurements if m.origin != "reported" or m.metric not in unknown)
    return replace(cell, measurements=tuple(kept))


# --- How much of what was offered was served: a measurement of cells with a rate or a trace.


def with_attainment(cell: Cell) -> Cell:
    """Return the cell with its attainment; unchanged where no rate was offered, none is known, or
    the load was over too soon to tell. Of a trace it is the time in which its requests came over
    that in which they were completed: 1 where a server keeps up, less where they pile up.
    """
    facts = cell.facts
    load = load_of(facts.load_profile, facts.concurrency, facts.rate, facts.trace)
    starts, ends = (_completed(cell, column) for column in ("start", "end"))
    both_known = starts.size > 0 and starts.size == ends.size
    # Requests came for less than the median one took: a server that takes all of them at once
    # completes all of them late and together, at many times the rate.
    if load is None or (both_known and np.ptp(starts) < np.median(ends - starts)):
        return cell
    came, done = (float(np.ptp(one)) if one.size else 0.0 for one in (starts, ends))
    found: dict[Origin, float] = {}
    if load.kind == "trace":
        if came and done:
            found["canonical"] = came / done
    elif load.offered_rate is not None:
        # From the first completion to the last: over the whole window a server that keeps up would
        # seem not to, for the time that its last requests take.
        if done > 0:
            found["canonical"] = (ends.size - 1) / done / load.offered_rate
        for m in cell.measurements:
            if (m.origin, m.metric, m.statistic) == ("reported", "request_throughput", "mean"):
                found.setdefault("reported", m.value / load.offered_rate)
    more = (
        Measurement(origin, "request_attainment", "mean", value) for origin, value in found.items()
    )
    return replace(cell, measurements=(*cell.measurements, *more))


def _completed(cell: Cell, column: str) -> NDArray[np.float64]:
    """Return a column of the completed requests in the window; empty where not all requests are
    known.
    """
    if cell.requests is None or not cell.requests_complete:
        return np.empty(0)
    rows = cell.requests
    inside = (rows["status"].to_numpy() == COMPLETED) & rows["in_window"].to_numpy()
    times: NDArray[np.float64] = rows[column].to_numpy().astype(np.float64)[inside]
    return np.asarray(times[~np.isnan(times)])


# --- Which of several counts of a cell's acceptance is shown, and what the others say about it.


_METRICS = ("acceptance_rate", "mean_acceptance_length")


def finished(cell: Cell) -> Cell:
    """Return the cell with its best acceptance among the measurements and with all flags."""
    counts = tuple(
        sorted(
            cell.acceptance, key=lambda a: ("counters", "requests", "vllm_bench").index(a.source)
        )
    )
    values = [
        m for m in cell.measurements if not (m.origin == "canonical" and m.metric in _METRICS)
    ]
    usable = next((a for a in counts if a.drafts or a.rate is not None), None)
    if usable is not None:
        values += [
            Measurement("canonical", metric, "mean", value)
            for metric, value in zip(_METRICS, (usable.rate, usable.mean_length), strict=True)
            if value is not None
        ]
    flags = (*cell.flags, *cross_check(counts))
    cell = replace(cell, acceptance=counts, measurements=tuple(values), flags=flags)
    # Each once: a format and a lint may raise the same doubt.
    doubts = (*flags, *lint(cell), *defects(cell, known_defects()))
    return replace(cell, flags=tuple(dict.fromkeys(doubts)))


# --- What makes a cell broken rather than doubtful: numbers that cannot be true. Those are rejected.


#: Two readings of one clock may differ by its resolution.
_CLOCK = 1e-6
#: What reports round away, as a share and in a metric's unit.
_ROUNDED, _ROUNDED_BY = 0.01, 0.011
_RISING = ("min", *PERCENTILES, "max")


def require_storable(cell: Cell) -> None:
    """Raise InvalidInput with the first impossible number of the cell."""
    for wrong in _impossible(cell):
        raise InvalidInput(
            f"Benchmark {cell.index} of this report has {wrong}, which cannot be; the file was "
            "altered or its clock jumped, so measure it again."
        )


def _impossible(cell: Cell) -> Iterator[str]:
    if cell.duration is not None and not 0 <= cell.duration <= LONGEST_CELL_S:
        yield f"a duration of {cell.duration:g} s"
    for name in ("requests_made", "completed", "errored", "incomplete"):
        if not 0 <= (getattr(cell, name) or 0) <= MOST_REQUESTS:
            yield f"{getattr(cell, name):.15g} requests {name.removeprefix('requests_')}"
    for acceptance in cell.acceptance:
        yield from _impossible_acceptance(acceptance)
    for one in cell.measurements:
        # How far values spread is no value: it may be below the lowest, but never below zero.
        metric, is_spread = METRICS[one.metric], one.statistic == "std"
        if not (0 <= one.value <= metric.highest if is_spread else _plausible(metric, one.value)):
            what = f"{'standard deviation of the ' * is_spread}{metric.label}"
            yield f"a {what} of {one.value:g} {metric.unit}"
    for sample in cell.samples:
        if sample.value < 0:
            yield f"a sample of {sample.name} of {sample.value:g}"
    yield from _disordered(cell)
    if cell.requests is not None:
        yield from _impossible_requests(cell.requests)


def _impossible_requests(requests: pa.Table) -> Iterator[str]:
    for name in REQUEST_METRICS:
        metric = METRICS[name]
        for value in pc.min_max(requests.column(name)).as_py().values():
            if not _plausible(metric, value):
                yield f"a request with a {metric.label} of {value:g} {metric.unit}"


def _impossible_acceptance(a: Acceptance) -> Iterator[str]:
    rate, length = METRICS["acceptance_rate"], METRICS["mean_acceptance_length"]
    if any(not _plausible(rate, one) for one in (a.rate, *a.by_position)):
        yield "an acceptance rate outside 0 to 1"
    if any((count or 0) < 0 for count in (a.drafts, a.draft_tokens, a.accepted_tokens)):
        yield "a negative count of draft tokens"
    if a.draft_tokens is not None and (a.accepted_tokens or 0) > a.draft_tokens:
        yield f"{a.accepted_tokens:.15g} accepted of {a.draft_tokens:.15g} drafted tokens"
    if not _plausible(length, a.mean_length):
        yield f"a mean acceptance length of {a.mean_length:g}"


def _disordered(cell: Cell) -> Iterator[str]:
    found: dict[tuple[str, str], dict[str, float]] = {}
    for one in cell.measurements:
        found.setdefault((one.origin, one.metric), {})[one.statistic] = one.value
    for (_, key), values in found.items():
        known = [(name, values[name]) for name in _RISING if name in values]
        for (low, lower), (high, upper) in itertools.pairwise(known):
            if upper < lower - max(_ROUNDED * abs(lower), _ROUNDED_BY):
                yield (
                    f"a {METRICS[key].label} whose {percentile_label(high)} ({upper:g}) is below "
                    f"its {percentile_label(low)} ({lower:g} {METRICS[key].unit})"
                )


def _plausible(metric: Metric, value: float | None) -> bool:
    """Return whether a value may be true; an unknown one may. An infinite one never is."""
    if value is None:
        return True
    return metric.lowest - _CLOCK <= value <= metric.highest + _CLOCK and math.isfinite(value)


# --- One unit read: a file, a drop, or a published table.


_ROW = re.compile(rb"\b(baseline|speculative|acceptance_rate|usd_per_hour)[\"']?[ \t]*:")


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
    # A published table is YAML; results are JSON.
    is_yaml = unit.path.suffix in (".yaml", ".yml") and not is_report(unit.path)
    if is_yaml and (is_published_table(unit.path) or _ROW.search(bytes(_open(unit.path).data))):
        return _table(unit.path)
    return _file(unit, options, root, known)


def _file(
    unit: Unit, options: IngestOptions, root: Path, known: frozenset[str]
) -> ReadResult | None:
    content = _open(unit.path)
    vllm_sweep.check_not_failure(content)
    # Up to here hashing takes less than decoding by far: bytes.
    if content.data.nbytes < 4 << 20 and content.sha256() in known:
        return None
    # A large one is decoded before it is known whether it is new, while another core hashes it.
    parsed = _parsed(
        content, Context(content.sha256, options.settings, options.keep_text), options.columns
    )
    kinds = PromptKinds(options.categories, {})
    parsed = replace(
        parsed, cells=kinds.added(parsed.cells),
        apart=tuple((own, kinds.added(cells)) for own, cells in parsed.apart),
    )  # fmt: skip
    source_id = content.sha256()
    if source_id in known:
        return None
    source = _source(unit, source_id, content, parsed, options, kinds)
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
    """Return a published table, kept as it is; it is read once to see that it can be.
    Not above: it is rare, and takes as long to import as a hundred small reports to read.
    """
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
    kinds = PromptKinds(options.categories, drop.record.prompt_categories or {})
    if content is None:
        parsed = Parsed(drops.NAME, {}, iter([drops.failed_cell(drop, ids[-1], options.settings)]))
    else:
        facts = drop.facts() | options.settings
        parsed = _parsed(content, Context(partial(str, ids[-1]), facts, options.keep_text))
        parsed = replace(parsed, cells=kinds.added(drops.with_drop(parsed.cells, drop)))
    source = replace(
        _source(unit, ids[-1], content, parsed, options, kinds),
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


def _parsed(
    content: FileContent, context: Context, columns: table.ColumnMap | None = None
) -> Parsed:
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
    result among others.
    """
    failed: set[bool] = set()
    for cell in cells:
        failed.add(cell.status == "failed")
        yield cell
    if failed == {True}:
        raise InvalidInput(
            "This report has no successful request; look at its errors and run the benchmark again."
        )


def _source(
    unit: Unit, source_id: str, content: FileContent | None, parsed: Parsed, options: IngestOptions,
    kinds: PromptKinds,
) -> Source:  # fmt: skip
    # What reads it once more (``--rebuild``).
    again = {} if options.columns is None else {"columns": dict(options.columns.stated)}
    # Filled while its cells are read.
    used = {"categories": kinds.used} if options.categories else {}
    return Source(
        source_id=source_id,
        path=clean_text(str(unit.path)),
        format=parsed.format,
        bytes=unit.bytes if content is None else content.data.nbytes,
        settings=scrub(options.settings | again) | used,
        report_config=scrub(parsed.report_config),
    )


def _drafts(
    sources: Sequence[tuple[Source, Iterator[Cell]]], options: IngestOptions, root: Path
) -> tuple[Draft, ...]:
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
    InvalidInput.
    """
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
    MB for nothing.
    """

    @staticmethod
    def find_spec(
        name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
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

# A process that is ended while it begins (the last report was read, its queue is gone) has nothing to
# tell: multiprocessing would print where it was, into the command's output.
sys.excepthook = lambda *_: None
