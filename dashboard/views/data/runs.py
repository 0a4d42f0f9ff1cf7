"""The runs: where they come from, what is doubtful about them, and one cell in depth."""

import re
from collections.abc import Sequence

import pandas as pd
import streamlit as st
from streamlit import column_config as col

from answers.runs import read
from answers.runs.read import (
    CellRow,
    OneRun,
    RunRow,
    Runs,
    again,
    command_lines,
    how_it_went,
    log_excerpt,
)
from dashboard import annotating, links
from dashboard.components import Shown, copied, folded, listing, plain, table
from dashboard.downloads import rows_menu
from dashboard.offered import nothing
from dashboard.shelf import Shelf, ask, cached
from dashboard.views.data import cell as one_cell
from warehouse.filters import Filters

#: Runs that are offered for a choice; older ones are found by their text.
_NEWEST = 200
_RUNS = {
    "run_id": "run", "started_at": "started (UTC)", "model": "model", "gpu": "GPU",
    "dataset": "dataset", "arms": "arms", "concurrencies": "concurrency", "cells": "cells",
    "flags": "flags", "failed": "failed", "evidence": "evidence", "load_generator": "generator",
    "load_generator_version": "version", "provenance": "provenance", "path": "path",
    "ingested_at": "ingested (UTC)",
}  # fmt: skip
_EXCLUDED = {"run_id": "run", "excluded_text": "excluded"}
_CELLS = {
    "dataset": "dataset", "arm": "arm", "load": "load", "repeat": "repeat", "status": "status",
    "completed": "completed", "errored": "errored", "incomplete": "incomplete",
    "duration": "window, s", "flags": "flags", "compared_by": "compared by",
    "report_format": "report format",
}  # fmt: skip
_DOUBTS = {
    "words": "doubt", "cells": "cells", "effect": "what follows", "sentence": "for example",
}  # fmt: skip
_FLAGS = {"severity": "severity", "name": "name", "sentence": "sentence", "cells": "cells"}
_REJECTED = {"path": "path", "reason": "reason", "rejected_at": "rejected at"}
_WHEN = "YYYY-MM-DD HH:mm"
_SHOWN = {
    "started (UTC)": col.DatetimeColumn(format=_WHEN),
    "ingested (UTC)": col.DatetimeColumn(format=_WHEN),
    "window, s": col.NumberColumn(format="%.1f"),
}
#: How a cell was named before loads had names of their own.
_FORMERLY = re.compile(r", concurrency (\d+)\b")


def render(shelf: Shelf, filters: Filters) -> None:
    """Draw the part. Unlike other pages it shows the runs that are excluded by name as well."""
    shelf = shelf.with_excluded()
    known = ask(shelf, read.runs, filters)
    st.header(plain(known.headline))
    if not known.runs:
        nothing(shelf, "No run matches these filters. Remove one in the sidebar.")
        _rejected(known)
        return
    _open_linked_cell(shelf, known)
    st.markdown(plain(known.summary))
    if known.doubts:
        st.markdown("What is doubtful about these cells:")
        table(listing(known.doubts, _DOUBTS), "doubts")
    table(_table(shelf, filters), "runs", _SHOWN)
    rows_menu("runs", lambda: _rows(known.runs, _RUNS))
    _one_run(shelf, filters, known)
    _rejected(known)


@cached
def _table(shelf: Shelf, filters: Filters) -> Shown:
    known = ask(shelf, read.runs, filters)
    excluded = any(run.excluded for run in known.runs)
    return listing(known.runs, _EXCLUDED | _RUNS if excluded else _RUNS)


def _rows(values: Sequence[object], names: dict[str, str]) -> pd.DataFrame:
    """Return all the values for a file, under their own names."""
    return pd.DataFrame([{name: getattr(value, name) for name in names} for value in values])


def _one_run(shelf: Shelf, filters: Filters, known: Runs) -> None:
    st.subheader("One run")
    offered = _offered(known)
    if not offered:
        st.caption("No run holds this text.")
        return
    links.follow_first("run", list(offered))
    chosen = st.selectbox("RunRow", list(offered), key="run", bind="query-params")
    one = ask(
        shelf, read.one_run, filters, offered[chosen], annotating.notes_version(shelf)
    )  # fmt: skip
    st.text(one.run.provenance or "Nobody stated where these data come from.")
    annotating.run(shelf, one)
    if one.flags:
        table(listing(one.flags, _FLAGS), "flags")
    else:
        st.caption("No flags: nothing doubtful was found.")
    table(listing(one.cells, _CELLS), "cells", _SHOWN)
    rows_menu("cells", lambda: _rows(one.cells, {"cell_id": "", **_CELLS}))
    _how_it_was_run(one)
    _one_cell(shelf, one)


def _offered(known: Runs) -> dict[str, RunRow]:
    """Return the runs that can be chosen: all where they are few; of many the newest and those
    searched for."""
    if len(known.runs) <= _NEWEST:
        return {run.name: run for run in known.runs}
    text = st.text_input("Find a run by name, model, dataset, GPU or file", key="find",
                         bind="query-params") or ""  # fmt: skip
    asked = st.session_state.get("run") or st.query_params.get("run", "")
    found = [run for run in known.runs if text.casefold() in run.texts]
    if len(found) > _NEWEST:
        st.caption(
            f"The newest {_NEWEST} of {len(found):,} runs can be chosen; write more of a name."
        )
    also = [run for run in known.runs if run.name == asked]
    return {run.name: run for run in [*found[:_NEWEST], *also]}


def _how_it_was_run(one: OneRun) -> None:
    went = how_it_went(one.run)
    if went:
        st.caption(plain(went))
    log = log_excerpt(one.run)
    if log:
        st.text("The server's log ended with")
        copied("\n".join(log))
    st.text("Run it again")
    copied(again(one.run, one.cells), "bash")
    part = folded("Commands, environment and configuration", "commands")
    if part is not None:
        with part:
            for name, line in command_lines(one.run):
                st.text(name)
                copied(line)
            for name in ("environment", "settings", "report_config"):
                st.text(name.replace("_", " "))
                st.json(getattr(one.run, name), expanded=False)
            st.text(f"source {one.run.source_id}")


def _open_linked_cell(shelf: Shelf, known: Runs) -> None:
    """Choose the run and the cell that a link from another page names."""
    cell_id = st.query_params.pop(links.CELL, None)
    if cell_id is None:
        return
    place = ask(shelf, read.run_of_cell, cell_id)
    run = next((run for run in known.runs if (run.source_id, run.run_id) == place), None)
    if run is None:
        st.warning("The link asks for a cell that is not here, or that these filters leave out.")
        return
    st.session_state[_LINKED] = cell_id
    _choose("run", run.name)


_LINKED = "cell that a link asked for"


def _choose(name: str, value: str) -> None:
    links.choose(name, value)
    # A control that is set by code before it is first drawn does not write itself there.
    st.query_params[name] = value


def _one_cell(shelf: Shelf, one: OneRun) -> None:
    st.subheader("One cell: what were its requests like?")
    cells = {cell.name: cell for cell in one.cells}
    linked = st.session_state.pop(_LINKED, None)
    name = next((cell.name for cell in one.cells if cell.cell_id == linked), None)
    asked = st.query_params.get("cell", "")
    if _FORMERLY.search(asked):
        name = _FORMERLY.sub(r", \1 at once", asked)
    if name in cells:
        _choose("cell", name)
    links.follow_first("cell", list(cells))
    chosen: CellRow = cells[st.selectbox("Cell", list(cells), key="cell", bind="query-params")]
    one_cell.render(shelf, chosen)


def _rejected(known: Runs) -> None:
    if not known.rejected:
        return
    with st.expander(f"Rejected files: {len(known.rejected):,}"):
        st.caption("Correct the file and ingest it again; an accepted file leaves this list.")
        table(listing(known.rejected, _REJECTED), "rejected files")
