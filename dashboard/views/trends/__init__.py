"""Trends: did something get worse, since when, and with what?"""

from pathlib import Path

import streamlit as st

from answers.runs import read as read_runs
from answers.trend.answer import Trend, accepted
from dashboard.components import folded, listing, plain, table
from dashboard.downloads import rows_menu
from dashboard.offered import nothing
from dashboard.shelf import Shelf, ask
from dashboard.views.trends import nights, releases, searches, series
from dashboard.views.trends.series import Asked, trend_of
from warehouse.filters import Filters

TITLE = "Trends"
URL_PATH = "trends"
ORDER = 50
#: Former addresses, and what their readers find open here.
FORMER = {"nights": {"last_nights": "true"}}
_HOW = (
    "A series is one model, hardware, arm, dataset and load; a point is a night (from noon to noon "
    "UTC) and version: the geometric mean of its repeats. The last nights are held against the best "
    "level before them by a t test, in which a night is the unit of noise. A regression is worse by "
    "more than the budget, is no chance finding (1 night in 100) among all series that are judged, "
    "and stays one until its end is shown or somebody accepts it. A drift is a slope that no single "
    "step explains clearly better. `draftboard gate` says the same and ends with its exit status."
)
_MOST_ORIGINS = 3
_COLUMNS = {
    "status": "verdict", "name": "series", "metric": "metric", "change": "change",
    "interval": "95 % interval", "budget_text": "budget", "since_text": "since",
    "against": "against", "drift_text": "drift", "nights": "nights", "evidence_text": "evidence",
    "why": "why",
}  # fmt: skip


def render(shelf: Shelf, filters: Filters) -> None:
    """Draw the page."""
    top = st.container()
    controls = st.columns([1, 1, 2])
    budget = controls[0].text_input(
        "How much worse is still fine?", value="5%", key="budget", bind="query-params",
        help="5% for all metrics, or more exactly: itl=3% ttft.p95=10% 5%",
    )  # fmt: skip
    asked = Asked(filters, budget or "", accepted(Path(shelf.root)))
    known = trend_of(shelf, asked)
    with top:
        st.header(plain(known.trend.headline), help=_HOW)
        for text in known.trend.badges:
            st.badge(text, color="gray")
        for text in known.trend.origins[:_MOST_ORIGINS]:
            st.caption(plain(text))
        if known.trend.summary:
            st.markdown(plain(known.trend.summary))
    if known.places:
        series.render(shelf, asked, known, controls[1:])
        _every(known.trend)
    else:
        if known.trend.lines or known.trend.few:
            st.info(
                "A trend needs three nights of the same setting: measure it again with other nights."
            )
        elif ask(shelf, read_runs.runs, filters).runs:
            st.info("No good cell with a known start matches, so there is no night to draw.")
        else:
            nothing(shelf, "No result matches these filters. Remove one in the sidebar.")
    searches.render(shelf, filters)
    releases.render(shelf, filters)
    nights.render(shelf, filters)


def _every(trend: Trend) -> None:
    lines = trend.judged
    with_part = folded(f"All {len(lines):,} series that are judged, worst first", "all_series")
    if with_part is None:
        return
    with with_part:
        table(listing(lines, _COLUMNS), "series")
        left = len(trend.lines) - len(lines)
        if left:
            st.caption(f"{left:,} more series cannot be judged yet: too few nights, or no noise.")
        rows_menu("trends", lambda: series.file_rows(lines))
