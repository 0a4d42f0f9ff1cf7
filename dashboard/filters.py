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
#: The filters that stand open.
_FIRST = ("model", "gpu", "dataset", "arm")
#: Bounds of the day on which a cell started, UTC, both included.
DAYS: dict[str, str] = {"since": "Started from (UTC)", "until": "Started until (UTC)"}
#: Streamlit would offer ten years around today, and drop other days of a link.
FIRST_DAY, LAST_DAY = date(2000, 1, 1), date(2100, 1, 1)


def sidebar(values: dict[str, list[str]]) -> Filters:
    """Draw a multiselect for each filter that can change something, most of them and the days that bound
    when cells started folded; what has one value only, as text. Return what is chosen.

    ``values``: filter -> the values that occur, as ``filter_options`` orders them.
    """
    state, link = st.session_state, st.query_params
    # What a link or a reader set is shown as set, and can be taken back.
    is_set = {name for name in (*LABELS, *DAYS) if state.get(name) or name in link}
    free = [name for name in LABELS if len(values[name]) > 1 or name in is_set]
    with st.sidebar:
        for name in (*LABELS, *DAYS):
            # A browser takes along to another page what its controls hold, and drops what belongs to a
            # control that it has not drawn yet: a click soon after a link was opened would lose the
            # filters. The session still knows them. When a reader goes back, what the old address says
            # wins.
            kept = state.get(name)
            if kept and name not in link:
                state[name] = kept
        chosen = {name: _box(name, values[name]) for name in free if name in _FIRST}
        with st.expander("More filters", expanded=bool(is_set - set(_FIRST))):
            chosen |= {name: _box(name, values[name]) for name in free if name not in _FIRST}
            days = {}
            for name, label in DAYS.items():
                day = st.date_input(
                    label, value=None, key=name, bind="query-params", format="YYYY-MM-DD",
                    min_value=FIRST_DAY, max_value=LAST_DAY,
                )  # fmt: skip
                days[name] = day.isoformat() if isinstance(day, date) else ""
        alone = [
            f"{LABELS[name]}: {values[name][0]}"
            for name in LABELS
            if name not in free and values[name]
        ]
        if alone:
            st.caption("  \n".join(map(plain, alone)))
    return Filters(**chosen, since=days["since"], until=days["until"])


def _box(name: str, values: list[str]) -> tuple[str, ...]:
    return tuple(
        st.multiselect(LABELS[name], values, key=name, bind="query-params", placeholder="all")
    )


def chips(filters: Filters) -> None:
    """Draw what the filters are set to; what is clicked is taken back."""
    told = {f"{LABELS[name]}: {value}": (name, value)
            for name in LABELS for value in getattr(filters, name)}  # fmt: skip
    told |= {f"{label}: {getattr(filters, name)}": (name, "")
             for name, label in DAYS.items() if getattr(filters, name)}  # fmt: skip
    if told:
        key = f"chips {list(told)}"
        st.pills(
            "Chosen in the sidebar; a click takes it back", list(told), selection_mode="multi",
            default=list(told), key=key, format_func=plain, on_change=_take_back, args=(told, key),
            label_visibility="collapsed",
        )  # fmt: skip


def _take_back(told: Mapping[str, tuple[str, str]], key: str) -> None:
    state = st.session_state
    for label in set(told) - set(state[key]):
        name, value = told[label]
        state[name] = [each for each in state[name] if each != value] if value else None


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
    rows = cells(shelf, Filters())[list(names)].astype(object)
    rows = rows.where(rows.notna(), UNKNOWN).astype(str).rename(columns=names)
    return shown(rows.value_counts().rename("cells").reset_index())


# --- What a page shows where there is nothing to show: why, and what there is instead.


def nothing(
    shelf: Shelf, sentence: str = "No result matches these filters. Remove one in the sidebar."
) -> None:
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
