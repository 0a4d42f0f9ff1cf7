"""Charts side by side: a column for each, so that on a phone they stand one below the other."""

from collections.abc import Iterator

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from dashboard.answers import Drawing

_ACROSS = 3


def places(drawings: list[Drawing]) -> Iterator[tuple[DeltaGenerator, Drawing]]:
    """Each chart with its column, at most three to a row."""
    across = min(len(drawings), _ACROSS)
    for start in range(0, len(drawings), _ACROSS):
        yield from zip(st.columns(across), drawings[start : start + _ACROSS], strict=False)
