"""Data: what was measured, can it be trusted, what does a request look like; and one's own questions."""

from dataclasses import fields

import streamlit as st

from dashboard.components import listing, table
from dashboard.doors.access import current_user, require_role
from dashboard.shelf import Shelf
from dashboard.views import adding, printed
from dashboard.views.data import runs
from dashboard.views.data.questions import free_charts, sql_box
from warehouse import annotations
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


def audit_trail(shelf: Shelf, _: Filters) -> None:
    """Draw who noted, excluded, accepted, and kept files, the newest deed first. Raises NotAllowed for
    who is no admin."""
    require_role(current_user(), "admin")
    deeds = annotations.deeds(shelf.root)
    if not deeds:
        st.info("Nobody has noted, excluded, accepted or kept anything yet.")
        return
    st.caption("All that people changed of what is said of the results; filters do not apply.")
    table(
        listing(deeds[::-1], {field.name: field.name for field in fields(annotations.Deed)}), "rows"
    )


#: What the reader can do here -> the part of the page that does it.
_PARTS = {
    "Runs": runs.render,
    "Charts": free_charts,
    "SQL": sql_box,
    "Published figures": printed.claims,
    "Your own report": _own,
}


def render(shelf: Shelf, filters: Filters) -> None:
    """Draw the page; only the chosen part is computed."""
    parts = _PARTS | ({"Audit": audit_trail} if current_user().may("admin") else {})
    part = st.segmented_control(
        "What to look at", list(parts), default="Runs", required=True, key="part",
        bind="query-params", label_visibility="collapsed",
    )  # fmt: skip
    parts[part or "Runs"](shelf, filters)
