"""One cell in depth, drawn within the Runs page; loaded only when it is chosen."""

import pandas as pd
import streamlit as st

from answers.wording import badge
from dashboard import data
from dashboard.answers import runs as answers_runs
from dashboard.components import table
from dashboard.data import run_details
from dashboard.download_menu import charts_menu
from dashboard.drawing_titles import titled
from dashboard.shelf import Shelf
from warehouse.filters import Filters

_ACROSS = 3


def render(shelf: Shelf, filters: Filters, cell: pd.Series) -> None:
    """Distributions of its requests, acceptance by position, the server over time, all numbers."""
    requests, drafts = data.cell_drawings(shelf, filters, cell["cell_id"])
    if not requests:
        st.caption("This report holds no requests, so there is no distribution.")
    for place, drawing in zip(st.columns(3) if requests else (), requests, strict=False):
        place.vega_lite_chart(drawing)
    for drawing in drafts:
        st.vega_lite_chart(drawing)
    charts_menu("cell", titled([*requests, *drafts]))
    _server(shelf, filters, cell)
    with st.expander("Every number of this cell"):
        table(data.cell_measurements(shelf, cell["cell_id"]), "numbers")


def _server(shelf: Shelf, filters: Filters, cell: pd.Series) -> None:
    st.markdown("**The server while it was measured**", help=answers_runs.SERVER_HELP)
    names = data.server_names(shelf, cell["cell_id"])
    if not names:
        st.caption("No server metrics were sampled during this cell.")
        return
    drawings = run_details.server_drawings(shelf, filters, cell["cell_id"])
    for start in range(0, len(drawings), _ACROSS):
        row = drawings[start : start + _ACROSS]
        for place, drawing in zip(st.columns(_ACROSS), row, strict=False):
            place.vega_lite_chart(drawing)
    charts_menu("server", titled(drawings))
    with st.expander("Any single server metric as it was sampled"):
        name = st.selectbox("Server metric over time", names, key="server", bind="query-params")
        note = badge(cell["evidence"])
        st.vega_lite_chart(data.server_drawing(shelf, cell["cell_id"], name, note))
