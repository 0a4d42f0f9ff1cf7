"""Draft tokens: how many to draft at which load, why, and what to give vLLM for it."""

import streamlit as st

from answers.decide.accepted import Accepted, accepted_in
from answers.decide.tables import at_stake, by_arm
from answers.decide.values import Decision, Question
from dashboard import data
from dashboard.answers import decide as drawn
from dashboard.asking import asked, one_of
from dashboard.components import plain, table
from dashboard.data import decide as data_decide
from dashboard.data.decide import Place
from dashboard.decided import by_load, heat_map, paste
from dashboard.download_menu import charts_menu, rows_menu
from dashboard.drawing_titles import titled
from dashboard.empty import nothing
from dashboard.shelf import Shelf
from warehouse.filters import Filters

TITLE = "Draft tokens"
URL_PATH = "draft-tokens"
ORDER = 15
_QUESTION = "How many draft tokens, at which load?"


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
    if not one.traffic.mix:
        _rules(one, found)


def _rules(one: Decision, found: tuple[Accepted, ...]) -> None:
    st.subheader("Rules of thumb beside the decision")
    st.caption(
        "What published rules say of each arm, and at which concurrency the expected gains agree. "
        "They contradict one another; the measurement wins."
    )
    table(drawn.rule_table(one, found), "rules")
