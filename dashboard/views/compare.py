"""Compare: does speculation pay, up to which load, and how fast is it?"""

import dataclasses
import functools
from collections.abc import Iterator

import pandas as pd
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from analysis.pairing import MATCH_FIELDS
from dashboard import charts, data, panels, phrases
from dashboard.components import explain, nothing_matches, plain, table
from dashboard.data import Question, Shelf
from dashboard.tables import CHANGE_COLUMNS, geomean_rows, pair_rows_csv, unmatched_rows
from warehouse.catalogue import METRICS, PERCENTILES, percentile_label
from warehouse.filters import Filters

TITLE = "Compare"
URL_PATH = "compare"
#: More panels than this are neither read nor drawn quickly.
MOST_PANELS = 12
_ACROSS = 3
_LABELS = {METRICS[key].label: key for key in panels.CHARTED}
_STATISTICS = {percentile_label(name): name for name in ("mean", *PERCENTILES)}


def render(shelf: Shelf, filters: Filters) -> None:
    """Draw the page."""
    if data.cells(shelf, filters).empty:
        st.header(phrases.NOTHING)
        _nothing(shelf)
        return
    answer, body, last = st.container(), st.container(), st.container()
    with last:
        allowed = _allowed()
    with body:
        question = _question(filters, allowed)
    rows = data.pair_rows(shelf, question)
    with answer:
        _answer(rows)
    with body:
        _body(shelf, question, rows)
    with last:
        _unmatched(shelf, question)


def _body(shelf: Shelf, question: Question, rows: pd.DataFrame) -> None:
    if rows.empty:
        sentence = "No cell has a partner among these filters. The reasons stand below."
        nothing_matches(data.combinations(shelf), sentence)
    else:
        _improvement(shelf, question, rows)
        _absolute(shelf, question, rows)
        _totals(shelf, question)
        _download(rows)


def _nothing(shelf: Shelf) -> None:
    if data.cells(shelf, Filters()).empty:
        st.info("The warehouse is empty. Add results with: draftboard ingest PATHS")
        return
    sentence = "No result matches these filters. Remove one in the sidebar."
    nothing_matches(data.combinations(shelf), sentence)


def _question(filters: Filters, allowed: list[str]) -> Question:
    """What to compare; a choice of arms keeps the baseline, without which there are no pairs."""
    if filters.arm:
        filters = dataclasses.replace(filters, arm=tuple({*filters.arm, "baseline"}))
    left, right = st.columns([2, 5])
    metric = left.selectbox("Metric", list(_LABELS), key="metric", bind="query-params")
    statistic = right.segmented_control(
        "Statistic of latencies",
        list(_STATISTICS),
        default="median",
        required=True,
        key="statistic",
        bind="query-params",
    )
    return Question(filters, _LABELS[metric], _STATISTICS[statistic], tuple(sorted(allowed)))


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


def _answer(rows: pd.DataFrame) -> None:
    throughput = rows[rows["metric"] == "output_throughput"]
    st.header(plain(phrases.headline(throughput)))
    against = phrases.losses(throughput)
    if not against:
        return
    st.markdown(plain(against))
    with st.container(horizontal=True, vertical_alignment="center"):
        for text in sorted(set(throughput["badge"]) - {""}):
            st.badge(text, color="gray")
        st.caption(phrases.evidence(throughput))


def _improvement(shelf: Shelf, question: Question, rows: pd.DataFrame) -> None:
    metric = METRICS[question.metric]
    statistic = panels.shown_statistic(metric, question.statistic)
    with st.container(horizontal=True, vertical_alignment="center"):
        st.subheader(
            f"Does it pay? {phrases.named(metric, statistic)}, improvement", width="content"
        )
        explain(metric, statistic)
    st.caption("Above the dashed line is better than the baseline. Hollow: a single repeat.")
    marks = panels.improvements(rows[rows["metric"] == metric.key])
    scales = panels.improvement_scales(marks)
    titles = panels.titles(rows)
    if len(titles) > MOST_PANELS:
        st.caption(
            f"{MOST_PANELS} of {len(titles)} settings are drawn, those with most pairs. "
            "Choose a dataset or a GPU in the sidebar to see the others."
        )
    for place, name in _places(list(titles)[:MOST_PANELS]):
        chart = functools.partial(_improvement_chart, marks, name, titles[name], scales)
        place.vega_lite_chart(data.drawing(chart, shelf, question, "improvement", name))


def _improvement_chart(
    marks: pd.DataFrame, name: str, title: str, scales: charts.Scales
) -> charts.Chart:
    panel = panels.panel_of(marks, name, scales)
    return charts.improvement_by_concurrency(panel, title, scales)


def _absolute(shelf: Shelf, question: Question, rows: pd.DataFrame) -> None:
    titles = panels.titles(rows)
    st.subheader("How fast is it?")
    name = next(iter(titles))
    if len(titles) > 1:
        name = st.selectbox("Setting", list(titles), key="setting", bind="query-params")
    here = rows[rows["panel"] == name]
    for place, key in _places(list(panels.CHARTED)):
        chart = functools.partial(_metric_chart, here, key, question, titles[name])
        place.vega_lite_chart(data.drawing(chart, shelf, question, key, name))
        with place:
            explain(METRICS[key], panels.shown_statistic(METRICS[key], question.statistic))


def _metric_chart(rows: pd.DataFrame, key: str, question: Question, setting: str) -> charts.Chart:
    metric = METRICS[key]
    marks = panels.values(rows[rows["metric"] == key], metric)
    if marks.empty:
        return charts.nothing(f"{metric.label}: unknown")
    statistic = panels.shown_statistic(metric, question.statistic)
    scales = panels.value_scales(marks)
    panel = panels.panel_of(marks, str(rows["panel"].iloc[0]), scales)
    title = (f"{phrases.named(metric, statistic)}, {metric.unit}", setting)
    return charts.metric_by_concurrency(panel, metric, title, scales)


def _places(names: list[str]) -> Iterator[tuple[DeltaGenerator, str]]:
    """A column for each name, three to a row; on a phone they stand one below the other."""
    for start in range(0, len(names), _ACROSS):
        row = names[start : start + _ACROSS]
        yield from zip(st.columns(_ACROSS if len(names) > 2 else len(names)), row, strict=False)


def _totals(shelf: Shelf, question: Question) -> None:
    st.subheader("In total: geometric mean over the concurrency levels that both arms have")
    table(geomean_rows(data.study(shelf, question)), "rows", CHANGE_COLUMNS)


def _download(rows: pd.DataFrame) -> None:
    st.download_button(
        "Download the pairs as CSV",
        functools.partial(pair_rows_csv, rows),
        file_name="draftboard-pairs.csv",
        mime="text/csv",
        on_click="ignore",
    )


def _unmatched(shelf: Shelf, question: Question) -> None:
    rows = unmatched_rows(data.study(shelf, question), data.cells(shelf, question.filters))
    if rows.empty:
        st.caption("Every cell has a partner.")
        return
    st.markdown(f"Without a partner: {len(rows):,} cells.")
    table(rows, "cells")
