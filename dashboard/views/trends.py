"""Trends: did something break, since when, and what changed with it?"""

import streamlit as st

from answers.trend import words
from answers.trend.answer import Line
from dashboard import data
from dashboard.answers import notes as answers_notes
from dashboard.answers import trends as answers_trends
from dashboard.answers.notes import Placed
from dashboard.answers.trends import NIGHT_COLUMNS, TABLE_COLUMNS, Overview
from dashboard.components import plain, table
from dashboard.data import notes as data_notes
from dashboard.data import trends as data_trends
from dashboard.data.trends import Watch
from dashboard.download_menu import charts_menu, rows_menu
from dashboard.drawing_titles import titled
from dashboard.empty import nothing
from dashboard.links import follow_first
from dashboard.shelf import Shelf
from dashboard.views import annotating
from warehouse.filters import Filters

TITLE = "Trends"
URL_PATH = "trends"
ORDER = 70
_HOW = (
    "A series is one model, hardware, arm, dataset and load; a point is a night (from noon to noon "
    "UTC) and version: the geometric mean of its repeats. The last nights are held against the best "
    "level before them by a t test, in which a night is the unit of noise. A regression is worse by "
    "more than the budget, is no chance finding (1 night in 100) among all series that are judged, "
    "and stays one until its end is shown or `draftboard gate accept` accepts it. A drift is a slope "
    "that no single step explains clearly better. `draftboard gate` says the same and ends with its "
    "exit status."
)
_READ = (
    "Points: nights, hollow for a single repeat. Dashed: the level. Band: three standard "
    "deviations of a night around it. Thin dotted upright: the configuration changed; bold "
    "upright: the level moved. The value axis does not start at zero."
)
_NOTED = " Triangle at the top: a note, or a run that is excluded by name."
_BOTH = (
    "All nights of one engine version are held against all nights of the other, in each series "
    "that knows both; a night is the unit of noise."
)


def render(shelf: Shelf, filters: Filters) -> None:
    """Draw the page."""
    if data.cells(shelf, filters).empty:
        st.header(words.NOTHING)
        nothing(shelf, "No result matches these filters. Remove one in the sidebar.")
        return
    top = st.container()
    watch = Watch(filters, _budget())
    known = data_trends.overview(shelf, watch)
    with top:
        st.header(plain(known.trend.headline), help=_HOW)
        st.markdown(plain(known.trend.summary))
    if not known.trend.lines:
        st.info("No good cell with a known start matches, so there is no night to draw.")
        return
    _one_series(shelf, watch, known)
    st.subheader("All series, worst first", help=_HOW)
    table(known.table, "series", TABLE_COLUMNS)
    rows_menu("trends", lambda: answers_trends.file_rows(known.trend))
    _releases(shelf, filters)


def _budget() -> str:
    text: str = st.text_input(
        "How much worse is still fine?",
        value="5%",
        key="budget",
        bind="query-params",
        help="5% for all metrics, or more exactly: itl=3% ttft.p95=10% 5%",
    )
    return text


def _one_series(shelf: Shelf, watch: Watch, known: Overview) -> None:
    left, right = st.columns([1, 2])
    follow_first("line", list(known.places))
    metric = left.selectbox("Metric", list(known.places), key="line", bind="query-params")
    places = known.places[metric]
    names = list(places)[: answers_trends.MOST_SERIES]
    follow_first("series", names)
    name = right.selectbox("Series, worst first", names, key="series", bind="query-params")
    line = known.trend.lines[places[name]]
    noted = data_notes.of_series(shelf, watch.filters, line.assessed)
    chart, changes, nights = data_trends.one_series(shelf, watch, places[name], noted)
    st.markdown(plain(line.said))
    st.vega_lite_chart(chart)
    st.caption(_READ + (_NOTED if noted else ""))
    _notes(shelf, line, noted)
    if changes.total:
        st.markdown("What changed in the configuration, newest first:")
        table(changes, "changes")
    else:
        st.caption("Nothing that is recorded changed in the configuration.")
    with st.expander("The nights behind it"):
        table(nights, "nights", NIGHT_COLUMNS)
    charts_menu("series", titled([chart]))
    if len(places) > len(names):
        st.caption(f"The worst {len(names)} of {len(places):,} series can be chosen; use filters.")


def _notes(shelf: Shelf, line: Line, noted: tuple[Placed, ...]) -> None:
    if noted:
        st.markdown("What people noted on these nights and runs, newest first:")
        table(answers_notes.table(noted), "notes")
    study = line.assessed.series.about.get("study")
    annotating.night(shelf, answers_trends.days(line), study)


def _releases(shelf: Shelf, filters: Filters) -> None:
    st.subheader("One release against another", help=_BOTH)
    known = data_trends.releases(shelf, filters)
    if not known:
        st.caption("No series among these filters was measured with two engine versions.")
        return
    left, middle, right = st.columns(3)
    names = list(known)
    newest = len(names) - 1
    after = left.selectbox("Release", names, index=newest, key="release", bind="query-params")
    last = len(known[after]) - 1
    before = middle.selectbox(
        "against", known[after], index=last, key="against", bind="query-params"
    )
    found = data_trends.released(shelf, filters, before, after)
    st.markdown(plain(found.headline))
    lines = list(dict.fromkeys(effect.series.line for effect in found.effects))
    if not lines:
        return
    follow_first("forest", lines)
    line = right.selectbox("Metric of the comparison", lines, key="forest", bind="query-params")
    drawing = data_trends.forest(shelf, filters, (before, after), line)
    if drawing is None:
        st.caption(
            "Nothing tells how far nights of this metric lie apart by chance: run more nights."
        )
        return
    st.vega_lite_chart(drawing)
    st.caption("Points: change of the newer release; bars: 95 % interval. Right of zero is better.")
    charts_menu("releases", titled([drawing]))
