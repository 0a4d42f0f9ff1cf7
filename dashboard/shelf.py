"""One generation of the warehouse as the pages see it, and the cache that every page uses.

Values come from ``cache_resource`` and are shared between sessions without copies: read only.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from types import FunctionType
from typing import Any, TypeVar, TypeVarTuple, cast

import pandas as pd
import pyarrow as pa
import streamlit as st

from warehouse import annotations
from warehouse.filters import Filters
from warehouse.store import Reader, current_generation, warehouse_path


@dataclass(frozen=True)
class Shelf:
    """One generation of one warehouse: what a whole rerun of a page reads.

    ``excluded``: which exclusions of runs are followed, empty before the first one
    (``annotations.exclusions_version``); ``everything``: the excluded runs are there nevertheless.
    """

    root: str
    generation: int
    excluded: str = ""
    everything: bool = False

    def with_excluded(self) -> "Shelf":
        """Return the shelf with the runs that are excluded by name, for pages that show them as
        such."""
        return replace(self, everything=True) if self.excluded else self


Call = TypeVar("Call", bound=Callable[..., Any])
Said = TypeVar("Said")
Asked = TypeVarTuple("Asked")


def _text_key(value: object) -> str:
    """Return a value's text as its key in the cache, which is quicker than Streamlit's own key of a
    dataclass."""
    return repr(value)


def cached(entries: int, *kinds: type[Any]) -> Callable[[Call], Call]:
    """Return a decorator that keeps the last ``entries`` answers of a function; ``kinds``: its
    frozen dataclasses."""
    short: dict[str | type[Any], Callable[[Any], Any]] = dict.fromkeys(
        (Shelf, Filters, *kinds), _text_key
    )
    keep = st.cache_resource(max_entries=entries, show_spinner=False, hash_funcs=short)
    return cast(Callable[[Call], Call], keep)


def open_shelf(root: Path | None = None) -> Shelf:
    """Open the newest generation, of the configured warehouse by default.

    Raises WarehouseMissing where there is none.
    """
    root = root or warehouse_path(None)
    # Read before the generation and any query: an exclusion added from here on makes another shelf.
    excluded = annotations.exclusions_version(root)
    generation = current_generation(root)
    if generation is None:
        with Reader(root) as opened:
            generation = opened.generation
    return Shelf(str(root), generation, excluded)


def frame(rows: pa.Table) -> pd.DataFrame:
    """Return the rows of a query as a frame of pandas."""
    found: pd.DataFrame = rows.to_pandas()
    return found


# A reader that the cache lets go of is not closed: another session may be in the middle of a query.
@cached(4)
def reader(shelf: Shelf) -> Reader:
    """Return the reader of the open generation, which all sessions share."""
    return Reader(Path(shelf.root), shelf.everything)


def ask(shelf: Shelf, question: Callable[[Reader, *Asked], Said], *asked: *Asked) -> Said:
    """Return ``question(reader, *asked)`` of ``answers/``, kept for all sessions of this
    generation.

    ``asked`` are frozen values or text: equal ones are asked once.
    """
    said: Said = _answered(shelf, question, asked)
    return said


def _name(question: Callable[..., Any]) -> str:
    return f"{question.__module__}.{question.__qualname__}"


@st.cache_resource(
    max_entries=256,
    show_spinner=False,
    hash_funcs={Shelf: _text_key, FunctionType: _name, tuple: _text_key},
)
def _answered(shelf: Shelf, question: Callable[..., Any], asked: tuple[Any, ...]) -> Any:
    return question(reader(shelf), *asked)
