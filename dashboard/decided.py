"""The pieces in which pages show a decision: heat map, tables, what to paste."""

import functools

import streamlit as st

from answers.decide import tables
from answers.decide.values import Decision, Question
from dashboard.answers import decide as drawn
from dashboard.cells import LINK_COLUMNS
from dashboard.charts.drafts import CHOSEN, SQUARE
from dashboard.components import plain, table
from dashboard.data import decide as data_decide
from dashboard.data.decide import Place
from dashboard.shelf import Shelf

_ALT = "Expected improvement by load and arm, as a heat map; the numbers stand in a table too."


def heat_map(shelf: Shelf, question: Question, place: Place) -> None:
    """What each arm is expected to bring at each load, and the cells behind a field."""
    st.caption(
        "Blue is better than the baseline, orange worse; hatched is not settled. Outlined: taken."
    )
    drawing = data_decide.heat_map(shelf, question, place)
    if "params" in drawing:
        react = functools.partial(_choose, "map")
        st.vega_lite_chart(drawing, alt=_ALT, key="map", on_select=react)
    else:  # It says what is unknown: there is nothing to click on.
        st.vega_lite_chart(drawing, alt=_ALT)
    one = data_decide.decision(shelf, question, place)
    chosen = st.selectbox(
        "The cells behind a field: choose it here or click on it", list(drawn.squares(one)),
        index=None, key=SQUARE, bind="query-params", placeholder="no field chosen",
    )  # fmt: skip
    if chosen is not None:
        behind = data_decide.cells_behind(shelf, question, place, chosen)
        table(behind, "cells", LINK_COLUMNS)


def _choose(key: str) -> None:
    """A click on a field chooses it in the box below, which is what the link holds."""
    picked = st.session_state[key]["selection"].get(CHOSEN)
    if picked:
        st.session_state[SQUARE] = picked[0][SQUARE]


def by_load(one: Decision) -> None:
    """The load map."""
    st.subheader("By load")
    table(drawn.table(tables.by_load(one)), "loads")


def paste(one: Decision) -> None:
    """What to give vLLM."""
    st.subheader("What to give vLLM")
    entries = tables.entries(one)
    for text in (entries, one.config and f"--speculative-config '{one.config}'", one.serve):
        if text:
            st.code(text, language=None, wrap_lines=True)
    if one.config is None:
        st.caption("Nothing to paste: serve without speculation.")
    for note in tables.table_notes(one):
        st.caption(plain(note))


def bullets(sentences: tuple[str, ...]) -> None:
    """A list of sentences."""
    if sentences:
        st.markdown("\n".join(f"- {plain(sentence)}" for sentence in sentences))
