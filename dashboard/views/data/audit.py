"""The audit trail: who noted, excluded, accepted, and kept files."""

from dataclasses import fields
from pathlib import Path

import pandas as pd
import streamlit as st

from dashboard.access import require_admin
from dashboard.components import shown, table
from dashboard.shelf import Shelf
from warehouse import annotations
from warehouse.filters import Filters


def render(shelf: Shelf, filters: Filters) -> None:
    """Draw the trail, the newest deed first. Raises NotAllowed for who is no admin."""
    require_admin()
    deeds = annotations.deeds(Path(shelf.root))
    if not deeds:
        st.info("Nobody has noted, excluded, accepted or kept anything yet.")
        return
    st.caption("All that people changed of what is said of the results; filters do not apply.")
    names = [field.name for field in fields(deeds[0])]
    rows = [[getattr(deed, name) for name in names] for deed in reversed(deeds)]
    table(shown(pd.DataFrame(rows, columns=names)), "rows")
