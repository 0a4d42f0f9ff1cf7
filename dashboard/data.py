"""The only caches of the dashboard, keyed by warehouse generation: a new ingest shows at once.

Values come from ``cache_resource`` and are shared between sessions without copies: read only.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar, cast

import pandas as pd
import pyarrow as pa
import streamlit as st

from analysis.comparison import METRICS_READ, STATISTICS_READ, Comparison, compare
from dashboard import answers
from dashboard.answers import Answer, Drawing
from dashboard.cells import RUN_COLUMNS, OneRun, newest_runs, one_run, summary
from dashboard.components import Shown, shown
from dashboard.depth import DISTRIBUTIONS, acceptance, distributions, server
from dashboard.filters import option_values
from dashboard.panels import CHARTED
from warehouse import queries
from warehouse.filters import Filters
from warehouse.store import Reader, current_generation, warehouse_path


@dataclass(frozen=True)
class Shelf:
    """One generation of one warehouse: what a whole rerun of a page reads."""

    root: str
    generation: int


@dataclass(frozen=True)
class Question:
    """What the Compare page is asked: which cells, which statistic, what may differ."""

    filters: Filters
    statistic: str
    allow: tuple[str, ...]


Call = TypeVar("Call", bound=Callable[..., Any])
#: Text is a quicker key than what Streamlit makes of a dataclass.
_SHORT: dict[str | type[Any], Callable[[Any], Any]] = {Shelf: repr, Question: repr, Filters: repr}


def _cached(entries: int) -> Callable[[Call], Call]:
    """A cache of the last ``entries`` answers of a function."""
    keep = st.cache_resource(max_entries=entries, show_spinner=False, hash_funcs=_SHORT)
    return cast(Callable[[Call], Call], keep)


def open_shelf() -> Shelf:
    """The newest generation. Raises WarehouseMissing where there is none."""
    root = warehouse_path(None)
    generation = current_generation(root)
    if generation is None:
        with Reader(root) as reader:
            generation = reader.generation
    return Shelf(str(root), generation)


def _frame(rows: pa.Table) -> pd.DataFrame:
    frame: pd.DataFrame = rows.to_pandas()
    return frame


# A reader that the cache lets go of is not closed: another session may be in the middle of a query.
@_cached(2)
def _reader(shelf: Shelf) -> Reader:
    return Reader(Path(shelf.root))


@_cached(4)
def filter_options(shelf: Shelf) -> dict[str, list[str]]:
    """Filter -> the values that it can be set to."""
    return option_values(_frame(queries.filter_options(_reader(shelf))))


@_cached(32)
def cells(shelf: Shelf, filters: Filters) -> pd.DataFrame:
    """One row per cell."""
    return _frame(queries.cells(_reader(shelf), filters))


@_cached(4)
def combinations(shelf: Shelf) -> Shown:
    """Which filter values occur together, with the number of cells."""
    names = {
        "model": "model", "gpu": "GPU", "engine_version": "engine version", "dataset": "dataset",
        "tensor_parallel_size": "TP", "arm_label": "arm",
    }  # fmt: skip
    known = cells(shelf, Filters())[list(names)].astype(object)
    known = known.where(known.notna(), "unknown").astype(str).rename(columns=names)
    return shown(known.value_counts().rename("cells").reset_index())


@_cached(32)
def _comparison(
    shelf: Shelf, filters: Filters, statistics: tuple[str, ...], allow: tuple[str, ...]
) -> Comparison:
    metrics = sorted({*CHARTED, *METRICS_READ})
    reader, chosen = _reader(shelf), cells(shelf, filters)
    measured = _frame(queries.measurements(reader, filters, metrics, statistics))
    doubtful = list(chosen.loc[chosen["flags"] > 0, "cell_id"])
    doubts = _frame(queries.flags(reader, doubtful)) if doubtful else None
    return compare(chosen, measured, allow, doubts)


def study(shelf: Shelf, question: Question) -> Comparison:
    """The comparison with every statistic of the study's table and the one that was chosen."""
    chosen = {question.statistic, *STATISTICS_READ}
    return _comparison(shelf, question.filters, tuple(sorted(chosen)), question.allow)


@_cached(32)
def answer(shelf: Shelf, question: Question) -> Answer:
    """What the Compare page says; see ``answers.answer``."""
    return answers.answer(
        study(shelf, question), cells(shelf, question.filters), question.statistic
    )


@_cached(64)
def improvement_drawings(shelf: Shelf, question: Question, metric: str) -> list[Drawing]:
    """One chart per panel; see ``answers.improvement_drawings``."""
    return answers.improvement_drawings(answer(shelf, question), metric)


@_cached(64)
def metric_drawings(shelf: Shelf, question: Question, panel: str) -> list[Drawing]:
    """One chart per metric; see ``answers.metric_drawings``."""
    return answers.metric_drawings(answer(shelf, question), panel, question.statistic)


@_cached(16)
def runs(shelf: Shelf, filters: Filters) -> pd.DataFrame:
    """One row per source and run, newest first."""
    return _frame(queries.runs(_reader(shelf), filters))


@_cached(16)
def runs_table(shelf: Shelf, filters: Filters) -> tuple[str, Shown]:
    """All runs in a sentence and the newest in a table."""
    known, rejected = runs(shelf, filters), len(rejections(shelf))
    return summary(known, rejected), shown(known[list(RUN_COLUMNS)])


@_cached(64)
def run_names(shelf: Shelf, filters: Filters, text: str, asked: str) -> tuple[dict[str, int], int]:
    """Name -> row of the newest runs that hold ``text`` (and of ``asked``); how many hold it."""
    return newest_runs(runs(shelf, filters), text, asked)


@_cached(64)
def run(shelf: Shelf, filters: Filters, row: int) -> OneRun:
    """One run of ``runs`` with its cells and flags."""
    head = runs(shelf, filters).iloc[row]
    known = cells(shelf, filters)
    same = (known["source_id"] == head["source_id"]) & (known["run_id"] == head["run_id"])
    known = known[same].reset_index(drop=True)
    return one_run(head, known, _frame(queries.flags(_reader(shelf), list(known["cell_id"]))))


@_cached(4)
def rejections(shelf: Shelf) -> pd.DataFrame:
    """path, reason, rejected_at."""
    return _frame(queries.rejections(_reader(shelf)))


@_cached(64)
def cell_drawings(
    shelf: Shelf, filters: Filters, cell_id: str
) -> tuple[list[Drawing], list[Drawing]]:
    """Distributions of a cell's requests, and its acceptance by position."""
    known = cells(shelf, filters)
    cell = known[known["cell_id"] == cell_id].iloc[0]
    rows = {m: _frame(queries.request_distribution(_reader(shelf), cell_id, m))
            for m in DISTRIBUTIONS}  # fmt: skip
    places = positions(shelf, filters)
    return distributions(cell, rows), acceptance(cell, places[places["cell_id"] == cell_id])


@_cached(16)
def positions(shelf: Shelf, filters: Filters) -> pd.DataFrame:
    """cell_id, source, position, rate."""
    return _frame(queries.acceptance_by_position(_reader(shelf), filters))


@_cached(32)
def server_names(shelf: Shelf, cell_id: str) -> list[str]:
    """The server metrics that were sampled during a cell."""
    return sorted(_samples(shelf, cell_id)["name"].unique())


@_cached(32)
def server_drawing(shelf: Shelf, cell_id: str, name: str, note: str) -> Drawing:
    """One server metric over the time of a cell."""
    return server(_samples(shelf, cell_id), name, note)


@_cached(32)
def _samples(shelf: Shelf, cell_id: str) -> pd.DataFrame:
    return _frame(queries.samples(_reader(shelf), cell_id))


@_cached(64)
def cell_measurements(shelf: Shelf, cell_id: str) -> Shown:
    """origin, metric, statistic, value."""
    return shown(_frame(queries.cell_measurements(_reader(shelf), cell_id)))
