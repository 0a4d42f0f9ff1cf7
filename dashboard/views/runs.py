"""Runs: what was ingested, where it comes from, what is doubtful about it, and one cell in depth."""

import json

import pandas as pd
import streamlit as st

from dashboard import data
from dashboard.cells import CELL_COLUMNS, RUN_COLUMNS, cell_names, run_names
from dashboard.components import nothing_matches, plain, table
from dashboard.data import Shelf
from dashboard.views import cell as one_cell
from warehouse.filters import Filters

TITLE = "Runs"
URL_PATH = "runs"


def render(shelf: Shelf, filters: Filters) -> None:
    """Draw the page."""
    st.header("What was measured, and can it be trusted?")
    runs = data.runs(shelf, filters)
    if runs.empty:
        _nothing(shelf)
        _rejections(shelf)
        return
    st.markdown(_summary(runs, data.rejections(shelf)))
    table(runs[list(RUN_COLUMNS)], "runs", RUN_COLUMNS)
    _one_run(shelf, filters, runs)
    _rejections(shelf)


def _summary(runs: pd.DataFrame, rejected: pd.DataFrame) -> str:
    return (
        f"{len(runs):,} runs, {runs['cells'].sum():,} cells, "
        f"{runs['completed'].sum():,} completed requests; "
        f"{runs['flags'].sum():,} flags, {len(rejected):,} rejected files."
    )


def _nothing(shelf: Shelf) -> None:
    if data.cells(shelf, Filters()).empty:
        st.info("The warehouse is empty. Add results with: draftboard ingest PATHS")
        return
    sentence = "No run matches these filters. Remove one in the sidebar."
    nothing_matches(data.combinations(shelf), sentence)


def _one_run(shelf: Shelf, filters: Filters, runs: pd.DataFrame) -> None:
    names = run_names(runs)
    st.subheader("One run")
    chosen = st.selectbox("Run", list(names), key="run", bind="query-params")
    run = runs.iloc[names[chosen]]
    cells = data.cells(shelf, filters)
    cells = cells[(cells["source_id"] == run["source_id"]) & (cells["run_id"] == run["run_id"])]
    st.text(run["provenance"] or "Nobody stated where these data come from.")
    table(cells[list(CELL_COLUMNS)], "cells", CELL_COLUMNS)
    _flags(shelf, cells)
    _how_it_was_run(run)
    _one_cell(shelf, filters, cells)


def _flags(shelf: Shelf, cells: pd.DataFrame) -> None:
    found = data.flags(shelf, tuple(cells["cell_id"]))
    if found.empty:
        st.caption("No flags: nothing doubtful was found.")
        return
    counted = found.groupby(["severity", "name", "sentence"], sort=False).size().rename("cells")
    table(counted.reset_index(), "flags")


def _how_it_was_run(run: pd.Series) -> None:
    with st.expander("Commands, environment and configuration"):
        for name, words in json.loads(run["commands"]).items():
            st.text(name)
            st.code(" ".join(words), language=None, wrap_lines=True)
        for name in ("environment", "settings", "report_config"):
            st.text(name.replace("_", " "))
            st.json(run[name], expanded=False)
        st.text(f"source {run['source_id']}")


def _one_cell(shelf: Shelf, filters: Filters, cells: pd.DataFrame) -> None:
    names = cell_names(cells)
    st.subheader("One cell")
    chosen = st.selectbox("Cell", list(names), key="cell", bind="query-params")
    one_cell.render(shelf, filters, cells.iloc[names[chosen]])


def _rejections(shelf: Shelf) -> None:
    rejected = data.rejections(shelf)
    st.subheader("Rejected files")
    if rejected.empty:
        st.caption("None.")
        return
    table(rejected, "rejected files")
    st.caption(plain("Correct the file and ingest it again; an accepted file leaves this list."))
