"""Cost: what a million tokens costs at the load you run, what a demand takes, and what is saved."""

import streamlit as st

from analysis.service.slo import EXAMPLE, parse
from answers.cost.words import NOTHING
from dashboard import data, paying_controls
from dashboard.answers import MOST_PANELS
from dashboard.answers.cost import Answer
from dashboard.components import plain, table
from dashboard.data import cost as data_cost
from dashboard.data import slo as data_slo
from dashboard.data.cost import Asked
from dashboard.download_menu import charts_menu, rows_menu
from dashboard.drawing_titles import titled
from dashboard.empty import nothing
from dashboard.links import follow_first
from dashboard.shelf import Shelf
from warehouse.filters import Filters

TITLE = "Cost"
URL_PATH = "cost"
ORDER = 50
_LARGEST, _LOAD, _SLO = "at the largest load", "at one load", "within a service level"
_HOW = (
    "USD per million output tokens = 1,000,000 / (output tok/s × 3,600 × utilisation) × USD per "
    "hour of the GPUs charged. Saved = 1 − cost with speculation / cost of the baseline; positive "
    "is cheaper. Arm, saving and how sure it is are those of the decision; the throughput with "
    "speculation is the baseline's, raised by what the decision expects."
)
_HOW_DEMAND = (
    "Replicas = demand at the busiest moment / output tok/s, rounded up: only whole replicas can be "
    "rented, and they are paid around the clock. Busy: the share of that time in which they serve. "
    "Utilisation is no part of it. A month is a twelfth of 365 days."
)


def render(shelf: Shelf, filters: Filters) -> None:
    """Draw the page."""
    if data.cells(shelf, filters).empty:
        st.header(NOTHING)
        nothing(shelf, "No result matches these filters. Remove one in the sidebar.")
        return
    top, body = st.container(), st.container()
    with body:
        asked = _asked(shelf, filters)
    known = data_cost.cost_answer(shelf, asked)
    with top:
        _answer(known)
    with body:
        _body(shelf, asked, known)
        paying_controls.price_list()


def _body(shelf: Shelf, asked: Asked, known: Answer) -> None:
    if not known.rows.size:
        nothing(shelf, known.why_none or "No cell has a partner; Compare lists the reasons.")
        return
    if known.drawings:
        _curves(known)
    _totals(known)
    if known.names:
        _steps(shelf, asked, known)


def _asked(shelf: Shelf, filters: Filters) -> Asked:
    paying = paying_controls.paying_controls()
    load, slo = _rule(shelf, filters)
    places = st.columns(4, vertical_alignment="bottom")
    millions = places[0].number_input(
        "Output tokens a day, millions", min_value=0.001, value=50.0, key="millions_a_day",
        bind="query-params", format="%g",
    )  # fmt: skip
    peak = places[1].number_input(
        "Peak to mean", min_value=1.0, value=1.0, key="peak_to_mean", bind="query-params",
        help="The busiest moment over the mean: the replicas must suffice for it.", format="%g",
    )  # fmt: skip
    spent = places[2].number_input(
        "Invested, USD", min_value=0.0, value=None, key="investment", bind="query-params",
        placeholder="nothing", format="%g",
        help="What the benchmark and a draft's training cost: when is it paid back?",
    )  # fmt: skip
    whole = places[3].toggle(
        "Whole instances only", key="whole_instances", bind="query-params",
        help="GPUs can only be rented by the instance.",
    )  # fmt: skip
    daily = millions and data_cost.tokens(millions)
    return Asked(filters, paying, load, slo, daily, peak, whole, spent)


def _rule(shelf: Shelf, filters: Filters) -> tuple[float | None, str]:
    """The operating load: one that was measured, or the largest within an SLO, or the largest."""
    left, right = st.columns([2, 3], vertical_alignment="bottom")
    chosen = left.segmented_control(
        "Each arm runs", [_LARGEST, _LOAD, _SLO], default=_LARGEST, key="runs", bind="query-params"
    )
    if chosen == _LOAD:
        known = {load.short: load.value for load in data_cost.loads(shelf, filters)}
        named = right.selectbox("Load", list(known), key="at", bind="query-params")
        return None if named is None else known[named], ""
    if chosen != _SLO:
        return None, ""
    texts = right.multiselect(
        "Service level: all of these bounds must hold", data_slo.suggestions(shelf, filters),
        key="slo", bind="query-params", accept_new_options=True,
        placeholder=f"e.g. {EXAMPLE}",
    )  # fmt: skip
    if texts:
        return None, parse("; ".join(texts)).text
    first = data_slo.first_slo(shelf, filters)
    return None, "" if first is None else first.text


def _answer(known: Answer) -> None:
    st.header(plain(known.headline), help=_HOW)
    with st.container(horizontal=True, vertical_alignment="center"):
        for text in known.badges:
            st.badge(text, color="gray")
    for sentence in known.notes:
        (st.caption if known.drawings else st.info)(plain(sentence))


def _curves(known: Answer) -> None:
    st.subheader("What does a token cost at each load?", help=_HOW)
    if known.panels > MOST_PANELS:
        st.caption(f"{MOST_PANELS} of {known.panels} decisions are drawn; all are costed.")
    places = st.columns(2) if len(known.drawings) > 1 else [st.container()]
    for at, drawing in enumerate(known.drawings):
        places[at % len(places)].vega_lite_chart(drawing)


def _totals(known: Answer) -> None:
    st.subheader("What is saved?", help=_HOW)
    table(known.totals, "decisions")
    with st.container(horizontal=True):
        rows_menu("cost", lambda: known.rows)
        charts_menu("cost", titled(list(known.drawings)))
    if known.demands is not None:
        st.subheader("What does the demand take?", help=_HOW_DEMAND)
        table(known.demands, "decisions")
    if known.others is not None:
        table(known.others, "decisions")


def _steps(shelf: Shelf, asked: Asked, known: Answer) -> None:
    st.subheader("The arithmetic, step by step")
    follow_first("steps_of", list(known.names))
    name = st.selectbox("Decision", list(known.names), key="steps_of", bind="query-params")
    table(data_cost.steps(shelf, asked, name), "steps")
