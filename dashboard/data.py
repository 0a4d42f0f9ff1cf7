"""The only caches of the dashboard, keyed by warehouse generation: a new ingest shows at once.

Values come from ``cache_resource`` and are shared between sessions without copies: read only.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import streamlit as st

from analysis.comparison import Comparison, compare
from dashboard.panels import CHARTED
from warehouse import queries
from warehouse.filters import Filters
from warehouse.store import Reader, current_generation, warehouse_path


@dataclass(frozen=True)
class Shelf:
    """One generation of one warehouse: what a whole rerun of a page reads."""

    root: str
    generation: int


def open_shelf() -> Shelf:
    """The newest generation. Raises WarehouseMissing where there is none."""
    root = warehouse_path(None)
    generation = current_generation(root)
    if generation is None:
        with Reader(root) as reader:
            generation = reader.generation
    return Shelf(str(root), generation)


def _close(reader: Reader) -> None:
    reader.__exit__(None, None, None)


@st.cache_resource(max_entries=4, show_spinner=False)
def _reader(shelf: Shelf) -> Reader:
    return Reader(Path(shelf.root))
