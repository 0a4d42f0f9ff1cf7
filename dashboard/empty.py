"""What a page shows where there is nothing to show: why, and what there is instead."""

import streamlit as st

from dashboard import data
from dashboard.components import nothing_matches
from dashboard.shelf import Shelf
from warehouse.filters import Filters


def nothing(shelf: Shelf, sentence: str) -> None:
    """Say that the warehouse is empty, or ``sentence`` and which combinations have results."""
    if data.cells(shelf, Filters()).empty:
        st.info("The warehouse is empty. Add results with: draftboard ingest PATHS")
        return
    nothing_matches(data.combinations(shelf), sentence)
