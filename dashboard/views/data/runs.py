"""The runs: where they come from, what is doubtful about them, and one cell in depth: its requests, its
drafts, and its server when somebody asks."""

import re
from collections.abc import Sequence
from functools import partial

import pandas as pd
import streamlit as st
from streamlit import column_config as col

from analysis.server_series import WINDOW_S
from answers.runs import read
from answers.wording import badge, bracketed
from dashboard import annotating, links
from dashboard.charts import Drawing, arm_colour, specification
from dashboard.charts.data import (
    CHARTS,
    acceptance_by_position,
    distribution,
    over_time,
    sampled,
)
from dashboard.components import (
    ACROSS,
    TableRows,
    copied,
    fold,
    grid,
    listing,
    plain,
    table,
    titled,
)
from dashboard.downloads import charts_menu, rows_menu
from dashboard.filters import nothing
from dashboard.shelf import Shelf, ask, cached
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
_NUMBERS = {"origin": "origin", "metric": "metric", "statistic": "statistic", "value": "value"}
_SERVER_HELP = (
    "Sampled from the server's own metrics, and each second from the machine, while the cell was "
    "measured. Of several GPUs the slowest clock, the highest temperature and all power. Rates come from what its "
    f"counters grew by in windows of {WINDOW_S:g} s: output = generated tokens / s; acceptance "
    "rate = accepted / drafted tokens; mean acceptance length = 1 + accepted tokens / drafts."
)
_LINKED = "cell that a link asked for"
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
def _table(shelf: Shelf, filters: Filters) -> TableRows:
    known = ask(shelf, read.runs, filters)
    return listing(
        known.runs, _EXCLUDED | _RUNS if any(run.excluded for run in known.runs) else _RUNS
    )


def _rows(values: Sequence[object], names: dict[str, str]) -> pd.DataFrame:
    return pd.DataFrame([{name: getattr(value, name) for name in names} for value in values])


def _one_run(shelf: Shelf, filters: Filters, known: read.Runs) -> None:
    st.subheader("One run")
    offered = _offered(known)
    if not offered:
        st.caption("No run holds this text.")
        return
    chosen = offered[links.selected("Run", list(offered), "run")]
    one = ask(shelf, read.one_run, filters, chosen, annotating.notes_version(shelf))
    st.text(one.run.provenance or "Nobody stated where these data come from.")
    annotating.run(shelf, one)
    if one.flags:
        table(listing(one.flags, _FLAGS), "flags")
    else:
        st.caption("No flags: nothing doubtful was found.")
    table(listing(one.cells, _CELLS), "cells", _SHOWN)
    rows_menu("cells", lambda: _rows(one.cells, {"cell_id": "", **_CELLS}))
    if went := read.how_it_went(one.run):
        st.caption(plain(went))
    if log := read.log_excerpt(one.run):
        st.text("The server's log ended with")
        copied("\n".join(log))
    st.text("Run it again")
    copied(read.again(one.run, one.cells), "bash")
    fold("Commands, environment and configuration", "commands", partial(_configuration, one.run))
    _one_cell(shelf, one)


def _configuration(run: read.RunRow) -> None:
    for name, line in read.command_lines(run):
        st.text(name)
        copied(line)
    for name in ("environment", "settings", "report_config"):
        st.text(name.replace("_", " "))
        st.json(getattr(run, name), expanded=False)
    st.text(f"source {run.source_id}")


def _offered(known: read.Runs) -> dict[str, read.RunRow]:
    if len(known.runs) <= _NEWEST:
        return {run.name: run for run in known.runs}
    text = st.text_input("Find a run by name, model, dataset, GPU or file", key="find",
                         bind="query-params") or ""  # fmt: skip
    linked = st.session_state.get("run") or st.query_params.get("run", "")
    matching = [run for run in known.runs if text.casefold() in run.texts]
    if len(matching) > _NEWEST:
        st.caption(
            f"The newest {_NEWEST} of {len(matching):,} runs can be chosen; write more of a name."
        )
    also = [run for run in known.runs if run.name == linked]
    return {run.name: run for run in [*matching[:_NEWEST], *also]}


def _open_linked_cell(shelf: Shelf, known: read.Runs) -> None:
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


def _choose(name: str, value: str) -> None:
    links.choose(name, value)
    # A control that is set by code before it is first drawn does not write itself there.
    st.query_params[name] = value


def _one_cell(shelf: Shelf, one: read.OneRun) -> None:
    st.subheader("One cell: what were its requests like?")
    cells = {cell.name: cell for cell in one.cells}
    linked = st.session_state.pop(_LINKED, None)
    name = next((cell.name for cell in one.cells if cell.cell_id == linked), None)
    in_link = st.query_params.get("cell", "")
    if _FORMERLY.search(in_link):
        name = _FORMERLY.sub(r", \1 at once", in_link)
    if name in cells:
        _choose("cell", name)
    cell = cells[links.selected("Cell", list(cells), "cell")]
    drawings = _request_drawings(shelf, cell)
    if not any("share of requests" in str(drawing) for drawing in drawings):
        st.caption(
            "No requests are held of this cell (its report had none, or they were removed since), so "
            "there is no distribution."
        )
    _side_by_side(drawings, f"The requests of {cell.name}")
    charts_menu("cell", titled(drawings))
    fold("The server while it was measured", "server_part", partial(_server, shelf, cell))
    fold("Every number of this cell", "numbers",
         lambda: table(listing(ask(shelf, read.numbers, cell.cell_id), _NUMBERS), "numbers"))  # fmt: skip


def _side_by_side(drawings: list[Drawing], alternative: str) -> None:
    grid(drawings, [f"{alternative}: {d['title']['text']}" for d in drawings], ACROSS)


@cached
def _request_drawings(shelf: Shelf, cell: read.CellRow) -> list[Drawing]:
    found = ask(shelf, read.requests, cell.cell_id)
    colour, note = arm_colour(cell.arm), badge(cell.evidence)
    return [
        *(specification(distribution(curve, colour, note)) for curve in found.distributions),
        *(specification(acceptance_by_position(curve, colour, note)) for curve in found.positions),
    ]


def _server(shelf: Shelf, cell: read.CellRow) -> None:
    known = ask(shelf, read.server, cell.cell_id)
    if not known.sampled:
        st.caption("No server metrics were sampled during this cell.")
        return
    st.caption(_SERVER_HELP)
    drawings = server_drawings(known, cell)
    _side_by_side(drawings, f"The server during {cell.name}")
    charts_menu("server", titled(drawings))
    names = {curve.name: curve for curve in known.sampled}
    name = st.selectbox(
        "One server metric as it was sampled", list(names), index=None, key="server",
        bind="query-params", placeholder="none chosen",
    )  # fmt: skip
    if name is not None:
        st.vega_lite_chart(
            specification(sampled(names[name], bracketed(badge(cell.evidence)))), alt=name
        )


def server_drawings(known: read.ServerCurves, cell: read.CellRow) -> list[Drawing]:
    colour, note = arm_colour(cell.arm), bracketed(badge(cell.evidence))
    curves = {curve.name: curve for curve in known.lines}
    return [
        specification(
            over_time([curves[n] for n in names if n in curves], f"{title}{note}", colour, share)
        )
        for title, (names, share) in CHARTS.items()
        if curves.keys() & set(names)
    ]


def _rejected(known: read.Runs) -> None:
    if not known.rejected:
        return
    with st.expander(f"Rejected files: {len(known.rejected):,}"):
        st.caption("Correct the file and ingest it again; an accepted file leaves this list.")
        table(listing(known.rejected, _REJECTED), "rejected files")
