"""Compare: does speculation pay, up to which load, and how fast is it?"""

import dataclasses
import functools
from collections.abc import Iterator

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from analysis.pairing import MATCH_FIELDS
from dashboard import data, panels, phrases
from dashboard.answers import MOST_PANELS, Answer, Drawing
from dashboard.components import explanation, nothing_matches, plain, table
from dashboard.data import Question
from dashboard.shelf import Shelf
from dashboard.tables import TOTAL_COLUMNS, pair_rows
from warehouse.catalogue import METRICS, PERCENTILES, Metric, percentile_label
from warehouse.filters import Filters

TITLE = "Compare"
URL_PATH = "compare"
_ACROSS = 3
_LABELS = {METRICS[key].label: key for key in panels.CHARTED}
_STATISTICS = {percentile_label(name): name for name in ("mean", *PERCENTILES)}


def render(shelf: Shelf, filters: Filters) -> None:
    """Draw the page."""
    if data.cells(shelf, filters).empty:
        st.header(phrases.NOTHING)
        _nothing(shelf)
        return
    top, body, last = st.container(), st.container(), st.container()
    with last:
        allowed = _allowed()
    with body:
        metric, question = _question(filters, allowed)
    known = data.answer(shelf, question)
    with top:
        _answer(known)
    with body:
        _body(shelf, question, known, metric)
    with last:
        _unmatched(known)


def _body(shelf: Shelf, question: Question, known: Answer, metric: Metric) -> None:
    if not known.titles:
        sentence = "No cell has a partner among these filters. The reasons stand below."
        nothing_matches(data.combinations(shelf), sentence)
        return
    _improvement(shelf, question, known, metric)
    _absolute(shelf, question, known)
    _totals(known)
    _download(shelf, question)


def _nothing(shelf: Shelf) -> None:
    if data.cells(shelf, Filters()).empty:
        st.info("The warehouse is empty. Add results with: draftboard ingest PATHS")
        return
    sentence = "No result matches these filters. Remove one in the sidebar."
    nothing_matches(data.combinations(shelf), sentence)


def _question(filters: Filters, allowed: list[str]) -> tuple[Metric, Question]:
    """What to compare; a choice of arms keeps the baseline, without which there are no pairs."""
    if filters.arm:
        filters = dataclasses.replace(filters, arm=tuple({*filters.arm, "baseline"}))
    left, right = st.columns(2)
    metric = left.selectbox("Metric", list(_LABELS), key="metric", bind="query-params")
    statistic = right.selectbox(
        "Statistic of latencies",
        list(_STATISTICS),
        index=list(_STATISTICS).index("median"),
        key="statistic",
        bind="query-params",
    )
    question = Question(filters, _STATISTICS[statistic], tuple(sorted(allowed)))
    return METRICS[_LABELS[metric]], question


def _allowed() -> list[str]:
    st.subheader("Which cells are compared?")
    chosen: list[str] = st.multiselect(
        "Cells are paired when they are equal in everything but the speculation. "
        "Also pair cells that differ in",
        list(MATCH_FIELDS),
        key="allow",
        bind="query-params",
        placeholder="nothing else",
    )
    return chosen


def _answer(known: Answer) -> None:
    st.header(plain(known.headline))
    if not known.against:
        return
    st.markdown(plain(known.against))
    with st.container(horizontal=True, vertical_alignment="center"):
        for text in known.badges:
            st.badge(text, color="gray")
        st.caption(plain(known.evidence))


def _improvement(shelf: Shelf, question: Question, known: Answer, metric: Metric) -> None:
    statistic = panels.shown_statistic(metric, question.statistic)
    st.subheader(
        f"Does it pay? {phrases.named(metric, statistic)}, improvement",
        help=explanation(metric, statistic),
    )
    st.caption("Above the dashed line is better than the baseline. Hollow: a single repeat.")
    if len(known.titles) > MOST_PANELS:
        st.caption(
            f"{MOST_PANELS} of {len(known.titles)} settings are drawn, those with most levels. "
            "Choose a dataset or a GPU in the sidebar to see the others."
        )
    drawings = data.improvement_drawings(shelf, question, metric.key)
    for place, drawing in _places(drawings):
        place.vega_lite_chart(drawing)


def _absolute(shelf: Shelf, question: Question, known: Answer) -> None:
    st.subheader("How fast is it?")
    name = next(iter(known.titles))
    if len(known.titles) > 1:
        name = st.selectbox("Setting", list(known.titles), key="setting", bind="query-params")
    drawings = data.metric_drawings(shelf, question, name)
    for (place, drawing), key in zip(_places(drawings), panels.CHARTED, strict=True):
        place.vega_lite_chart(drawing)
        statistic = panels.shown_statistic(METRICS[key], question.statistic)
        place.caption("How is this calculated?", help=explanation(METRICS[key], statistic))


def _places(drawings: list[Drawing]) -> Iterator[tuple[DeltaGenerator, Drawing]]:
    """A column for each chart, three to a row; on a phone they stand one below the other."""
    for start in range(0, len(drawings), _ACROSS):
        row = drawings[start : start + _ACROSS]
        across = _ACROSS if len(drawings) > 2 else len(drawings)
        yield from zip(st.columns(across), row, strict=False)


def _totals(known: Answer) -> None:
    st.subheader("In total: geometric mean over the concurrency levels that both arms have")
    table(known.totals, "rows", TOTAL_COLUMNS)


def _download(shelf: Shelf, question: Question) -> None:
    st.download_button(
        "Download the pairs as CSV",
        functools.partial(csv_text, shelf, question),
        file_name="draftboard-pairs.csv",
        mime="text/csv",
        on_click="ignore",
    )


def csv_text(shelf: Shelf, question: Question) -> str:
    """The pairs that the page stands on, as CSV."""
    return pair_rows(data.study(shelf, question), question.statistic).to_csv(index=False)


def _unmatched(known: Answer) -> None:
    if not known.unmatched.total:
        st.caption("Every cell has a partner.")
        return
    st.markdown(f"Without a partner: {phrases.counted(known.unmatched.total, 'cell')}.")
    table(known.unmatched, "cells")
