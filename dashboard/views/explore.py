"""Explore: any number over any key, a question in SQL, or a report of one's own."""

import streamlit as st

from dashboard import data
from dashboard.empty import nothing
from dashboard.shelf import Shelf
from dashboard.views import explore_charts, explore_sql, uploaded
from warehouse.filters import Filters

TITLE = "Explore"
URL_PATH = "explore"
ORDER = 110
#: What the reader can do here -> the part of the page that does it.
_PARTS = {"Charts": explore_charts, "SQL": explore_sql, "Your own report": uploaded}


def render(shelf: Shelf, filters: Filters) -> None:
    """Draw the page; only the chosen part is computed."""
    part = st.segmented_control(
        "What to do",
        list(_PARTS),
        default="Charts",
        required=True,
        key="part",
        bind="query-params",
        label_visibility="collapsed",
    )
    if part == "Charts" and data.cells(shelf, filters).empty:
        st.header("Nothing to draw yet")
        nothing(shelf, "No result matches these filters. Remove one in the sidebar.")
        return
    _PARTS[part or "Charts"].render(shelf, filters)
