"""One release against another: what the newer one did to every series."""

import streamlit as st

from analysis.nightly.regressions import comparable_releases
from answers.trend.answer import Release, release, watched
from dashboard.charts.spec import Drawing, specification
from dashboard.charts.trends import MOST_ROWS, forest
from dashboard.components import folded, plain, titled
from dashboard.downloads import charts_menu
from dashboard.links import follow_first
from dashboard.shelf import Shelf, ask, cached
from warehouse.filters import Filters

_BOTH = (
    "All nights of one engine version are held against all nights of the other, in each series that "
    "knows both; a night is the unit of noise."
)


def render(shelf: Shelf, filters: Filters) -> None:
    """Draw the part, folded."""
    part = folded("One release against another", "releases")
    if part is None:
        return
    with part:
        st.caption(_BOTH)
        known = comparable_releases(ask(shelf, watched, filters).series)
        if known:
            _chosen(shelf, filters, known)
        else:
            st.caption("No series among these filters was measured with two engine versions.")


def _chosen(shelf: Shelf, filters: Filters, known: dict[str, tuple[str, ...]]) -> None:
    left, middle, right = st.columns(3)
    names = list(known)
    newest = len(names) - 1
    after = left.selectbox("Release", names, index=newest, key="release", bind="query-params")
    last = len(known[after]) - 1
    before = middle.selectbox(
        "against", known[after], index=last, key="against", bind="query-params"
    )
    found = _released(shelf, filters, before, after)
    st.markdown(plain(found.headline))
    if not found.lines:
        st.caption("Nothing tells how far nights lie apart by chance: run more nights.")
        return
    follow_first("forest", found.lines)
    line = right.selectbox(
        "Metric of the comparison", found.lines, key="forest", bind="query-params"
    )
    drawing = _forest(shelf, filters, (before, after), line)
    st.vega_lite_chart(drawing, alt=found.headline)
    st.caption("Points: change of the newer release; bars: 95 % interval. Right of zero is better.")
    charts_menu("releases", titled([drawing]))


@cached
def _released(shelf: Shelf, filters: Filters, before: str, after: str) -> Release:
    return release(ask(shelf, watched, filters).series, before, after)


@cached
def _forest(shelf: Shelf, filters: Filters, pair: tuple[str, str], line: str) -> Drawing:
    return specification(forest(_released(shelf, filters, *pair).of(line)[:MOST_ROWS]))
