"""Verdict: turn speculation on or not, in one sentence, and what that sentence stands on."""

import streamlit as st

from dashboard import data, phrases_verdict
from dashboard.answers.verdict import Tile, Verdict
from dashboard.components import plain, table
from dashboard.data import verdict as data_verdict
from dashboard.download_menu import charts_menu, rows_menu
from dashboard.drawing_titles import titled
from dashboard.empty import nothing
from dashboard.filters import keep
from dashboard.links import follow_first
from dashboard.report_button import report_button
from dashboard.shelf import Shelf
from dashboard.subjects import Subject
from dashboard.tables import TOTAL_COLUMNS
from dashboard.views.page_links import page_links
from warehouse.filters import Filters

TITLE = "Verdict"
URL_PATH = "verdict"
#: Widths in px: as many stand side by side as there is room for, so no text is cut.
_TILE, _SUBJECT, _ARM = 232, 520, 280
_LINKS = {
    "compare": "Every metric and load",
    "draft-tokens": "Which K",
    "slo": "Within an SLO",
    "cost": "What it saves in money",
    "runs": "The runs behind it",
}


def render(shelf: Shelf, filters: Filters) -> None:
    """Draw the page."""
    if data.cells(shelf, filters).empty:
        st.header(plain(phrases_verdict.NOTHING))
        nothing(shelf, "No result matches these filters. Remove one in the sidebar.")
        return
    known = data_verdict.subjects(shelf, filters)
    with st.container(horizontal=True, vertical_alignment="bottom"):
        follow_first("about", list(known))
        name = st.selectbox(
            "Verdict on", list(known), key="about", bind="query-params", width=_SUBJECT
        )
        arms = data_verdict.arms(shelf, filters, known[name])
        if arms:
            follow_first("method", arms)
            arm = st.selectbox(
                "Speculation (the best first)", arms, key="method", bind="query-params", width=_ARM
            )
            report_button(shelf, filters, name, arm)
        if len(known) > 1:
            st.button("Only this on all pages", on_click=keep, args=(known[name].kept,), key="only")
    if not arms:
        _no_pair(shelf, filters, known[name])
        return
    _verdict(data_verdict.verdict(shelf, filters, known[name], arm))


def _verdict(found: Verdict) -> None:
    _answer(found)
    _grid(found)
    _totals(found)
    if found.methods.total > 1:
        st.subheader("Which method?")
        table(found.methods, "arms", TOTAL_COLUMNS)
    _evidence(found)
    _files(found)
    page_links(_LINKS)


def _no_pair(shelf: Shelf, filters: Filters, subject: Subject) -> None:
    st.header(plain(phrases_verdict.NOTHING))
    reasons = data_verdict.unmatched(shelf, filters, subject)
    st.markdown("These cells have no partner:")
    table(reasons, "cells")


def _answer(found: Verdict) -> None:
    st.header(plain(found.headline))
    with st.container(horizontal=True):
        for tile in found.tiles:
            _tile(tile)
    if found.against:
        st.markdown(f"**Against it:** {plain('; '.join(found.against))}.")
    else:
        st.markdown("**Against it:** nothing that was measured.")
    st.caption(f"**Evidence:** {plain(found.evidence)}")


def _tile(tile: Tile) -> None:
    st.metric(
        tile.label, tile.value, plain(tile.note), delta_color="off", delta_arrow="off",
        help=plain(tile.formula), width=_TILE,
    )  # fmt: skip


def _grid(found: Verdict) -> None:
    st.subheader(
        "Improvement of output tokens per second over concurrency",
        help="Above the dashed line is better than the baseline. Bands are 95 % intervals from "
        "repeats; hollow: a single repeat. A triangle marks the load at which a gain ends.",
    )
    for row in found.grid:
        for place, drawing in zip(st.columns(len(row)), row, strict=True):
            if drawing is not None:
                place.vega_lite_chart(drawing)
    if found.left_out:
        st.caption(f"{found.left_out} more settings: choose a dataset in the sidebar to see them.")


def _totals(found: Verdict) -> None:
    st.subheader("In total, over all loads and settings")
    left, right = st.columns([5, 2])
    with left:
        table(found.totals, "rows", TOTAL_COLUMNS)
    right.vega_lite_chart(found.changes)


def _files(found: Verdict) -> None:
    drawings = [drawing for row in found.grid for drawing in row if drawing is not None]
    with st.container(horizontal=True):
        rows_menu("verdict", found.totals.rows.to_pandas)
        charts_menu("verdict", titled([*drawings, found.changes]))


def _evidence(found: Verdict) -> None:
    with st.expander("How good is the evidence? Setting by setting"):
        table(found.by_setting, "settings", TOTAL_COLUMNS)
        _sentences("Every setting", found.shared)
        for one in found.settings:
            st.markdown(f"**{plain(one.name)}**  \n{plain(one.paragraph)}")
            _sentences("", found.own(one))


def _sentences(name: str, sentences: tuple[str, ...]) -> None:
    if name and sentences:
        st.markdown(f"**{name}**")
    if sentences:
        st.markdown("\n".join(f"- {plain(sentence)}" for sentence in sentences))
