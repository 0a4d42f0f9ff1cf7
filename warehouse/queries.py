"""One typed function per query: what the pages and commands may ask of the store; which runs are left out of
an answer, in words; and a run found by what people call it."""

import difflib
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq

from warehouse import annotations
from warehouse.catalogue import REQUEST_METRICS
from warehouse.errors import UnknownKey, WarehouseDamaged
from warehouse.filters import Filters
from warehouse.rows import REQUEST_SCHEMA
from warehouse.storage.cache import first_line, name_of
from warehouse.store import Reader

ECDF_POINTS = 200
#: Runs that are named in a sentence; of the others the number is told.
_NAMED = 3
_LONGEST_REASON = 160
_DIGITS = 8
_ANNOTATION_COLUMNS = pa.schema(
    {
        "said_at": pa.timestamp("us", "UTC"),
        "author": pa.string(),
        "action": pa.string(),
        "run_id": pa.string(),
        "source_id": pa.string(),
        "night": pa.string(),
        "study": pa.string(),
        "series": pa.string(),
        "text": pa.string(),
    }
)

Row = Mapping[str, Any]


def cells(reader: Reader, filters: Filters) -> pa.Table:
    """Return one row per cell: identity, facts, provenance, counts and number of flags.

    ``server_args``, ``engine_settings`` and ``speculative_config`` are JSON text; ``comparable_as``
    is ``canonical`` or ``reported: <definition>``; ``duration`` is in s, ``started_at`` and
    ``ingested_at`` UTC.
    """
    return reader.query("cells", filters=filters.as_parameters())


def cells_of_run(reader: Reader, filters: Filters, source_id: str, run_id: str) -> pa.Table:
    """Return the rows of ``cells`` of one run, without what is told of its source."""
    return reader.query(
        "cells_of_run", source_id=source_id, run_id=run_id, filters=filters.as_parameters()
    )


def run_of_cell(reader: Reader, cell_id: str) -> pa.Table:
    """Return source_id and run_id of one cell; no row where there is none."""
    return reader.query("run_of_cell", cell_id=cell_id)


def server_of_cell(reader: Reader, cell_id: str) -> pa.Table:
    """Return commands, environment (JSON text) and model_path of one cell's server; null for
    unknown."""
    return reader.query("server_of_cell", cell_id=cell_id)


def measurements(
    reader: Reader, filters: Filters, metrics: Sequence[str], statistics: Sequence[str]
) -> pa.Table:
    """Return cell_id, origin, metric, statistic, value: canonical where there is one, else
    reported."""
    return reader.query(
        "measurements",
        metrics=list(metrics),
        statistics=list(statistics),
        filters=filters.as_parameters(),
    )


def cell_measurements(reader: Reader, cell_id: str) -> pa.Table:
    """Return origin, metric, statistic, value: everything known of one cell, reported values
    too."""
    return reader.query("cell_measurements", cell_id=cell_id)


def acceptance(reader: Reader, filters: Filters) -> pa.Table:
    """Return cell_id, source, drafts, draft_tokens, accepted_tokens, rate (0-1), mean_length."""
    return reader.query("acceptance", filters=filters.as_parameters())


def acceptance_by_position(reader: Reader, filters: Filters) -> pa.Table:
    """Return cell_id, source, position (from 0), rate (accepted there / drafts, 0-1)."""
    return reader.query("acceptance_by_position", filters=filters.as_parameters())


def positions_of_cell(reader: Reader, cell_id: str) -> pa.Table:
    """Return source, position, rate of one cell."""
    return reader.query("positions_of_cell", cell_id=cell_id)


def filter_options(reader: Reader) -> pa.Table:
    """Return field, value, cells: what each filter can be set to."""
    return reader.query("filter_options")


def runs(reader: Reader, filters: Filters) -> pa.Table:
    """Return one row per source and run, newest first; commands, environment … are JSON text."""
    return reader.query("runs", filters=filters.as_parameters())


def provenances(reader: Reader, cell_ids: Collection[str]) -> pa.Table:
    """Return provenance: what was stated of where the given cells come from, each sentence once."""
    return reader.query("provenances", cell_ids=list(cell_ids))


def flags(reader: Reader, cell_ids: Collection[str]) -> pa.Table:
    """Return cell_id, name, severity, sentence of the given cells."""
    return reader.query("flags", cell_ids=list(cell_ids))


def doubts(reader: Reader, filters: Filters) -> pa.Table:
    """Return name, severity, cells, sentence: each kind of flag on the cells that the filters
    keep."""
    return reader.query("doubts", filters=filters.as_parameters())


def rejections(reader: Reader) -> pa.Table:
    """Return path, reason, rejected_at (UTC), newest first."""
    return reader.query("rejections")


def sources(reader: Reader) -> pa.Table:
    """Return one row per ingested source, newest first, with its number of cells and requests."""
    return reader.query("sources")


def samples(reader: Reader, cell_id: str) -> pa.Table:
    """Return at (unix s), name, value of the server's metrics during one cell."""
    return reader.query("samples", cell_id=cell_id)


def cells_of_grown_studies(reader: Reader, upto: datetime | None) -> int:
    """Return how many cells the studies hold that took in a source after ``upto`` (UTC); all cells
    for None."""
    return int(reader.query("cells_of_grown_studies", upto=upto).column("cells")[0].as_py())


def overview(reader: Reader) -> pa.Table:
    """Return one row: schema version and how many sources, cells, requests … there are."""
    return reader.query("overview")


def requests(reader: Reader, cell_id: str, columns: Sequence[str] | None = None) -> pa.Table:
    """Return the request rows of one cell (``rows.REQUEST_SCHEMA``); reads only that cell's file.

    No rows where the report had no request records. Raises WarehouseDamaged where the file is
    missing or unreadable.
    """
    wanted = list(columns or REQUEST_SCHEMA.names)
    files = reader.request_files([cell_id])
    if not files:
        return pa.schema([REQUEST_SCHEMA.field(name) for name in wanted]).empty_table()
    try:
        return pq.read_table(
            files, columns=wanted, filters=[("cell_id", "==", cell_id)], schema=REQUEST_SCHEMA
        )
    except (OSError, pa.ArrowInvalid) as error:
        raise WarehouseDamaged(
            f"The requests of cell {cell_id} cannot be read ({first_line(reader.root, error)}); "
            f"run draftboard warehouse check --warehouse {name_of(reader.root)}."
        ) from error


def answers(reader: Reader, cell_ids: Collection[str]) -> pa.Table:
    """Return cell_id, index, status, start (s), output_tokens, prompt_hash of every request of the
    given cells; no rows of those without request records."""
    files = [str(path) for path in reader.request_files(cell_ids)]
    names = ("cell_id", "index", "status", "start", "output_tokens", "prompt_hash")
    if not files:
        return pa.schema([REQUEST_SCHEMA.field(name) for name in names]).empty_table()
    return reader.query("answers", files=files, cell_ids=list(cell_ids))


def kinds(
    reader: Reader, cell_ids: Collection[str], by: Literal["category", "turn"] = "category"
) -> pa.Table:
    """Return cell_id, category (``turn 1`` … by turn), prompt_hash, output_tokens, drafts, draft_tokens,
    accepted_tokens, ttft, itl and tpot (ms) of every completed request in the window of the given cells;
    no rows of cells that were taken in before these were told. Raises WarehouseDamaged where a file is
    unreadable."""
    names = ("cell_id", "category", "prompt_hash", "output_tokens", "drafts", "draft_tokens",
             "accepted_tokens", "ttft", "itl", "tpot")  # fmt: skip
    try:
        there = reader.request_files(cell_ids)
        files = [str(path) for path in there if by in pq.read_schema(path).names]
    except (OSError, pa.ArrowInvalid) as error:
        raise WarehouseDamaged(
            f"A file of requests cannot be read ({first_line(reader.root, error)}); run draftboard "
            f"warehouse check --warehouse {name_of(reader.root)}."
        ) from error
    if not files:
        return pa.schema([REQUEST_SCHEMA.field(name) for name in names]).empty_table()
    return reader.query("kinds", files=files, cell_ids=list(cell_ids), by=by)


def request_distribution(reader: Reader, cell_id: str, metric: str) -> pa.Table:
    """Return share (0-1), value: 200 points of the distribution over a cell's completed requests.

    By nearest rank; no rows where the cell has none. Raises UnknownKey for a metric that requests
    do not have.
    """
    if metric not in REQUEST_METRICS:
        raise UnknownKey(
            f"Requests have no {metric!r}; choose one of {', '.join(REQUEST_METRICS)}."
        )
    files = [str(path) for path in reader.request_files([cell_id])]
    if not files:
        return pa.table({"share": pa.array([], pa.float64()), "value": pa.array([], pa.float64())})
    return reader.query(
        "request_distribution", files=files, cell_id=cell_id, metric=metric, points=ECDF_POINTS
    )


# --- Which runs are left out of an answer, in words; and a run found by what people call it.


def left_out(root: Path, filters: Filters) -> list[annotations.Annotation]:
    """Return the exclusions of the runs that ``filters`` would keep, newest run first."""
    if not annotations.excluded_runs(root):
        return []
    with Reader(root, everything=True) as reader:
        return left_out_of(reader, filters)


def left_out_of(reader: Reader, filters: Filters) -> list[annotations.Annotation]:
    """Return the exclusions of the runs that ``filters`` would keep, newest run first. ``reader``
    sees the excluded runs too."""
    excluded = annotations.excluded_runs(reader.root)
    rows = runs(reader, filters).select(["run_id", "source_id"]).to_pylist()
    targets = (annotations.AnnotationTarget(row["run_id"], row["source_id"]) for row in rows)
    return [excluded[target] for target in targets if target in excluded]


def exclusions_sentence(exclusions: Sequence[annotations.Annotation]) -> str:
    """Say which runs are excluded and why, ``3 runs are excluded by name: GPU throttled (a, b); old
    driver (c).``; empty where none is."""
    if not exclusions:
        return ""
    names_of: dict[str, list[str]] = {}
    for event in exclusions:
        reason = event.text.rstrip(".")
        if len(reason) > _LONGEST_REASON:
            reason = f"{reason[: _LONGEST_REASON - 1]}…"
        names_of.setdefault(reason, []).append(event.target.name)
    parts = [f"{reason} ({_first_few(names, ', ')})" for reason, names in names_of.items()]
    many = "1 run is" if len(exclusions) == 1 else f"{len(exclusions):,} runs are"
    return f"{many} excluded by name: {_first_few(parts, '; ')}."


def _first_few(names: Sequence[str], between: str) -> str:
    more = f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else ""
    return between.join(names[:_NAMED]) + more


def run_name(row: Row) -> str:
    """Return a name for a run that no other run has: its id and the first digits of its source."""
    return f"{row['run_id']}@{row['source_id'][:_DIGITS]}"


def find_run(rows: Sequence[Row], word: str) -> annotations.AnnotationTarget:
    """Return the run that ``word`` names: its id, ``id@source``, its path, or how one of them
    begins; the first way of reading it that finds any counts.

    ``rows``: as ``runs``. Raises UnknownKey where it names none, with the nearest ids, or
    several, with their names.
    """
    plain = word.rstrip("/")
    by_name, by_path, by_beginning = [], [], []
    for row in rows if word else ():
        run_id, path = row["run_id"], row["path"]
        if word in (run_id, run_name(row), f"{run_id} ({row['source_id'][:_DIGITS]})"):
            by_name.append(row)
        if path.rstrip("/") == plain:
            by_path.append(row)
        if run_id.startswith(word) or path.startswith(word):
            by_beginning.append(row)
    named = by_name or by_path or by_beginning
    if len(named) == 1:
        return annotations.AnnotationTarget(named[0]["run_id"], named[0]["source_id"])
    if not named:
        ids = list(dict.fromkeys(str(row["run_id"]) for row in rows))
        near = difflib.get_close_matches(word, ids, _NAMED, cutoff=0.4)
        nearest = f"the nearest are {', '.join(near)}."
        hint = nearest if near else "`draftboard runs --json` lists run_id and path."
        raise UnknownKey(f"There is no run {word!r}; {hint}")
    names = []
    for row in named:
        when = f"{row['started_at']:%Y-%m-%d %H:%M}" if row["started_at"] else "unknown when"
        names.append(f"{run_name(row)} ({when})")
    raise UnknownKey(
        f"{word!r} names {len(named):,} runs; name one of them: {_first_few(names, ', ')}."
    )


def annotations_table(root: Path) -> pa.Table:
    """Return every event as a row: said_at (UTC), author, action, run_id, source_id, night, study,
    series, text."""
    rows = [
        {"said_at": event.at, "author": event.author, "action": event.action, "text": event.text}
        | vars(event.target)
        for event in annotations.read(root)
    ]
    return pa.Table.from_pylist(rows, schema=_ANNOTATION_COLUMNS)
