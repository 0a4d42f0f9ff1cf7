"""One typed function per query: what the pages and commands may ask of the store."""

from collections.abc import Collection, Sequence
from datetime import datetime

import pyarrow as pa
import pyarrow.parquet as pq

from warehouse.catalogue import REQUEST_METRICS
from warehouse.errors import UnknownKey, WarehouseDamaged
from warehouse.filters import Filters
from warehouse.rows import REQUEST_SCHEMA
from warehouse.store_cache import name_of, said_of
from warehouse.store_read import Reader

ECDF_POINTS = 200


def cells(reader: Reader, filters: Filters) -> pa.Table:
    """Return one row per cell: identity, facts, provenance, counts and number of flags.

    ``server_args`` and ``speculative_config`` are JSON text; ``comparable_as`` is ``canonical`` or
    ``reported: <definition>``; ``duration`` is in s, ``started_at`` and ``ingested_at`` UTC.
    """
    return reader.query("cells", **filters.as_parameters())


def cells_of_run(reader: Reader, filters: Filters, source_id: str, run_id: str) -> pa.Table:
    """Return the rows of ``cells`` of one run, without what is told of its source."""
    return reader.query(
        "cells_of_run", source_id=source_id, run_id=run_id, **filters.as_parameters()
    )


def run_of_cell(reader: Reader, cell_id: str) -> pa.Table:
    """Return source_id and run_id of one cell; no row where there is none."""
    return reader.query("run_of_cell", cell_id=cell_id)


def measurements(
    reader: Reader, filters: Filters, metrics: Sequence[str], statistics: Sequence[str]
) -> pa.Table:
    """Return cell_id, origin, metric, statistic, value: canonical where there is one, else
    reported."""
    return reader.query(
        "measurements",
        metrics=list(metrics),
        statistics=list(statistics),
        **filters.as_parameters(),
    )


def cell_measurements(reader: Reader, cell_id: str) -> pa.Table:
    """Return origin, metric, statistic, value: everything known of one cell, reported values
    too."""
    return reader.query("cell_measurements", cell_id=cell_id)


def acceptance(reader: Reader, filters: Filters) -> pa.Table:
    """Return cell_id, source, drafts, draft_tokens, accepted_tokens, rate (0-1), mean_length."""
    return reader.query("acceptance", **filters.as_parameters())


def acceptance_by_position(reader: Reader, filters: Filters) -> pa.Table:
    """Return cell_id, source, position (from 0), rate (accepted there / drafts, 0-1)."""
    return reader.query("acceptance_by_position", **filters.as_parameters())


def positions_of_cell(reader: Reader, cell_id: str) -> pa.Table:
    """Return source, position, rate of one cell."""
    return reader.query("positions_of_cell", cell_id=cell_id)


def filter_options(reader: Reader) -> pa.Table:
    """Return field, value, cells: what each filter can be set to."""
    return reader.query("filter_options")


def runs(reader: Reader, filters: Filters) -> pa.Table:
    """Return one row per source and run, newest first; commands, environment … are JSON text."""
    return reader.query("runs", **filters.as_parameters())


def provenances(reader: Reader, cell_ids: Collection[str]) -> pa.Table:
    """Return provenance: what was stated of where the given cells come from, each sentence once."""
    return reader.query("provenances", cell_ids=list(cell_ids))


def flags(reader: Reader, cell_ids: Collection[str]) -> pa.Table:
    """Return cell_id, name, severity, sentence of the given cells."""
    return reader.query("flags", cell_ids=list(cell_ids))


def doubts(reader: Reader, filters: Filters) -> pa.Table:
    """Return name, severity, cells, sentence: each kind of flag on the cells that the filters
    keep."""
    return reader.query("doubts", **filters.as_parameters())


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
            f"The requests of cell {cell_id} cannot be read ({said_of(reader.root, error)}); "
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
