"""Draft tokens: how many to draft at which load, why, and what to give vLLM for it."""

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from answers.decide.accepted import Accepted, accepted_in
from answers.decide.tables import at_stake, by_arm
from answers.decide.values import Decision, Question
from dashboard import data
from dashboard.answers import Drawing, draft_drawings
from dashboard.answers import decide as drawn
from dashboard.asking import asked, one_of
from dashboard.charts.drafts import Axis
from dashboard.components import explanation, plain, table
from dashboard.data import decide as data_decide
from dashboard.data.decide import Place
from dashboard.decided import by_load, heat_map, paste
from dashboard.download_menu import charts_menu, rows_menu
from dashboard.drawing_titles import titled
from dashboard.empty import nothing
from dashboard.shelf import Shelf
from dashboard.side_by_side import places
from warehouse.catalogue import METRICS
from warehouse.filters import Filters

TITLE = "Draft tokens"
URL_PATH = "draft-tokens"
ORDER = 30
_QUESTION = "How many draft tokens, at which load?"
_MEASURES = {METRICS[key].label: key for key in ("acceptance_rate", "mean_acceptance_length")}
_BY_POSITION = "by position"
_OVER: dict[str, Axis] = {"over draft tokens": "k", "over concurrency": "concurrency"}
_OF_ALL, _OF_THOSE = "of all drafts", "of drafts that got so far"
_POSITION = (
    "Accepted tokens at a position / drafts; of drafts that got so far: accepted at a position / "
    "accepted at the one before it. Sums over the repeats of a level. Higher is better."
)


def render(shelf: Shelf, filters: Filters) -> None:
    """Draw the page."""
    if data.cells(shelf, filters).empty:
        st.header(_QUESTION)
        nothing(shelf, "No result matches these filters. Remove one in the sidebar.")
        return
    top, controls = st.container(), st.container()
    with controls:
        question = asked(filters)
    known = data_decide.subjects(shelf, question)
    if not known:
        top.header(_QUESTION)
        st.info(plain(data_decide.found(shelf, question).why_none or ""))
        return
    with controls:
        overview = known[one_of("Model and hardware", list(known), "about")]
        traffics = data_decide.traffics(overview)
        place = Place(overview.name, one_of("Traffic", list(traffics), "traffic"))
    top.header(plain(traffics[place.traffic].headline))
    _page(shelf, question, place, traffics[place.traffic])


def _page(shelf: Shelf, question: Question, place: Place, one: Decision) -> None:
    heat_map(shelf, question, place)
    by_load(one)
    st.markdown(f"At stake in the choice: {plain(at_stake(one))}.")
    paste(one)
    table(drawn.table(by_arm(one)), "fields")
    with st.container(horizontal=True):
        rows_menu("draft-tokens", lambda: drawn.rows([one]))
        charts_menu("draft-tokens", titled([data_decide.heat_map(shelf, question, place)]))
    found = accepted_in(one, data_decide.drafts(shelf, question.filters))
    _acceptance(found)
    if not one.traffic.mix:
        _rules(one, found)


def _rules(one: Decision, found: tuple[Accepted, ...]) -> None:
    st.subheader("Rules of thumb beside the decision")
    st.caption(
        "What published rules say of each arm, and at which concurrency the expected gains agree. "
        "They contradict one another; the measurement wins."
    )
    table(drawn.rule_table(one, found), "rules")


def _acceptance(found: tuple[Accepted, ...]) -> None:
    st.subheader("How good is the draft?", help=_POSITION)
    if not found:
        st.caption("Acceptance is unknown.")
        return
    left, right = st.columns(2)
    drawn_as = left.segmented_control(
        "Acceptance", [_BY_POSITION, *_OVER], default=_BY_POSITION, required=True,
        key="draft_acceptance", bind="query-params",
    )  # fmt: skip
    drawings = _drawings(found, drawn_as, right)
    for place, drawing in places(drawings):
        place.vega_lite_chart(drawing, alt=f"Acceptance {drawn_as}, a chart per dataset")
    charts_menu("acceptance", titled(drawings))
    with st.expander("Acceptance in numbers"):
        table(drawn.acceptance_table(found), "levels")


def _drawings(found: tuple[Accepted, ...], drawn_as: str, right: DeltaGenerator) -> list[Drawing]:
    if drawn_as == _BY_POSITION:
        of = _segments(right, "Share", [_OF_ALL, _OF_THOSE], "draft_position")
        return draft_drawings.position_drawings(found, of == _OF_THOSE)
    label = _segments(right, "Measure", list(_MEASURES), "draft_measure")
    metric = METRICS[_MEASURES[label]]
    st.caption("How is this calculated?", help=explanation(metric, "mean"))
    return draft_drawings.acceptance_drawings(found, _OVER[drawn_as], metric.key)


def _segments(place: DeltaGenerator, label: str, options: list[str], key: str) -> str:
    chosen: str = place.segmented_control(
        label, options, default=options[0], required=True, key=key, bind="query-params"
    )
    return chosen
