"""One pair of cells in depth, drawn within the Compare page; requests only when asked for."""

from typing import Any

import streamlit as st

from dashboard.answers.pair import Pair
from dashboard.components import plain, table
from dashboard.data import pair as data_pair
from dashboard.data.compare import Question
from dashboard.links import cell_link, follow_first
from dashboard.shelf import Shelf


def render(shelf: Shelf, question: Question, setting: str) -> None:
    """What differs between two cells, and how their single requests fared."""
    st.subheader("One pair: what differs, and how did single requests fare?")
    named = data_pair.pairs(shelf, question, setting)
    left, right = st.columns([3, 2], vertical_alignment="bottom")
    follow_first("pair", list(named))
    chosen = left.selectbox("Pair", list(named), key="pair", bind="query-params")
    asked = right.toggle("Load single requests", key="requests", bind="query-params")
    pair = named[chosen]
    _configuration(shelf, pair)
    if asked:
        with st.spinner("Reading the requests of both cells"):
            found = data_pair.requests(shelf, pair)
        _requests(found)


def _configuration(shelf: Shelf, pair: Pair) -> None:
    changes = data_pair.configuration(shelf, pair)
    links = " and ".join(f"[{plain(arm)}]({cell_link(cell)})" for cell, arm in pair.arms.items())
    st.markdown(f"Configuration: what differs between {links}.")
    if changes.total:
        table(changes, "settings")
    else:
        st.caption("Nothing that is recorded differs.")


def _requests(found: data_pair.Requests) -> None:
    if not found.distributions:
        st.caption("These reports hold no requests, so there is no distribution.")
    _row(found.distributions)
    _row(found.first_tokens)
    st.markdown("Did both arms answer the same?")
    for sentence in found.outputs:
        st.markdown(f"- {plain(sentence)}")


def _row(drawings: list[dict[str, Any]]) -> None:
    if drawings:
        for place, drawing in zip(st.columns(len(drawings)), drawings, strict=True):
            place.vega_lite_chart(drawing)
