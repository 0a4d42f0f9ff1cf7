"""One generation of the warehouse as the pages see it, and the cache that every page uses.

Values that are kept are shared between sessions without copies: read only.
"""

import atexit
import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property, wraps
from pathlib import Path
from typing import Any, TypeVar, TypeVarTuple, cast

import pandas as pd
import pyarrow as pa

from warehouse import annotations
from warehouse.store import Kept, Reader
from warehouse.store_cache import warehouse_path
from warehouse.store_current import current_name
from warehouse.store_list import no_current, number_of


@dataclass(frozen=True)
class Shelf:
    """One generation of one warehouse: what a whole rerun of a page reads.

    ``name``: of the generation's list; ``excluded``: which exclusions of runs are followed, empty
    before the first one (``annotations.exclusions_version``); ``everything``: the excluded runs are
    there nevertheless; ``kept``: what was made of it. Whoever holds a shelf holds its files too.
    """

    root: str
    name: str
    excluded: str = ""
    everything: bool = False
    reader: Reader = field(kw_only=True, repr=False, compare=False)
    kept: "Kept[Shelf]" = field(default_factory=Kept, repr=False, compare=False)

    @property
    def generation(self) -> int:
        """The generation's number."""
        return number_of(self.name) or 0

    def with_excluded(self) -> "Shelf":
        """Return the shelf with the runs that are excluded by name, for pages that show them as
        such."""
        return self._whole if self.excluded else self

    @cached_property
    def _whole(self) -> "Shelf":
        reader = Reader(Path(self.root), everything=True)
        return Shelf(self.root, self.name, self.excluded, True, reader=reader)


Call = TypeVar("Call", bound=Callable[..., Any])
Said = TypeVar("Said")
Asked = TypeVarTuple("Asked")

#: So many warehouses are held open: one, but for tests.
_MOST = 4
_newest: OrderedDict[str, Shelf] = OrderedDict()
_opening = threading.Lock()
# DuckDB complains of connections that the interpreter's end finds open.
atexit.register(_newest.clear)


def cached(make: Call) -> Call:
    """Let a function of a shelf, and of frozen values or text beside it, be called once for equal
    ones of a generation."""

    @wraps(make)
    def call(shelf: Shelf, *asked: Any) -> Any:
        return shelf.kept.get(_key(make, asked), lambda one: make(one, *asked), shelf)

    return cast(Call, call)


def _key(made_by: Callable[..., Any], asked: tuple[Any, ...]) -> str:
    # The text of a dataclass is quicker to make than its hash, and says as much.
    return f"{made_by.__module__}.{made_by.__qualname__}{asked!r}"


def open_shelf(root: Path | None = None) -> Shelf:
    """Open the newest generation, of the configured warehouse by default.

    Raises WarehouseMissing where there is none.
    """
    root = root or warehouse_path(None)
    with _opening:
        # Read before the generation and any query: an exclusion added from here on makes another.
        excluded, name = annotations.exclusions_version(root), current_name(root)
        if name is None:
            raise no_current(root)
        known = _newest.get(str(root))
        if known is None or (known.name, known.excluded) != (name, excluded):
            known = Shelf(str(root), name, excluded, reader=Reader(root))
            known.with_excluded()  # Opened now, so that both see the same.
            _newest[str(root)] = known
        _newest.move_to_end(str(root))
        while len(_newest) > _MOST:
            _newest.popitem(last=False)
    return known


def frame(rows: pa.Table) -> pd.DataFrame:
    """Return the rows of a query as a frame of pandas."""
    found: pd.DataFrame = rows.to_pandas()
    return found


def ask(shelf: Shelf, question: Callable[[Reader, *Asked], Said], *asked: *Asked) -> Said:
    """Return ``question(reader, *asked)`` of ``answers/``, kept for all sessions of this
    generation.

    ``asked`` are frozen values or text: equal ones are asked once.
    """
    key = _key(question, asked)
    said: Said = shelf.kept.get(key, lambda one: question(one.reader, *asked), shelf)
    return said
