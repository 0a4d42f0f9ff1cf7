"""One generation of the warehouse as the pages see it, and the cache that every page uses.

Values that are kept are shared between sessions without copies: read only.
"""

import atexit
import contextlib
import gc
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property, wraps
from pathlib import Path
from typing import Any, TypeVar, TypeVarTuple, cast

import pandas as pd
import pyarrow as pa
import streamlit as st

from warehouse import annotations
from warehouse.storage.cache import warehouse_path
from warehouse.storage.current import current_name
from warehouse.storage.lists import no_current, number_of
from warehouse.store import Kept, Reader


@dataclass(frozen=True)
class Shelf:
    """One generation of one warehouse: what a whole rerun of a page reads.

    ``name``: of the generation's list; ``excluded``: which exclusions of runs are followed, empty
    before the first one (``annotations.exclusions_version``); ``everything``: the excluded runs are
    there nevertheless; ``kept``: what was made of it. Whoever holds a shelf holds its files too.
    """

    root: Path
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
        return Shelf(
            self.root,
            self.name,
            self.excluded,
            True,
            reader=Reader(self.root, everything=True),
        )


Call = TypeVar("Call", bound=Callable[..., Any])
Said = TypeVar("Said")
Asked = TypeVarTuple("Asked")

#: So many warehouses are held open: one, but for tests.
_MOST = 4
_newest: OrderedDict[Path, Shelf] = OrderedDict()
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
        known = _newest.get(root)
        if known is None or (known.name, known.excluded) != (name, excluded):
            known = Shelf(root, name, excluded, reader=Reader(root))
            known.with_excluded()  # Opened now, so that both see the same.
            _newest[root] = known
        _newest.move_to_end(root)
        while len(_newest) > _MOST:
            _newest.popitem(last=False)
    return known


def frame(rows: pa.Table) -> pd.DataFrame:
    return cast(pd.DataFrame, rows.to_pandas())


def ask(shelf: Shelf, question: Callable[[Reader, *Asked], Said], *asked: *Asked) -> Said:
    """Return ``question(reader, *asked)`` of ``answers/``, kept for all sessions of this
    generation.

    ``asked`` are frozen values or text: equal ones are asked once.
    """
    key = _key(question, asked)
    return cast(Said, shelf.kept.get(key, lambda one: question(one.reader, *asked), shelf))


# --- Which generation the pages show: the newest, once what readers look at is answered of it.
#
# A large warehouse takes the processor a minute to answer what fifty readers have open. Where results
# come in every few seconds, readers would wait for nothing else. So the pages stay on the generation
# that they show while the newest answers, in one thread, what was asked in the last quarter of an hour,
# and then as long as that took: readers have half of the time for themselves.


#: Answers that took less are made anew by whoever asks first, and nobody sees an old one.
_LONG_S = 2.0
_RECENT_S = 15 * 60.0


class Turnover:
    """What the pages show of one warehouse, and the generation that is about to follow it.

    Answers that took less than ``long_s`` seconds of a processor are not made ahead.
    """

    def __init__(self, shown: Shelf, long_s: float = _LONG_S) -> None:
        self._shown, self._long_s = shown, long_s
        self._coming: Shelf | None = None
        self._rests_until = 0.0
        self._guard = threading.Lock()

    def shelf(self, newest: Shelf) -> Shelf:
        """Return the shelf that pages show, where ``newest`` is the newest one."""
        with self._guard:
            if self._coming is None and newest != self._shown:
                self._follow(newest)
            return self._shown

    def show(self, newest: Shelf) -> None:
        """Show the newest at once: a reader of the pages has changed it."""
        with self._guard:
            self._shown, self._coming = newest, None

    def _follow(self, newest: Shelf) -> None:
        # An exclusion is somebody's decision on what counts: it is never shown late.
        if (
            newest.excluded != self._shown.excluded
            or sum(one.took for one in self._shown.kept.recent(_RECENT_S)) < self._long_s
        ):
            self._shown = newest
            return
        if time.monotonic() < self._rests_until:
            return
        self._coming = newest
        threading.Thread(target=self._prepare, args=(newest,), daemon=True).start()

    def _prepare(self, new: Shelf) -> None:
        """Answer of the newest generation what was asked of the one that is shown."""
        began = time.monotonic()
        try:
            whole = (self._shown.with_excluded(), new.with_excluded())
            for known, coming in {(self._shown, new), whole}:
                for each in known.kept.recent(_RECENT_S):
                    # Whoever asks on a page is told the error there.
                    with contextlib.suppress(Exception):
                        coming.kept.get(each.key, each.make, coming)
        finally:
            with self._guard:
                if self._coming is new:
                    self._shown, self._coming = new, None
                ended = time.monotonic()
                self._rests_until = ended + (ended - began)
            # What was made of the generation before is large, and in cycles.
            gc.collect()


@st.cache_resource(max_entries=4, show_spinner=False)
def _turn(root: str, _newest: Shelf) -> Turnover:
    return Turnover(_newest)


def shown_shelf() -> tuple[Shelf, bool]:
    """Return the generation that the pages show, and whether a newer one is there. Raises
    WarehouseMissing where there is none."""
    newest = open_shelf()
    shown = _turn(str(newest.root), newest).shelf(newest)
    return shown, shown != newest


def show_newest() -> None:
    """Show the newest generation from here on: a page has just taken results in."""
    newest = open_shelf()
    _turn(str(newest.root), newest).show(newest)
