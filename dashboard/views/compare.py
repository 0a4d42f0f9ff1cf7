"""Compare: does speculation pay, up to which load, and how fast is it?"""

import dataclasses
import functools

import pandas as pd
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from analysis.matching.pairing import MATCH_FIELDS
from dashboard import data, panels, phrases
from dashboard.answers import MOST_PANELS, Answer, Drawing
from dashboard.components import explanation, plain, table
from dashboard.data import Question
from dashboard.download_menu import charts_menu, rows_menu
from dashboard.drawing_titles import titled
from dashboard.empty import nothing
from dashboard.links import follow_first
from dashboard.shelf import Shelf
from dashboard.side_by_side import places
from dashboard.tables import TOTAL_COLUMNS, pair_rows
from dashboard.views import pair
from warehouse.catalogue import METRICS, PERCENTILES, Metric, percentile_label
from warehouse.filters import Filters

TITLE = "Compare"
URL_PATH = "compare"
_LABELS = {METRICS[key].label: key for key in (*panels.CHARTED, *panels.MORE)}
_STATISTICS = {percentile_label(name): name for name in ("mean", *PERCENTILES)}
_RELATIVE, _ABSOLUTE = "Improvement, %", "Own unit"


@dataclasses.dataclass(frozen=True)
class _Asked:
    """What the controls say: the metric that is drawn, how, and the question behind it."""

    metric: Metric
    absolute: bool
    question: Question


def render(shelf: Shelf, filters: Filters) -> None:
    """Draw the page."""
    if data.cells(shelf, filters).empty:
        st.header(phrases.NOTHING)
        nothing(shelf, "No result matches these filters. Remove one in the sidebar.")
        return
    top, body, last = st.container(), st.container(), st.container()
    with last:
        allowed = _allowed()
    with body:
        asked = _asked(shelf, filters, allowed)
    known = data.answer(shelf, asked.question)
    with top:
        _answer(known)
    with body:
        _body(shelf, asked, known)
    with last:
        _unmatched(known)


def _body(shelf: Shelf, asked: _Asked, known: Answer) -> None:
    if not known.titles:
        nothing(shelf, "No cell has a partner among these filters. The reasons stand below.")
        return
    drawings = _over_load(shelf, asked, known)
    name = _setting(known)
    drawings = [*drawings, *_absolute(shelf, asked.question, name)]
    with st.expander("Every load of this setting, with intervals and verdicts"):
        table(data.level_table(shelf, asked.question, name), "rows", TOTAL_COLUMNS)
    pair.render(shelf, asked.question, name)
    _totals(known)
    _downloads(shelf, asked.question, drawings)


def _asked(shelf: Shelf, filters: Filters, allowed: list[str]) -> _Asked:
    places = st.columns(4, vertical_alignment="bottom")
    metric = METRICS[_LABELS[_choice(places[0], "Metric", list(_LABELS), "metric")]]
    statistics = list(_STATISTICS)
    statistic = _STATISTICS[
        places[1].selectbox(
            "Statistic of latencies",
            statistics,
            index=statistics.index("median"),
            key="statistic",
            bind="query-params",
        )
    ]
    reference = _choice(places[2], "Compared with", data.arms(shelf, filters), "reference")
    if filters.arm:
        # Without the arm that the others are compared with there are no pairs.
        filters = dataclasses.replace(filters, arm=tuple({*filters.arm, reference}))
    view = places[3].segmented_control(
        "Drawn as", [_RELATIVE, _ABSOLUTE], default=_RELATIVE, required=True, key="view",
        bind="query-params", disabled=metric.better == "neither",
    )  # fmt: skip
    extra = () if metric.key in panels.CHARTED else (metric.key,)
    question = Question(
        filters,
        statistic,
        tuple(sorted(allowed)),
        (*panels.CHARTED, *extra),
        reference,
        _sampling(),
    )
    return _Asked(metric, view == _ABSOLUTE or metric.better == "neither", question)


def _choice(place: DeltaGenerator, label: str, options: list[str], key: str) -> str:
    chosen: str = place.selectbox(label, options, key=key, bind="query-params")
    return chosen


def _sampling() -> bool:
    return st.toggle(
        "Where there is one repeat, draw the interval of its sampled requests",
        key="sampling",
        bind="query-params",
        help="It covers the sampling of requests only, not run-to-run noise, and decides nothing. "
        "It reads the requests of these cells, which takes a while.",
    )


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


def _over_load(shelf: Shelf, asked: _Asked, known: Answer) -> list[Drawing]:
    """The chosen metric over the load, a chart per setting: those that are drawn."""
    metric, question = asked.metric, asked.question
    statistic = panels.shown_statistic(metric, question.statistic)
    name = phrases.named(metric, statistic)
    if asked.absolute:
        title, read = f"{name}, {metric.unit}", data.value_drawings
        note = phrases.BARS
    else:
        title, read = f"Does it pay? {name}, improvement", data.improvement_drawings
        note = phrases.against(known.reference)
    st.subheader(plain(title), help=explanation(metric, statistic))
    st.caption(plain(note))
    if len(known.titles) > MOST_PANELS:
        st.caption(phrases.cut(MOST_PANELS, len(known.titles)))
    drawings = read(shelf, question, metric.key)
    for place, drawing in places(drawings):
        place.vega_lite_chart(drawing)
    return drawings


def _setting(known: Answer) -> str:
    st.subheader("How fast is it?")
    if len(known.titles) == 1:
        return next(iter(known.titles))
    follow_first("setting", list(known.titles))
    chosen: str = st.selectbox("Setting", list(known.titles), key="setting", bind="query-params")
    return chosen


def _absolute(shelf: Shelf, question: Question, name: str) -> list[Drawing]:
    drawings = data.metric_drawings(shelf, question, name)
    for (place, drawing), key in zip(places(drawings), panels.CHARTED, strict=True):
        place.vega_lite_chart(drawing)
        statistic = panels.shown_statistic(METRICS[key], question.statistic)
        place.caption("How is this calculated?", help=explanation(METRICS[key], statistic))
    return drawings


def _totals(known: Answer) -> None:
    st.subheader("In total: geometric mean over the concurrency levels that both arms have")
    table(known.totals, "rows", TOTAL_COLUMNS)
    for note in known.notes:
        st.caption(plain(note))


def _downloads(shelf: Shelf, question: Question, drawings: list[Drawing]) -> None:
    with st.container(horizontal=True):
        rows_menu("pairs", functools.partial(rows, shelf, question))
        charts_menu("compare", titled(drawings))


def rows(shelf: Shelf, question: Question) -> pd.DataFrame:
    """The pairs that the page stands on, for a file."""
    return pair_rows(data.study(shelf, question), question.statistic, question.metrics)


def _unmatched(known: Answer) -> None:
    if not known.unmatched.total:
        st.caption("Every cell has a partner.")
        return
    st.markdown(f"Without a partner: {phrases.counted(known.unmatched.total, 'cell')}.")
    table(known.unmatched, "cells")
