"""Runs: what was ingested, where it comes from, what is doubtful about it, and one cell in depth."""

import json

import pandas as pd
import streamlit as st

from dashboard import data
from dashboard.cells import CELL_COLUMNS, NEWEST, RUN_COLUMNS, OneRun
from dashboard.components import nothing_matches, plain, shown, table
from dashboard.shelf import Shelf
from dashboard.views import cell as one_cell
from warehouse.filters import Filters

TITLE = "Runs"
URL_PATH = "runs"


def render(shelf: Shelf, filters: Filters) -> None:
    """Draw the page."""
    st.header("What was measured, and can it be trusted?")
    if data.runs(shelf, filters).empty:
        _nothing(shelf)
        _rejections(shelf)
        return
    sentence, newest = data.runs_table(shelf, filters)
    st.markdown(sentence)
    table(newest, "runs", RUN_COLUMNS)
    _one_run(shelf, filters)
    _rejections(shelf)


def _nothing(shelf: Shelf) -> None:
    if data.cells(shelf, Filters()).empty:
        st.info("The warehouse is empty. Add results with: draftboard ingest PATHS")
        return
    sentence = "No run matches these filters. Remove one in the sidebar."
    nothing_matches(data.combinations(shelf), sentence)


def _one_run(shelf: Shelf, filters: Filters) -> None:
    st.subheader("One run")
    names = _choices(shelf, filters)
    if not names:
        st.caption("No run holds this text.")
        return
    chosen = st.selectbox("Run", list(names), key="run", bind="query-params")
    run = data.run(shelf, filters, names[chosen])
    st.text(run.head["provenance"] or "Nobody stated where these data come from.")
    table(run.table, "cells", CELL_COLUMNS)
    if run.flags.total:
        table(run.flags, "flags")
    else:
        st.caption("No flags: nothing doubtful was found.")
    _how_it_was_run(run.head)
    _one_cell(shelf, filters, run)


def _choices(shelf: Shelf, filters: Filters) -> dict[str, int]:
    """The runs that can be chosen: all of a few, the newest and those searched for of many."""
    if len(data.runs(shelf, filters)) <= NEWEST:
        return data.run_names(shelf, filters, "", "")[0]
    text = st.text_input("Find a run by name, model, dataset, GPU or file", key="find",
                         bind="query-params") or ""  # fmt: skip
    names, found = data.run_names(shelf, filters, text, st.query_params.get("run", ""))
    if found > NEWEST:
        st.caption(f"The newest {NEWEST} of {found:,} runs can be chosen; write more of a name.")
    return names


def _how_it_was_run(run: pd.Series) -> None:
    with st.expander("Commands, environment and configuration"):
        for name, words in json.loads(run["commands"]).items():
            st.text(name)
            st.code(" ".join(words), language=None, wrap_lines=True)
        for name in ("environment", "settings", "report_config"):
            st.text(name.replace("_", " "))
            st.json(run[name], expanded=False)
        st.text(f"source {run['source_id']}")


def _one_cell(shelf: Shelf, filters: Filters, run: OneRun) -> None:
    st.subheader("One cell")
    chosen = st.selectbox("Cell", list(run.names), key="cell", bind="query-params")
    one_cell.render(shelf, filters, run.cells.iloc[run.names[chosen]])


def _rejections(shelf: Shelf) -> None:
    rejected = data.rejections(shelf)
    st.subheader("Rejected files")
    if rejected.empty:
        st.caption("None.")
        return
    table(shown(rejected), "rejected files")
    st.caption(plain("Correct the file and ingest it again; an accepted file leaves this list."))
