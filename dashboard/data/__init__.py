"""What several pages read, cached by warehouse generation: a new ingest shows at once.

Values come from ``cache_resource`` and are shared between sessions without copies: read only.
"""

from dataclasses import replace

import pandas as pd

from analysis.matching.reference import BASELINE
from dashboard.answers import Drawing
from dashboard.cells import OneRun, newest_runs, one_run, run_rows, summary
from dashboard.components import Shown, shown
from dashboard.depth import DISTRIBUTIONS, acceptance, distributions, server
from dashboard.filters import option_values
from dashboard.shelf import Shelf, cached, frame, reader
from warehouse import queries
from warehouse.filters import UNKNOWN, Filters


@cached(4)
def filter_options(shelf: Shelf) -> dict[str, list[str]]:
    """Filter -> the values that it can be set to."""
    return option_values(frame(queries.filter_options(reader(shelf))))


@cached(32)
def cells(shelf: Shelf, filters: Filters) -> pd.DataFrame:
    """One row per cell."""
    return frame(queries.cells(reader(shelf), filters))


@cached(32)
def arms(shelf: Shelf, filters: Filters) -> list[str]:
    """The arms that there are whatever the filter of arms says, the baseline first."""
    there = set(cells(shelf, replace(filters, arm=()))["arm_label"]) - {BASELINE, UNKNOWN}
    return [BASELINE, *(name for name in filter_options(shelf)["arm"] if name in there)]


@cached(4)
def combinations(shelf: Shelf) -> Shown:
    """Which filter values occur together, with the number of cells."""
    names = {
        "model": "model", "gpu": "GPU", "engine_version": "engine version", "dataset": "dataset",
        "tensor_parallel_size": "TP", "arm_label": "arm",
    }  # fmt: skip
    known = cells(shelf, Filters())[list(names)].astype(object)
    known = known.where(known.notna(), "unknown").astype(str).rename(columns=names)
    return shown(known.value_counts().rename("cells").reset_index())


@cached(16)
def runs(shelf: Shelf, filters: Filters) -> pd.DataFrame:
    """One row per source and run, newest first."""
    return frame(queries.runs(reader(shelf), filters))


@cached(16)
def runs_table(shelf: Shelf, filters: Filters) -> tuple[str, Shown]:
    """All runs in a sentence and the newest in a table."""
    known, rejected = runs(shelf, filters), len(rejections(shelf))
    return summary(known, rejected), shown(run_rows(known))


@cached(64)
def run_names(shelf: Shelf, filters: Filters, text: str, asked: str) -> tuple[dict[str, int], int]:
    """Name -> row of the newest runs that hold ``text`` (and of ``asked``); how many hold it."""
    return newest_runs(runs(shelf, filters), text, asked)


@cached(64)
def run(shelf: Shelf, filters: Filters, row: int) -> OneRun:
    """One run of ``runs`` with its cells and flags."""
    head = runs(shelf, filters).iloc[row]
    known = cells(shelf, filters)
    same = (known["source_id"] == head["source_id"]) & (known["run_id"] == head["run_id"])
    known = known[same].reset_index(drop=True)
    return one_run(head, known, frame(queries.flags(reader(shelf), list(known["cell_id"]))))


@cached(4)
def rejections(shelf: Shelf) -> pd.DataFrame:
    """path, reason, rejected_at."""
    return frame(queries.rejections(reader(shelf)))


@cached(64)
def cell_drawings(
    shelf: Shelf, filters: Filters, cell_id: str
) -> tuple[list[Drawing], list[Drawing]]:
    """Distributions of a cell's requests, and its acceptance by position."""
    known = cells(shelf, filters)
    cell = known[known["cell_id"] == cell_id].iloc[0]
    rows = {m: frame(queries.request_distribution(reader(shelf), cell_id, m))
            for m in DISTRIBUTIONS}  # fmt: skip
    places = positions(shelf, filters)
    return distributions(cell, rows), acceptance(cell, places[places["cell_id"] == cell_id])


@cached(16)
def positions(shelf: Shelf, filters: Filters) -> pd.DataFrame:
    """cell_id, source, position, rate."""
    return frame(queries.acceptance_by_position(reader(shelf), filters))


@cached(32)
def server_names(shelf: Shelf, cell_id: str) -> list[str]:
    """The server metrics that were sampled during a cell."""
    return sorted(_samples(shelf, cell_id)["name"].unique())


@cached(32)
def server_drawing(shelf: Shelf, cell_id: str, name: str, note: str) -> Drawing:
    """One server metric over the time of a cell."""
    return server(_samples(shelf, cell_id), name, note)


@cached(32)
def _samples(shelf: Shelf, cell_id: str) -> pd.DataFrame:
    return frame(queries.samples(reader(shelf), cell_id))


@cached(64)
def cell_measurements(shelf: Shelf, cell_id: str) -> Shown:
    """origin, metric, statistic, value."""
    return shown(frame(queries.cell_measurements(reader(shelf), cell_id)))
