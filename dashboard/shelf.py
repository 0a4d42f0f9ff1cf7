"""One generation of the warehouse as the pages see it, and the cache that every page uses.

Values come from ``cache_resource`` and are shared between sessions without copies: read only.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar, cast

import pandas as pd
import pyarrow as pa
import streamlit as st

from warehouse.filters import Filters
from warehouse.store import Reader, current_generation, warehouse_path


@dataclass(frozen=True)
class Shelf:
    """One generation of one warehouse: what a whole rerun of a page reads."""

    root: str
    generation: int


Call = TypeVar("Call", bound=Callable[..., Any])


def _text_key(value: object) -> str:
    """Text is a quicker key than what Streamlit makes of a dataclass."""
    return repr(value)


def cached(entries: int, *kinds: type[Any]) -> Callable[[Call], Call]:
    """A cache of the last ``entries`` answers of a function; ``kinds``: its frozen dataclasses."""
    short: dict[str | type[Any], Callable[[Any], Any]] = dict.fromkeys(
        (Shelf, Filters, *kinds), _text_key
    )
    keep = st.cache_resource(max_entries=entries, show_spinner=False, hash_funcs=short)
    return cast(Callable[[Call], Call], keep)


def open_shelf() -> Shelf:
    """The newest generation. Raises WarehouseMissing where there is none."""
    root = warehouse_path(None)
    generation = current_generation(root)
    if generation is None:
        with Reader(root) as opened:
            generation = opened.generation
    return Shelf(str(root), generation)


def frame(rows: pa.Table) -> pd.DataFrame:
    """The rows of a query for pandas."""
    found: pd.DataFrame = rows.to_pandas()
    return found


# A reader that the cache lets go of is not closed: another session may be in the middle of a query.
@cached(2)
def reader(shelf: Shelf) -> Reader:
    """The open generation, shared by all sessions."""
    return Reader(Path(shelf.root))
