"""The only caches of the dashboard, keyed by warehouse generation: a new ingest shows at once.

Values come from ``cache_resource`` and are shared between sessions without copies: read only.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import streamlit as st

from analysis.comparison import STUDY_TABLE, Comparison, compare
from dashboard import panels
from dashboard.panels import CHARTED
from warehouse import queries
from warehouse.filters import Filters
from warehouse.store import Reader, current_generation, warehouse_path


@dataclass(frozen=True)
class Shelf:
    """One generation of one warehouse: what a whole rerun of a page reads."""

    root: str
    generation: int


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
@st.cache_resource(max_entries=2, show_spinner=False)
def _reader(shelf: Shelf) -> Reader:
    return Reader(Path(shelf.root))


@st.cache_resource(max_entries=4, show_spinner=False)
def filter_options(shelf: Shelf) -> pd.DataFrame:
    """field, value, cells."""
    return _frame(queries.filter_options(_reader(shelf)))


@st.cache_resource(max_entries=32, show_spinner=False)
def cells(shelf: Shelf, filters: Filters) -> pd.DataFrame:
    """One row per cell."""
    return _frame(queries.cells(_reader(shelf), filters))


@st.cache_resource(max_entries=4, show_spinner=False)
def combinations(shelf: Shelf) -> pd.DataFrame:
    """Which filter values occur together, with the number of cells."""
    names = {
        "model": "model", "gpu": "GPU", "engine_version": "engine version", "dataset": "dataset",
        "tensor_parallel_size": "TP", "arm_label": "arm",
    }  # fmt: skip
    known = cells(shelf, Filters())[list(names)].astype(object)
    known = known.where(known.notna(), "unknown").astype(str).rename(columns=names)
    return known.value_counts().rename("cells").reset_index()


@dataclass(frozen=True)
class Question:
    """What the Compare page is asked: which cells, which metric and statistic, what may differ."""

    filters: Filters
    metric: str
    statistic: str
    allow: tuple[str, ...]


@st.cache_resource(max_entries=32, show_spinner=False)
def _comparison(
    shelf: Shelf, filters: Filters, statistics: tuple[str, ...], allow: tuple[str, ...]
) -> Comparison:
    metrics = sorted({*CHARTED, *(metric for metric, _ in STUDY_TABLE)})
    measured = queries.measurements(_reader(shelf), filters, metrics, statistics).to_pandas()
    return compare(cells(shelf, filters), measured, allow)


def study(shelf: Shelf, question: Question) -> Comparison:
    """The comparison with every statistic of the study's table and the one that was chosen."""
    chosen = {"mean", question.statistic, *(statistic for _, statistic in STUDY_TABLE)}
    return _comparison(shelf, question.filters, tuple(sorted(chosen)), question.allow)


@st.cache_resource(max_entries=32, show_spinner=False)
def pair_rows(shelf: Shelf, question: Question) -> pd.DataFrame:
    """One row per pair and charted metric at its shown statistic; see ``panels.pair_rows``."""
    found = study(shelf, question)
    return panels.pair_rows(found.pairs, cells(shelf, question.filters), question.statistic)


@st.cache_resource(max_entries=256, show_spinner=False)
def drawing(_chart: Any, shelf: Shelf, *what: Any) -> dict[str, Any]:
    """The Vega-Lite text of the chart that ``_chart()`` makes; ``what`` says which chart it is."""
    spec: dict[str, Any] = _chart().to_dict()
    return spec


@st.cache_resource(max_entries=16, show_spinner=False)
def runs(shelf: Shelf, filters: Filters) -> pd.DataFrame:
    """One row per source and run, newest first."""
    return _frame(queries.runs(_reader(shelf), filters))


@st.cache_resource(max_entries=4, show_spinner=False)
def rejections(shelf: Shelf) -> pd.DataFrame:
    """path, reason, rejected_at."""
    return _frame(queries.rejections(_reader(shelf)))


@st.cache_resource(max_entries=64, show_spinner=False)
def flags(shelf: Shelf, cell_ids: tuple[str, ...]) -> pd.DataFrame:
    """cell_id, name, severity, sentence."""
    return _frame(queries.flags(_reader(shelf), cell_ids))


@st.cache_resource(max_entries=64, show_spinner=False)
def distribution(shelf: Shelf, cell_id: str, metric: str) -> pd.DataFrame:
    """share, value: 200 points."""
    return _frame(queries.request_distribution(_reader(shelf), cell_id, metric))


@st.cache_resource(max_entries=16, show_spinner=False)
def positions(shelf: Shelf, filters: Filters) -> pd.DataFrame:
    """cell_id, source, position, rate."""
    return _frame(queries.acceptance_by_position(_reader(shelf), filters))


@st.cache_resource(max_entries=32, show_spinner=False)
def samples(shelf: Shelf, cell_id: str) -> pd.DataFrame:
    """at, name, value."""
    return _frame(queries.samples(_reader(shelf), cell_id))


@st.cache_resource(max_entries=64, show_spinner=False)
def cell_measurements(shelf: Shelf, cell_id: str) -> pd.DataFrame:
    """origin, metric, statistic, value."""
    return _frame(queries.cell_measurements(_reader(shelf), cell_id))
