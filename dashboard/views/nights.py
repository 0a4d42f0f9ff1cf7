"""Last nights: when, what ran, how long, what changed, what failed."""

import streamlit as st

from dashboard.answers import nights as answers_nights
from dashboard.answers import notes as answers_notes
from dashboard.answers.nights import COLUMNS
from dashboard.components import Shown, plain, table
from dashboard.data import nights as data_nights
from dashboard.data import notes as data_notes
from dashboard.shelf import Shelf
from dashboard.views import annotating
from warehouse.filters import Filters
from warehouse.nights import NightSummary

TITLE = "Last nights"
URL_PATH = "nights"
ORDER = 80
_HOW = (
    "A night is a fresh set of measurements of a study by `draftboard nightly`, from noon to noon "
    "UTC. Its outcome is what the command ended with: a regression comes before a stage that failed, "
    "that before a spent budget. Of the filters, study and days choose nights."
)


def render(shelf: Shelf, filters: Filters) -> None:
    """Draw the page."""
    known = data_nights.history(shelf)
    nights = answers_nights.chosen(known.nights, filters)
    st.header(plain(answers_nights.headline(nights)), help=_HOW)
    for sentence in known.damaged:
        st.warning(plain(sentence))
    if not nights:
        _nothing(bool(known.nights))
        return
    st.markdown(plain(answers_nights.counts(nights)))
    table(answers_nights.table(nights), "nights", COLUMNS)
    _one_night(shelf, nights)


def _nothing(others: bool) -> None:
    if others:
        st.info("No night matches these filters. Remove one in the sidebar.")
        return
    st.info(answers_nights.HOW_TO_BEGIN)
    st.code(answers_nights.COMMAND, language=None)


def _one_night(shelf: Shelf, nights: tuple[NightSummary, ...]) -> None:
    st.subheader("One night")
    names = answers_nights.names(nights)
    name = st.selectbox("Night", list(names), key="night", bind="query-params")
    night = nights[names[name]]
    st.markdown(plain(answers_nights.sentence(night)))
    day = night.night[:10]
    noted = data_notes.of_night(shelf, day, night.study)
    _part("What people noted on it", answers_notes.table(noted), "notes")
    _part("What became worse", answers_nights.regressions(night), "series")
    _part("What drifts", answers_nights.drifts(night), "series")
    _part("Changed since the night before", answers_nights.changed(night), "changes")
    _part("Cells that failed", answers_nights.failures(night), "cells")
    _part("What ran", answers_nights.stages(night), "stages")
    annotating.night(shelf, [day], night.study)
    if len(nights) > len(names):
        st.caption(f"The newest {len(names)} of {len(nights):,} nights can be chosen; use filters.")


def _part(title: str, rows: Shown, what: str) -> None:
    if rows.total:
        st.markdown(f"{title}:")
        table(rows, what)
