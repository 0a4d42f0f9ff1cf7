"""Compare: does speculation pay, up to which load, and how fast is it?"""

import dataclasses
import functools
from collections.abc import Iterator

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from analysis.matching.pairing import MATCH_FIELDS
from dashboard import data, panels, phrases
from dashboard.answers import MOST_PANELS, Answer, Drawing
from dashboard.components import explanation, nothing_matches, plain, table
from dashboard.data import Question
from dashboard.empty import nothing
from dashboard.shelf import Shelf
from dashboard.tables import TOTAL_COLUMNS, pair_rows
from dashboard.views import pair
from warehouse.catalogue import METRICS, PERCENTILES, Metric, percentile_label
from warehouse.filters import Filters

TITLE = "Compare"
URL_PATH = "compare"
_ACROSS = 3
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
        sentence = "No cell has a partner among these filters. The reasons stand below."
        nothing_matches(data.combinations(shelf), sentence)
        return
    _over_load(shelf, asked, known)
    name = _setting(known)
    _absolute(shelf, asked.question, name)
    with st.expander("Every load of this setting, with intervals and verdicts"):
        table(data.level_table(shelf, asked.question, name), "rows", TOTAL_COLUMNS)
    pair.render(shelf, asked.question, name)
    _totals(known)
    _download(shelf, asked.question)


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


def _over_load(shelf: Shelf, asked: _Asked, known: Answer) -> None:
    """The chosen metric over the load, a chart per setting."""
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
    for place, drawing in _places(read(shelf, question, metric.key)):
        place.vega_lite_chart(drawing)


def _setting(known: Answer) -> str:
    st.subheader("How fast is it?")
    if len(known.titles) == 1:
        return next(iter(known.titles))
    chosen: str = st.selectbox("Setting", list(known.titles), key="setting", bind="query-params")
    return chosen


def _absolute(shelf: Shelf, question: Question, name: str) -> None:
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
    for note in known.notes:
        st.caption(plain(note))


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
    return pair_rows(data.study(shelf, question), question.statistic, question.metrics).to_csv(
        index=False
    )


def _unmatched(known: Answer) -> None:
    if not known.unmatched.total:
        st.caption("Every cell has a partner.")
        return
    st.markdown(f"Without a partner: {phrases.counted(known.unmatched.total, 'cell')}.")
    table(known.unmatched, "cells")
