"""Cost: what a million tokens costs, what a demand takes, and what speculation saves."""

import streamlit as st

from analysis.service.slo import EXAMPLE, parse
from dashboard import data, paying_controls
from dashboard.answers import MOST_PANELS, Drawing
from dashboard.answers import cost as answers_cost
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
_PEAK, _LOAD, _SLO = "at its peak", "at one load", "within a service level"
_HOW = (
    "USD per million output tokens = 1,000,000 / (output tok/s × 3,600 × utilisation) × USD per "
    "hour of the GPUs charged. Saved = 1 − cost with speculation / cost of the baseline; positive "
    "is cheaper. The interval is that of the throughputs behind it, over repeats; there is none "
    "where the arms run at different loads, or with a single repeat."
)
_HOW_DEMAND = (
    "Replicas = demand at the busiest moment / (output tok/s × utilisation), rounded up: only whole "
    "replicas can be rented, and they are paid around the clock. A month is a twelfth of 365 days."
)
_HOW_PAYS = (
    "A step costs the same whether its drafts are accepted or not, so at one load and K the "
    "throughput goes with the acceptance length. It pays from the length × baseline's throughput / "
    "throughput with speculation on. Acceptance rate needed = (length − 1) / K."
)


def render(shelf: Shelf, filters: Filters) -> None:
    """Draw the page."""
    if data.cells(shelf, filters).empty:
        st.header(answers_cost.NOTHING)
        nothing(shelf, "No result matches these filters. Remove one in the sidebar.")
        return
    top, body = st.container(), st.container()
    with body:
        asked = _asked(shelf, filters)
        missing = data_cost.without_price(shelf, filters, asked.paying)
    known = data_cost.cost_answer(shelf, asked)
    with top:
        _answer(known, missing)
    with body:
        _body(shelf, asked, known)
        paying_controls.price_list()


def _body(shelf: Shelf, asked: Asked, known: Answer) -> None:
    if known.names:
        drawings = data_cost.cost_drawings(shelf, asked)
        _curves(drawings, known.panels)
        _totals(known, drawings)
        _steps(shelf, asked, known)
    elif not known.pays.total:
        nothing(shelf, "No cell has a partner among these filters; Compare lists the reasons.")
    _pays(known)


def _asked(shelf: Shelf, filters: Filters) -> Asked:
    paying = paying_controls.paying_controls()
    concurrency, slo = _rule(shelf, filters)
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
    return Asked(filters, paying, concurrency, slo, daily, peak, whole, spent)


def _rule(shelf: Shelf, filters: Filters) -> tuple[int | None, str]:
    """Where each arm runs: a load, or an SLO, or neither for the peak."""
    left, right = st.columns([2, 3], vertical_alignment="bottom")
    chosen = left.segmented_control(
        "Each arm runs", [_PEAK, _LOAD, _SLO], default=_PEAK, key="runs", bind="query-params"
    )
    if chosen == _LOAD:
        levels = data_cost.levels(shelf, filters)
        return right.selectbox("Concurrency", levels, key="at", bind="query-params"), ""
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


def _answer(known: Answer, missing: tuple[str, ...]) -> None:
    priced = known.names or not missing
    st.header(plain(known.headline if priced else answers_cost.UNPRICED), help=_HOW)
    with st.container(horizontal=True, vertical_alignment="center"):
        for text in known.badges:
            st.badge(text, color="gray")
    for sentence in known.doubts:
        st.warning(plain(sentence))
    for sentence in (*known.notes, *missing):
        (st.caption if known.names else st.info)(plain(sentence))


def _curves(drawings: list[Drawing], panels: int) -> None:
    st.subheader("What does a token cost at each load?", help=_HOW)
    if panels > MOST_PANELS:
        st.caption(
            f"{MOST_PANELS} of {panels} settings are drawn, those with most pairs; all are costed."
        )
    places = st.columns(2) if len(drawings) > 1 else [st.container()]
    for at, drawing in enumerate(drawings):
        places[at % len(places)].vega_lite_chart(drawing)


def _totals(known: Answer, drawings: list[Drawing]) -> None:
    st.subheader("What is saved?", help=_HOW)
    table(known.totals, "arms")
    with st.container(horizontal=True):
        rows_menu("cost", lambda: known.rows)
        charts_menu("cost", titled(drawings))
    if known.demands is not None:
        st.subheader("What does the demand take?", help=_HOW_DEMAND)
        table(known.demands, "arms")


def _steps(shelf: Shelf, asked: Asked, known: Answer) -> None:
    st.subheader("The arithmetic, step by step")
    follow_first("steps_of", list(known.names))
    name = st.selectbox("Arm", list(known.names), key="steps_of", bind="query-params")
    table(data_cost.steps(shelf, asked, name), "steps")


def _pays(known: Answer) -> None:
    if not known.pays.total:
        return
    with st.expander("From which acceptance length does speculation pay?"):
        st.caption("How is this calculated?", help=_HOW_PAYS)
        table(known.pays, "loads")
        for line in known.pays_lines:
            st.caption(plain(line))
