"""The filters in the frame, bound to the URL: a link shows what its sender saw."""

import re
from collections.abc import Mapping
from dataclasses import replace
from datetime import date

import pandas as pd
import streamlit as st

from analysis.matching.arms import BASELINE
from dashboard.components import TableRows, plain, shown, table
from dashboard.shelf import Shelf, cached, frame
from warehouse import queries
from warehouse.filters import UNKNOWN, Filters

#: Filter (its name is also its name in the URL) -> label.
LABELS: dict[str, str] = {
    "model": "Model",
    "gpu": "GPU",
    "engine_version": "Engine version",
    "dataset": "Dataset",
    "tensor_parallel_size": "Tensor parallel size",
    "arm": "Arm",
    "study": "Study",
}
#: Bounds of the day on which a cell started, UTC, both included.
DAYS: dict[str, str] = {"since": "Started from (UTC)", "until": "Started until (UTC)"}
#: Streamlit would offer ten years around today, and drop other days of a link.
FIRST_DAY, LAST_DAY = date(2000, 1, 1), date(2100, 1, 1)


def sidebar(values: dict[str, list[str]]) -> Filters:
    """Draw one multiselect per filter, and boxes for the days that bound when cells started; return
    what is chosen.

    ``values``: filter -> the values that occur, as ``filter_options`` orders them.
    """
    with st.sidebar:
        for name in (*LABELS, *DAYS):
            # A browser takes along to another page what its controls hold, and drops what belongs to a
            # control that it has not drawn yet: a click soon after a link was opened would lose the
            # filters. The session still knows them. When a reader goes back, what the old address says
            # wins.
            kept = st.session_state.get(name)
            if kept and name not in st.query_params:
                st.session_state[name] = kept
        chosen = {
            field: tuple(
                st.multiselect(
                    label, values[field], key=field, bind="query-params", placeholder="all"
                )
            )
            for field, label in LABELS.items()
        }
        days = {}
        for name, label in DAYS.items():
            day = st.date_input(
                label, value=None, key=name, bind="query-params", format="YYYY-MM-DD",
                min_value=FIRST_DAY, max_value=LAST_DAY,
            )  # fmt: skip
            days[name] = day.isoformat() if isinstance(day, date) else ""
    return Filters(**chosen, since=days["since"], until=days["until"])


def keep(chosen: Mapping[str, str]) -> None:
    """Set filters to one value each: for a callback, which runs before they are drawn."""
    for name, value in chosen.items():
        st.session_state[name] = [value]


def _natural(text: str) -> list[tuple[int, str]]:
    """Return a sort key that puts K=3 before K=10."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", text)]


# --- What there is to choose from: filter values, arms and cells, cached by warehouse generation.
#
# Values come from ``cache_resource`` and are shared between sessions without copies: read only.


@cached
def filter_options(shelf: Shelf) -> dict[str, list[str]]:
    """Return filter -> the values that it can be set to, in natural order."""
    rows = queries.filter_options(shelf.reader).to_pylist()
    return {
        field: sorted((str(row["value"]) for row in rows if row["field"] == field), key=_natural)
        for field in LABELS
    }


@cached
def cells(shelf: Shelf, filters: Filters) -> pd.DataFrame:
    """Return one row per cell."""
    return frame(queries.cells(shelf.reader, filters))


@cached
def arms(shelf: Shelf, filters: Filters) -> list[str]:
    """Return the arms that there are whatever the filter of arms says, the baseline first."""
    there = set(cells(shelf, replace(filters, arm=()))["arm_label"]) - {BASELINE, UNKNOWN}
    return [BASELINE, *(name for name in filter_options(shelf)["arm"] if name in there)]


@cached
def _combinations(shelf: Shelf) -> TableRows:
    names = {
        "model": "model", "gpu": "GPU", "engine_version": "engine version", "dataset": "dataset",
        "tensor_parallel_size": "TP", "arm_label": "arm",
    }  # fmt: skip
    known = cells(shelf, Filters())[list(names)].astype(object)
    known = known.where(known.notna(), "unknown").astype(str).rename(columns=names)
    return shown(known.value_counts().rename("cells").reset_index())


# --- What a page shows where there is nothing to show: why, and what there is instead.


def nothing(shelf: Shelf, sentence: str) -> None:
    """Say that the warehouse is empty, or ``sentence`` and which combinations have results."""
    if cells(shelf, Filters()).empty:
        if not cells(shelf.with_excluded(), Filters()).empty:
            st.info("Every run is excluded by name; take one back on the page Data.")
            return
        st.info("The warehouse is empty. Add results with: draftboard ingest PATHS")
        return
    st.info(plain(sentence))
    st.markdown("These combinations have results:")
    table(_combinations(shelf), "combinations")
