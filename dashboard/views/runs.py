"""Runs: what was ingested, where it comes from, what is doubtful about it, and one cell in depth."""

import streamlit as st

from dashboard import data, links
from dashboard.answers import runs as answers_runs
from dashboard.cells import CELL_COLUMNS, NEWEST, RUN_COLUMNS, OneRun, run_rows
from dashboard.components import plain, shown, table
from dashboard.data import run_details
from dashboard.download_menu import rows_menu
from dashboard.empty import nothing
from dashboard.shelf import Shelf
from dashboard.views import annotating
from dashboard.views import cell as one_cell
from warehouse.filters import Filters

TITLE = "Runs"
URL_PATH = "runs"
ORDER = 90


def render(shelf: Shelf, filters: Filters) -> None:
    """Draw the page. It shows the runs that are excluded by name too, as nobody else does."""
    shelf = shelf.with_excluded()
    st.header("What was measured, and can it be trusted?")
    if data.runs(shelf, filters).empty:
        nothing(shelf, "No run matches these filters. Remove one in the sidebar.")
        _rejections(shelf)
        return
    _open_linked_cell(shelf, filters)
    sentence, newest = data.runs_table(shelf, filters)
    st.markdown(sentence)
    table(newest, "runs", RUN_COLUMNS)
    rows_menu("runs", lambda: run_rows(data.runs(shelf, filters)))
    _one_run(shelf, filters)
    _rejections(shelf)


def _one_run(shelf: Shelf, filters: Filters) -> None:
    st.subheader("One run")
    names = _choices(shelf, filters)
    if not names:
        st.caption("No run holds this text.")
        return
    links.follow_first("run", list(names))
    chosen = st.selectbox("Run", list(names), key="run", bind="query-params")
    run = data.run(shelf, filters, names[chosen])
    stated = run.head["provenance"]
    # A column of nothing but gaps comes as numbers.
    known = isinstance(stated, str) and stated != ""
    st.text(stated if known else "Nobody stated where these data come from.")
    annotating.run(shelf, run.head)
    table(run.table, "cells", CELL_COLUMNS)
    rows_menu("cells", lambda: run.cells)
    if run.flags.total:
        table(run.flags, "flags")
    else:
        st.caption("No flags: nothing doubtful was found.")
    _how_it_was_run(run)
    _one_cell(shelf, filters, run)


def _choices(shelf: Shelf, filters: Filters) -> dict[str, int]:
    """The runs that can be chosen: all of a few, the newest and those searched for of many."""
    if len(data.runs(shelf, filters)) <= NEWEST:
        return data.run_names(shelf, filters, "", "")[0]
    text = st.text_input("Find a run by name, model, dataset, GPU or file", key="find",
                         bind="query-params") or ""  # fmt: skip
    asked = st.session_state.get("run") or st.query_params.get("run", "")
    names, found = data.run_names(shelf, filters, text, asked)
    if found > NEWEST:
        st.caption(f"The newest {NEWEST} of {found:,} runs can be chosen; write more of a name.")
    return names


def _how_it_was_run(run: OneRun) -> None:
    went = answers_runs.how_it_went(run.head)
    if went:
        st.caption(plain(went))
    log = answers_runs.log_excerpt(run.head)
    if log:
        st.text("The server's log ended with")
        st.code("\n".join(log), language=None, wrap_lines=True)
    with st.expander("Commands, environment and configuration"):
        for name, line in answers_runs.command_lines(run.head).items():
            st.text(name)
            st.code(line, language=None, wrap_lines=True)
        for name in ("environment", "settings", "report_config"):
            st.text(name.replace("_", " "))
            st.json(run.head[name], expanded=False)
        st.text(f"source {run.head['source_id']}")
    with st.expander("Run it again"):
        st.code(answers_runs.again(run.head, run.cells), language="bash", wrap_lines=True)


def _open_linked_cell(shelf: Shelf, filters: Filters) -> None:
    """A link from another page names a cell; its run and cell become the chosen ones."""
    cell_id = st.query_params.pop(links.CELL, None)
    if cell_id is None:
        return
    place = run_details.place_of(shelf, filters, cell_id)
    if place is None:
        st.warning("The link asks for a cell that is not here, or that these filters leave out.")
        return
    for name, value in zip(("run", "cell"), place, strict=True):
        links.choose(name, value)
        # A control that is set by code before it is first drawn does not write itself there.
        st.query_params[name] = value


def _one_cell(shelf: Shelf, filters: Filters, run: OneRun) -> None:
    st.subheader("One cell")
    links.follow_first("cell", list(run.names))
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
