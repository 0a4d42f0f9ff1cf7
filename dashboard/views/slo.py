"""SLO & Pareto: up to which load is a service level met, and what is traded for what?"""

import pandas as pd
import streamlit as st

from analysis.service.slo import EXAMPLE, Slo, parse
from dashboard import data
from dashboard.answers import MOST_PANELS, Drawing
from dashboard.answers.pareto import Trade
from dashboard.answers.slo import Answer
from dashboard.cells import LINK_COLUMNS
from dashboard.charts.pareto import CHOSEN, POINT
from dashboard.components import plain, table
from dashboard.data import slo as data_slo
from dashboard.data.slo import MOST_CELLS, Asked
from dashboard.download_menu import charts_menu, rows_menu
from dashboard.drawing_titles import titled
from dashboard.empty import nothing
from dashboard.paying_controls import paying_controls, price_list
from dashboard.shelf import Shelf
from warehouse.filters import Filters

TITLE = "SLO & Pareto"
URL_PATH = "slo"
ORDER = 40
_HOW_LOAD = (
    "A load is judged by its mean over the repeats. The largest load is the largest measured one up "
    "to which every load meets all bounds; throughput and cost are those at it. USD per million "
    "output tokens = 1e6 / (output tok/s × 3600 × utilisation) × USD per hour of the GPUs charged. "
    "Larger loads and lower costs are better."
)
_HOW_GOODPUT = (
    "Good: a completed request that meets every bound on single requests itself, whatever "
    "statistic the bound names. Goodput = good requests / measured window. Higher is better."
)
_HOW_FRONT = (
    "Across: 1000 / mean inter-token latency (ms). Up: output throughput / GPUs. More of both is "
    "better; a point is dominated where another one of the same model, dataset and GPU gives at "
    "least as much of both and more of one."
)


def render(shelf: Shelf, filters: Filters) -> None:
    """Draw the page."""
    if data.cells(shelf, filters).empty:
        st.header("Up to which load is a service level met? Nothing to judge yet.")
        nothing(shelf, "No result matches these filters. Remove one in the sidebar.")
        return
    top, body = st.container(), st.container()
    with body:
        slo = _slo(shelf, filters)
        with st.expander("What a GPU costs"):
            paying = paying_controls()
    if slo is None:
        with top:
            st.header("Up to which load is a service level met? No latency was measured.")
        return
    asked = Asked(filters, slo.text, paying, _goodput(shelf, filters, slo, body))
    with st.spinner("Judging the loads"):
        known = data_slo.slo_answer(shelf, asked)
    with top:
        _answer(known)
    with body:
        _loads(known)
        _trade(shelf, filters)
        price_list()


def _slo(shelf: Shelf, filters: Filters) -> Slo | None:
    """The SLO as it is written; before that one in the middle of what was measured."""
    texts = st.multiselect(
        "Service level: all of these bounds must hold",
        data_slo.suggestions(shelf, filters),
        key="slo",
        bind="query-params",
        accept_new_options=True,
        placeholder=f"write a bound or choose one, e.g. {EXAMPLE}",
        help="metric:statistic<value and unit. What was measured is offered while you type.",
    )
    if texts:
        return parse("; ".join(texts))
    first = data_slo.first_slo(shelf, filters)
    if first is not None:
        st.caption(
            plain(
                f"No bound is written yet; shown is {first.text}, the middle of what was measured."
            )
        )
    return first


def _goodput(
    shelf: Shelf, filters: Filters, slo: Slo, place: st.delta_generator.DeltaGenerator
) -> bool:
    cells = data_slo.judged_cells(shelf, filters, slo.text)
    wanted = place.toggle(
        "Count goodput: judge every single request", key="goodput", bind="query-params",
        help=_HOW_GOODPUT,
    )  # fmt: skip
    if wanted and cells > MOST_CELLS:
        place.info(
            f"These are {cells:,} cells; goodput reads the requests of at most {MOST_CELLS}. "
            "Choose a dataset or an arm in the sidebar."
        )
    return wanted and cells <= MOST_CELLS


def _answer(known: Answer) -> None:
    st.header(plain(known.headline), help=_HOW_LOAD)
    with st.container(horizontal=True, vertical_alignment="center"):
        for text in known.badges:
            st.badge(text, color="gray")
        st.caption("Judged at measured levels only; nothing is interpolated.")


def _loads(known: Answer) -> None:
    st.subheader("Up to which load?", help=_HOW_LOAD)
    if known.panels > MOST_PANELS:
        st.caption(
            f"{MOST_PANELS} of {known.panels} settings are drawn, those with most measurements; "
            "all are judged."
        )
    places = st.columns(2) if len(known.strips) > 1 else [st.container()]
    for at, drawing in enumerate(known.strips):
        places[at % len(places)].vega_lite_chart(drawing)
    table(known.totals, "arms")
    _files("slo-loads", known.rows, known.strips)
    for sentence in known.unpriced:
        st.caption(plain(sentence))
    with st.expander("Every load, with what it misses"):
        table(known.levels, "loads")


def _trade(shelf: Shelf, filters: Filters) -> None:
    st.subheader("What is traded for what?", help=_HOW_FRONT)
    known = data_slo.trade_off(shelf, filters)
    if known.left_out:
        st.caption(f"Left out: {known.left_out} loads whose rates or number of GPUs are unknown.")
    if not known.points:
        return
    if known.groups > MOST_PANELS:
        st.caption(f"{MOST_PANELS} of {known.groups} charts are drawn; filters show the others.")
    for at, drawing in enumerate(known.drawings):
        key = f"front_{at}"
        st.vega_lite_chart(drawing, key=key, on_select=lambda key=key: _choose(key))
    _cells(shelf, filters, known)
    with st.expander("Every point"):
        table(known.table, "points")
    _files("pareto", known.rows, known.drawings)


def _files(name: str, rows: pd.DataFrame, drawings: list[Drawing]) -> None:
    with st.container(horizontal=True):
        rows_menu(name, lambda: rows)
        charts_menu(name, titled(drawings))


def _choose(key: str) -> None:
    """A click on a point chooses it in the box below, which is what the link holds."""
    picked = st.session_state[key]["selection"].get(CHOSEN)
    if picked:
        st.session_state[POINT] = picked[0][POINT]


def _cells(shelf: Shelf, filters: Filters, known: Trade) -> None:
    names = list(known.drawn)
    asked = st.session_state.get(POINT) or st.query_params.get(POINT)
    if asked in known.points and asked not in known.drawn:
        names.append(asked)
    chosen = st.selectbox(
        "The cells behind a point: choose it here or click on it", names, index=None,
        key=POINT, bind="query-params", placeholder="no point chosen",
    )  # fmt: skip
    if chosen is not None:
        table(data_slo.point_cells(shelf, filters, chosen), "cells", LINK_COLUMNS)
