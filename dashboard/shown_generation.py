"""Which generation the pages show: the newest, once what readers look at is answered of it.

A large warehouse takes the processor a minute to answer what fifty readers have open. Where results
come in every few seconds, readers would wait for nothing else. So the pages stay on the generation
that they show while the newest answers, in one thread, what was asked in the last quarter of an hour,
and then as long as that took: readers have half of the time for themselves.
"""

import contextlib
import gc
import threading
import time

import streamlit as st

from dashboard.shelf import Shelf, open_shelf

#: Answers that took less are made anew by whoever asks first, and nobody sees an old one.
_LONG_S = 2.0
_RECENT_S = 15 * 60.0


class ShownGeneration:
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
        began = time.monotonic()
        try:
            self._answer(new)
        finally:
            with self._guard:
                if self._coming is new:
                    self._shown, self._coming = new, None
                ended = time.monotonic()
                self._rests_until = ended + (ended - began)
            # What was made of the generation before is large, and in cycles.
            gc.collect()

    def _answer(self, new: Shelf) -> None:
        """Answer of the newest generation what was asked of the one that is shown."""
        for known, coming in {
            (self._shown, new),
            (self._shown.with_excluded(), new.with_excluded()),
        }:
            for one in known.kept.recent(_RECENT_S):
                # Whoever asks on a page is told the error there.
                with contextlib.suppress(Exception):
                    coming.kept.get(one.key, one.make, coming)


@st.cache_resource(max_entries=4, show_spinner=False)
def _shown_of(root: str, _newest: Shelf) -> ShownGeneration:
    return ShownGeneration(_newest)


def shown_shelf() -> tuple[Shelf, bool]:
    """Return the generation that the pages show, and whether a newer one is there. Raises
    WarehouseMissing where there is none."""
    newest = open_shelf()
    shown = _shown_of(newest.root, newest).shelf(newest)
    return shown, shown != newest


def show_newest() -> None:
    """Show the newest generation from here on: a page has just taken results in."""
    newest = open_shelf()
    _shown_of(newest.root, newest).show(newest)
