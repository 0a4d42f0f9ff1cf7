"""One cell in depth, drawn within the Runs page; loaded only when it is chosen."""

import functools

import pandas as pd
import streamlit as st

from dashboard import charts_requests, data
from dashboard.components import table
from dashboard.data import Shelf
from dashboard.palette import arm_colour
from dashboard.panels import badge
from warehouse.catalogue import METRICS
from warehouse.filters import Filters

DISTRIBUTIONS = ("ttft", "itl", "request_latency")
_LARGEST_SERIES = 2000


def render(shelf: Shelf, filters: Filters, cell: pd.Series) -> None:
    """Distributions of its requests, acceptance by position, the server over time, all numbers."""
    _distributions(shelf, cell)
    _acceptance(shelf, filters, cell)
    _server(shelf, cell)
    with st.expander("Every number of this cell"):
        table(data.cell_measurements(shelf, cell["cell_id"]), "numbers")


def _distributions(shelf: Shelf, cell: pd.Series) -> None:
    known = {m: data.distribution(shelf, cell["cell_id"], m) for m in DISTRIBUTIONS}
    known = {metric: rows for metric, rows in known.items() if not rows.empty}
    if not known:
        st.caption("This report holds no requests, so there is no distribution.")
        return
    colour, note = arm_colour(cell["arm_label"]), badge(cell["evidence"])
    for place, (metric, rows) in zip(st.columns(3), known.items(), strict=False):
        chart = functools.partial(charts_requests.distribution, rows, METRICS[metric], colour, note)
        place.vega_lite_chart(data.drawing(chart, shelf, cell["cell_id"], metric))


def _acceptance(shelf: Shelf, filters: Filters, cell: pd.Series) -> None:
    rows = data.positions(shelf, filters)
    rows = rows[rows["cell_id"] == cell["cell_id"]]
    for source, part in rows.groupby("source"):
        title = f"Acceptance by draft position, from {source}"
        chart = charts_requests.acceptance_by_position(
            part, f"{title}{_bracketed(cell)}", arm_colour(cell["arm_label"])
        )
        st.altair_chart(chart)


def _bracketed(cell: pd.Series) -> str:
    note = badge(cell["evidence"])
    return f"  [{note}]" if note else ""


def _server(shelf: Shelf, cell: pd.Series) -> None:
    rows = data.samples(shelf, cell["cell_id"])
    if rows.empty:
        return
    names = sorted(rows["name"].unique())
    name = st.selectbox("Server metric over time", names, key="server", bind="query-params")
    series = rows[rows["name"] == name]
    series = series.iloc[:: len(series) // _LARGEST_SERIES + 1]
    st.altair_chart(
        charts_requests.server_over_time(
            series.assign(at=series["at"] - rows["at"].min()), f"{name}{_bracketed(cell)}"
        )
    )
