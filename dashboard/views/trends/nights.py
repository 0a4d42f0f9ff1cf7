"""The last nights of ``draftboard nightly``: how each ended, what changed, what failed."""

from functools import lru_cache
from pathlib import Path

import pandas as pd
import streamlit as st
from streamlit import column_config as col

from answers.runs import notes
from answers.trend import nights
from dashboard import annotating
from dashboard.components import copied, folded, listing, plain, shown, table
from dashboard.shelf import Shelf, ask
from warehouse.beside import NightsHistory, NightSummary, nights_history, nights_version
from warehouse.filters import Filters

#: Nights that can be chosen at once; the others are behind filters.
_MOST = 200
_COLUMNS = {
    "night": "night", "study": "study", "outcome": "outcome", "good": "cells good",
    "took": "took", "worse": "got worse", "changed": "what changed", "failed": "what failed",
    "cost": "cost, USD", "began": "began (UTC)",
}  # fmt: skip
_RIGHT = {
    name: col.TextColumn(name, alignment="right") for name in ("cells good", "took", "cost, USD")
}
_HOW = (
    "A night is a fresh set of measurements of a study by draftboard nightly, from noon to noon "
    "UTC. Its outcome is what the command ended with: a regression comes before a stage that "
    "failed, that before a spent budget. Of the filters, study and days choose nights."
)


def render(shelf: Shelf, filters: Filters) -> None:
    """Draw the part, folded; its label says how the last night went."""
    known = _history(shelf.root, nights_version(Path(shelf.root)))
    chosen = nights.chosen(known.nights, filters)
    part = folded(plain(nights.headline(chosen)), "last_nights")
    if part is None:
        return
    with part:
        for sentence in known.damaged:
            st.warning(plain(sentence))
        if chosen:
            _shown(shelf, chosen)
        elif known.nights:
            st.info("No night matches these filters. Remove one in the sidebar.")
        else:
            st.info(nights.HOW_TO_BEGIN)
            copied(nights.COMMAND)


@lru_cache(4)
def _history(root: str, version: str) -> NightsHistory:
    """Return the nights. A night that ends makes no new generation, so the answer is kept by the
    files' version."""
    del version
    return nights_history(Path(root))


def _shown(shelf: Shelf, chosen: tuple[NightSummary, ...]) -> None:
    st.caption(f"{plain(nights.counts(chosen))} {_HOW}")
    table(listing([nights.row(night) for night in chosen[:_MOST]], _COLUMNS), "nights", _RIGHT)
    names = {f"{night.night}, {night.study}": night for night in chosen[:_MOST]}
    night = names[st.selectbox("Night", list(names), key="night", bind="query-params")]
    st.markdown(plain(nights.sentence(night)))
    day, noted = night.night[:10], annotating.notes_version(shelf)
    said = ask(shelf.with_excluded(), notes.of_night, day, night.study, noted) if noted else ()
    if said:
        st.markdown("What people noted on it:")
        table(annotating.noted(said), "notes")
    for one in nights.parts(night):
        st.markdown(f"{one.title}:")
        table(shown(pd.DataFrame(one.rows, columns=list(one.columns))), "rows")
    annotating.night(shelf, [day], night.study, "last-night")
    if len(chosen) > _MOST:
        st.caption(f"The newest {_MOST} of {len(chosen):,} nights can be chosen; use filters.")
