"""Compare: how do the arms compare with another, load by load?"""

import dataclasses
import functools

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from analysis.matching.pairing import MATCH_FIELDS
from answers.compare.words import KEPT_UP, counted, metric_name
from answers.ground import JUDGED
from dashboard import data, panels
from dashboard.answers import MOST_PANELS, Drawing
from dashboard.answers.compare import Page
from dashboard.components import explanation, plain, table
from dashboard.data import compare as data_compare
from dashboard.data.compare import Question
from dashboard.download_menu import charts_menu, rows_menu
from dashboard.drawing_titles import titled
from dashboard.empty import nothing
from dashboard.links import follow_first
from dashboard.shelf import Shelf
from dashboard.side_by_side import places
from dashboard.views import pair
from warehouse.catalogue import METRICS, STATISTICS, Metric, percentile_label
from warehouse.filters import Filters

TITLE = "Compare"
URL_PATH = "compare"
ORDER = 20
NOTHING = "How do the arms compare? No result to compare yet."
_LABELS = {METRICS[key].label: key for key in (*panels.CHARTED, *panels.MORE)}
_OF_LATENCIES = {statistic for metric, statistic in JUDGED if METRICS[metric].distribution}
_STATISTICS = {percentile_label(name): name for name in STATISTICS if name in _OF_LATENCIES}
_RELATIVE, _ABSOLUTE = "Improvement, %", "Own unit"
_COLUMNS = {
    name: st.column_config.TextColumn(name, alignment="right")
    for name in ("reference", "this arm", "improvement", "95 % interval", "study-adjusted")
}
#: What a chart of amounts shows of its repeats.
_BARS = "Bars reach from the lowest to the highest repeat. Hollow: a single repeat."


@dataclasses.dataclass(frozen=True)
class _Asked:
    """What the controls say: the metric that is drawn, how, and the question behind it."""

    metric: Metric
    absolute: bool
    question: Question


def render(shelf: Shelf, filters: Filters) -> None:
    """Draw the page."""
    if data.cells(shelf, filters).empty:
        st.header(NOTHING)
        nothing(shelf, "No result matches these filters. Remove one in the sidebar.")
        return
    top, body, last = st.container(), st.container(), st.container()
    with last:
        allowed = _allowed()
    with body:
        asked = _asked(shelf, filters, allowed)
    known = data_compare.page(shelf, asked.question)
    with top:
        _answer(known)
    with body:
        _body(shelf, asked, known)
    with last:
        _unmatched(known)


def _body(shelf: Shelf, asked: _Asked, known: Page) -> None:
    if not known.titles:
        nothing(shelf, "No cell has a partner among these filters. The reasons stand below.")
        return
    drawings = _over_load(shelf, asked, known)
    name = _setting(known)
    drawings = [*drawings, *_absolute(shelf, asked.question, name)]
    with st.expander("Every load of this setting, with its interval and word"):
        table(data_compare.level_table(shelf, asked.question, name), "rows", _COLUMNS)
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
    view = places[3].segmented_control(
        "Drawn as", [_RELATIVE, _ABSOLUTE], default=_RELATIVE, required=True, key="view",
        bind="query-params", disabled=metric.better == "neither",
    )  # fmt: skip
    extra = () if metric.key in panels.CHARTED else (metric.key,)
    question = Question(
        filters, statistic, tuple(sorted(allowed)), (*panels.CHARTED, *extra), reference
    )
    return _Asked(metric, view == _ABSOLUTE or metric.better == "neither", question)


def _choice(place: DeltaGenerator, label: str, options: list[str], key: str) -> str:
    chosen: str = place.selectbox(label, options, key=key, bind="query-params")
    return chosen


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


def _answer(known: Page) -> None:
    st.header(plain(known.headline))
    if known.about:
        st.caption(plain(known.about))
    for sentence in known.against:
        st.markdown(f"Against it: {plain(sentence)}.")
    if not known.evidence:
        return
    with st.container(horizontal=True, vertical_alignment="center"):
        for text in known.badges:
            st.badge(text, color="gray")
        st.caption(plain(known.evidence))


def _over_load(shelf: Shelf, asked: _Asked, known: Page) -> list[Drawing]:
    """The chosen metric over the load, a chart per setting: those that are drawn."""
    metric, question = asked.metric, asked.question
    statistic = question.line(metric.key)[1]
    name = metric_name(metric.key, statistic)
    if asked.absolute:
        title, read = f"{name}, {metric.unit}", data_compare.value_drawings
        note = _BARS
    else:
        title, read = f"{name}, improvement", data_compare.improvement_drawings
        note = _bands(known.reference)
    st.subheader(plain(title), help=explanation(metric, statistic))
    st.caption(plain(note))
    if len(known.titles) > MOST_PANELS:
        st.caption(_cut(MOST_PANELS, len(known.titles)))
    drawings = read(shelf, question, metric.key)
    for place, drawing in places(drawings):
        place.vega_lite_chart(drawing)
    return drawings


def _bands(reference: str) -> str:
    """How a chart of improvements is read."""
    return (
        f"Above the dashed line is better than {reference}. Bands are 95 % intervals from server "
        "starts; hollow: a single one. Throughput at a rate that every arm keeps up with is what "
        f"was offered and is not compared ({KEPT_UP})."
    )


def _cut(drawn: int, there: int) -> str:
    """What is not drawn, and how to see it."""
    return (
        f"{drawn} of {there} settings are drawn, those with most loads. "
        "Choose a dataset or a GPU in the sidebar to see the others."
    )


def _setting(known: Page) -> str:
    st.subheader("How fast is it?")
    if len(known.titles) == 1:
        return next(iter(known.titles))
    follow_first("setting", list(known.titles))
    chosen: str = st.selectbox("Setting", list(known.titles), key="setting", bind="query-params")
    return chosen


def _absolute(shelf: Shelf, question: Question, name: str) -> list[Drawing]:
    drawings = data_compare.metric_drawings(shelf, question, name)
    for (place, drawing), key in zip(places(drawings), panels.CHARTED, strict=True):
        place.vega_lite_chart(drawing)
        place.caption(
            "How is this calculated?", help=explanation(METRICS[key], question.line(key)[1])
        )
    return drawings


def _totals(known: Page) -> None:
    st.subheader("The study's table: geometric means over the loads that both arms have")
    st.caption("No server runs at such a mean: it has no word and carries no money.")
    table(known.totals, "rows", _COLUMNS)
    for note in known.notes:
        st.caption(plain(note))


def _downloads(shelf: Shelf, question: Question, drawings: list[Drawing]) -> None:
    with st.container(horizontal=True):
        rows_menu("pairs", functools.partial(data_compare.pair_rows, shelf, question))
        charts_menu("compare", titled(drawings))


def _unmatched(known: Page) -> None:
    if known.unmatched.total:
        st.markdown(f"Without a partner: {counted(known.unmatched.total, 'cell')}.")
        table(known.unmatched, "cells")
    else:
        st.caption("Every cell has a partner.")
    if known.excluded.total:
        st.markdown(f"Shown, but deciding nothing: {counted(known.excluded.total, 'cell')}.")
        table(known.excluded, "cells")
