"""What a page shows where there is nothing to show: why, and what there is instead."""

import streamlit as st

from dashboard import offered
from dashboard.components import plain, table
from dashboard.shelf import Shelf
from warehouse.filters import Filters


def nothing(shelf: Shelf, sentence: str) -> None:
    """Say that the warehouse is empty, or ``sentence`` and which combinations have results."""
    if offered.cells(shelf, Filters()).empty:
        if not offered.cells(shelf.with_excluded(), Filters()).empty:
            st.info("Every run is excluded by name; take one back on the page Data.")
            return
        st.info("The warehouse is empty. Add results with: draftboard ingest PATHS")
        return
    st.info(plain(sentence))
    st.markdown("These combinations have results:")
    table(offered.combinations(shelf), "combinations")
