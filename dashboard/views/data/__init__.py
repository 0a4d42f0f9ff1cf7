"""Data: what was measured, can it be trusted, what does a request look like; and one's own questions."""

import streamlit as st

from dashboard.access import may_administer
from dashboard.shelf import Shelf
from dashboard.views.data import audit, charts, claims, runs, sql
from dashboard.views.decide import adding
from warehouse.filters import Filters

TITLE = "Data"
URL_PATH = "data"
ORDER = 60
#: Former addresses, and what their readers find here first.
FORMER = {
    "runs": {},
    "explore": {"part": "Charts"},
    "claims": {"part": "Published figures"},
}  # fmt: skip


def _own(shelf: Shelf, filters: Filters) -> None:
    st.header("Compare a report of your own")
    adding.render(shelf, filters)


#: What the reader can do here -> the part of the page that does it.
_PARTS = {
    "Runs": runs.render,
    "Charts": charts.render,
    "SQL": sql.render,
    "Published figures": claims.render,
    "Your own report": _own,
}


def render(shelf: Shelf, filters: Filters) -> None:
    """Draw the page; only the chosen part is computed."""
    parts = _PARTS | ({"Audit": audit.render} if may_administer() else {})
    part = st.segmented_control(
        "What to look at", list(parts), default="Runs", required=True, key="part",
        bind="query-params", label_visibility="collapsed",
    )  # fmt: skip
    parts[part or "Runs"](shelf, filters)
