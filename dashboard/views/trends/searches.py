"""The searches that measure, or measured last: what is known of each candidate, what comes next, what was
promised and proven."""

from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path

import streamlit as st

from answers.search import board, words
from dashboard.components import folded, plain, table, texts
from dashboard.shelf import Shelf
from warehouse.beside import read_searches, searches_version
from warehouse.filters import Filters

#: While a search measures, what is shown of it follows it, so often.
_EVERY_S = 15.0
_HOW = (
    "draftboard search measures only what the decision still needs. Gain: output tokens per second (or "
    "speed of the median request, where latency is what it is for) against the baseline, as expected "
    "after all launches so far, from the dataset and load where it is smallest to the one where it is largest. Of the "
    "filters, study and days choose searches."
)


def render(shelf: Shelf, filters: Filters) -> None:
    """Draw the part, folded; its label says how the newest search stands. Nothing where there is
    none."""
    known = _chosen(shelf.root, filters)
    if not known:
        return
    part = folded(plain(board.label(known[0], _now())), "searches")
    if part is None:
        return
    with part:
        at_work = any(one.expected_min is not None for one in known)
        st.fragment(_shown, run_every=_EVERY_S if at_work else None)(shelf.root, filters)


def _shown(root: str, filters: Filters) -> None:
    known = {str(one.told.study): one for one in _chosen(root, filters)}
    if not known:
        return
    name = next(iter(known))
    if len(known) > 1:
        name = st.selectbox("Search", list(known), key="search", bind="query-params")
    one = known[name]
    first, *rest = board.lines(one)
    st.markdown(plain(first), help=_HOW)
    for line in rest:
        st.markdown(plain(line))
    st.caption(plain(board.heard(one, _now())))
    table(texts(*board.candidates(one)), "candidates")
    if one.told.found:
        st.markdown("By dataset and load:")
        table(texts(*words.standings(one.told.found)), "loads")
    if one.proof is not None:
        st.markdown(
            f"Promised by the search, proven by fresh launches: {plain(words.proof(one.proof))}"
        )
        table(texts(*words.proof_rows(one.proof)), "loads")
    if one.told.steps:
        st.markdown("Launches so far:")
        table(texts(*words.steps(one.told)), "launches")


def _chosen(root: str, filters: Filters) -> tuple[board.Board, ...]:
    return board.chosen(_known(root, searches_version(Path(root))), filters)


@lru_cache(4)
def _known(root: str, version: str) -> tuple[board.Board, ...]:
    """Return the searches. One that goes on makes no new generation, so the answer is kept by the
    files' version."""
    del version
    return board.from_texts(read_searches(Path(root)))


def _now() -> datetime:
    return datetime.now(UTC)
