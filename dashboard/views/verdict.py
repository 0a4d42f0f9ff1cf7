"""Verdict: turn speculation on or not, in one sentence, and what that sentence stands on."""

import streamlit as st

from answers.decide import tables
from answers.decide.overview import Overview
from answers.decide.values import Decision, Question
from dashboard import data
from dashboard.answers import decide as drawn
from dashboard.asking import asked, one_of, only_this
from dashboard.components import plain, table
from dashboard.data import compare as data_compare
from dashboard.data import decide as data_decide
from dashboard.data.decide import Place
from dashboard.decided import bullets, by_load, heat_map, paste
from dashboard.download_menu import charts_menu, rows_menu
from dashboard.drawing_titles import titled
from dashboard.empty import nothing
from dashboard.report_button import report_button
from dashboard.shelf import Shelf
from dashboard.views.page_links import page_links
from warehouse.filters import Filters

TITLE = "Verdict"
URL_PATH = "verdict"
ORDER = 10
_UNKNOWN = "Not known yet: nothing to decide on."
_LINKS = {
    "compare": "Every metric and load",
    "draft-tokens": "Which K",
    "slo": "Within an SLO",
    "cost": "What it saves in money",
    "data": "The runs behind it",
}


def render(shelf: Shelf, filters: Filters) -> None:
    """Draw the page."""
    if data.cells(shelf, filters).empty:
        st.header(plain(_UNKNOWN))
        nothing(shelf, "No result matches these filters. Remove one in the sidebar.")
        return
    top, controls = st.container(), st.container()
    with controls:
        question = asked(filters)
    known = data_decide.subjects(shelf, question)
    if not known:
        with top:
            _none(shelf, question)
        return
    with controls, st.container(horizontal=True, vertical_alignment="bottom"):
        name = one_of("Verdict on", list(known), "about")
        report_button(shelf, question, name)
        if len(known) > 1:
            only_this(data_decide.kept(known[name]))
    with top:
        _answer(shelf, question, known[name])
    _details(shelf, question, known[name])
    page_links(_LINKS)


def _none(shelf: Shelf, question: Question) -> None:
    st.header(plain(_UNKNOWN))
    st.markdown(plain(data_decide.found(shelf, question).why_none or ""))
    asked_there = data_compare.Question(question.filters, allow=question.allow)
    lonely = data_compare.page(shelf, asked_there).unmatched
    if lonely.total:
        st.markdown("These cells have no partner:")
        table(lonely, "cells")


def _answer(shelf: Shelf, question: Question, overview: Overview) -> None:
    st.header(plain(overview.headline))
    st.markdown(plain(overview.paragraph))
    for sentence in data_decide.changed(shelf, question):
        st.info(plain(f"Changed: {sentence}"))
    table(drawn.table(tables.summary(overview.decisions)), "decisions")


def _details(shelf: Shelf, question: Question, overview: Overview) -> None:
    traffics = data_decide.traffics(overview)
    place = Place(overview.name, one_of("In detail", list(traffics), "traffic"))
    one = traffics[place.traffic]
    st.subheader(plain(one.headline))
    heat_map(shelf, question, place)
    by_load(one)
    st.markdown("**Against it:**")
    bullets(drawn.listed(loss.sentence for loss in one.against) or ("nothing that was measured",))
    paste(one)
    _evidence(shelf, question, place, one)
    with st.container(horizontal=True):
        rows_menu("verdict", lambda: drawn.rows(overview.decisions))
        charts_menu("verdict", titled([data_decide.heat_map(shelf, question, place)]))


def _evidence(shelf: Shelf, question: Question, place: Place, one: Decision) -> None:
    with st.expander("How good is the evidence? Every arm, doubts, what was left out"):
        st.markdown(f"At stake in the choice: {plain(tables.at_stake(one))}.")
        table(drawn.table(tables.by_arm(one)), "fields")
        bullets(drawn.listed(tables.doubts(one)))
        same = data_decide.same(shelf, question, place)
        if same is not None:
            st.markdown(f"**Do the arms answer the same?** {plain(same.arm)} at {plain(same.load)}")
            bullets(same.sentences)
        left = drawn.listed(tables.left_out(one))
        if left:
            st.markdown("**Decides nothing:**")
            bullets(left)
