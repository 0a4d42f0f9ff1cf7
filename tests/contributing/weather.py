"""A page, as somebody adds it: it has no chart and no control."""

import streamlit as st

from dashboard.shelf import Shelf
from warehouse.filters import Filters

TITLE, URL_PATH, ORDER = "Weather", "weather", 99
FORMER = ("climate",)


def render(shelf: Shelf, filters: Filters) -> None:
    """One sentence."""
    st.header("It rains")
    st.write(f"Generation {shelf.generation}; {st.query_params.get('town', 'nowhere')}.")
