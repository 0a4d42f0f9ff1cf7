"""What there is to choose from: filter values, arms and cells, cached by warehouse generation.

Values come from ``cache_resource`` and are shared between sessions without copies: read only.
"""

from dataclasses import replace

import pandas as pd
import streamlit as st

from analysis.matching.reference import BASELINE
from dashboard.components import Shown, plain, shown, table
from dashboard.filters import option_values
from dashboard.shelf import Shelf, cached, frame
from warehouse import queries
from warehouse.filters import UNKNOWN, Filters


@cached
def filter_options(shelf: Shelf) -> dict[str, list[str]]:
    """Return filter -> the values that it can be set to."""
    return option_values(frame(queries.filter_options(shelf.reader)))


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
def combinations(shelf: Shelf) -> Shown:
    """Return which filter values occur together, with the number of cells."""
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
    table(combinations(shelf), "combinations")
