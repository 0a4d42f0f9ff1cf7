"""Decide: turn speculation on or not, with which K, up to which load, and what that saves."""

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from answers.compare import values as compare_words
from answers.compare.answer import compare
from answers.compare.values import CompareQuestion
from answers.decide.answer import decide
from answers.decide.overview import Overview
from answers.decide.values import DecideQuestion
from answers.ground import cells_kept
from answers.published.values import Study
from dashboard import published
from dashboard.chosen import (
    SUBJECT,
    Told,
    choices,
    chosen,
    decidable,
    gone,
    question_of,
    say_gone,
)
from dashboard.components import plain, table, texts
from dashboard.filters import keep
from dashboard.offered import nothing
from dashboard.report_button import report_button
from dashboard.shelf import Shelf, ask
from dashboard.views.decide import adding, details
from dashboard.views.decide.details import load_map, paste, tiles
from warehouse.filters import UNKNOWN, Filters

TITLE = "Decide"
URL_PATH = "decide"
ORDER = 10
FORMER = ("verdict", "draft-tokens")
_UNKNOWN = "Not known yet: nothing to decide on."
#: More sentences than this are no headline.
_MOST_LEADS = 2


def render(shelf: Shelf, filters: Filters) -> None:
    """Draw the page: a published study where the warehouse holds one, else the first decision."""
    studied = {one.title: one for one in published.kept(shelf, Filters())}
    top = st.container()
    boxes = st.columns([7, 4, 4, 3], vertical_alignment="bottom")
    with boxes[3]:
        question = question_of(filters)
    known = decidable(shelf, question)
    there = choices(shelf, question, known, tuple(studied.values()))
    told = chosen(shelf, question, known, boxes, there)
    lost = gone()
    if isinstance(told, Told) and lost is None:
        _show(shelf, told, top)
    elif isinstance(told, str):
        _unknown(told, top)
    elif there.names:
        _undecided(studied.get(str(st.session_state.get(SUBJECT))), lost, top)
    else:
        with top:
            _none(shelf, question)
    with top:
        there.say_default(SUBJECT)
    adding.folded(shelf, filters)
    if isinstance(told, Told) and lost is None:
        details.draw(shelf, told)


def _undecided(study: Study | None, lost: str | None, top: DeltaGenerator) -> None:
    """Draw a published study, as printed; without one, say what the link names and is gone."""
    if study is None or lost is not None:
        with top:
            say_gone(lost or "")
        return
    st.set_page_config(page_title=f"{TITLE}: {study.title}")
    with top:
        published.say(study)
    published.overview(study)


def _unknown(why: str, top: DeltaGenerator) -> None:
    """Say why the chosen subject is not decided on."""
    with top:
        st.header(plain(_UNKNOWN))
        st.info(plain(why))


def _none(shelf: Shelf, question: DecideQuestion) -> None:
    """Say why nothing is decided, and what has no partner."""
    st.header(plain(_UNKNOWN))
    if not ask(shelf, cells_kept, question.filters):
        nothing(shelf, "No result matches these filters. Remove one in the sidebar.")
        return
    st.info(plain(ask(shelf, decide, question).why_none or ""))
    lonely = ask(shelf, compare, CompareQuestion(question.filters, question.allow))
    if lonely.unmatched:
        st.markdown("These cells have no partner:")
        table(texts(compare_words.UNMATCHED_HEADER, compare_words.unmatched_rows(lonely)), "rows")


def _show(shelf: Shelf, told: Told, top: DeltaGenerator) -> None:
    """Draw what is read first: the sentence, the map, what it is worth, what to paste."""
    st.set_page_config(page_title=f"{TITLE}: {told.overview.name}")
    top.header(plain(_headline(told)))
    top.caption(plain(told.one.details))
    left, right = st.columns([3, 2])
    with left:
        drawn = details.drawings(shelf, told.question, told.about, told.traffic)
        load_map(drawn[details.LOAD_MAP], told.overview, "load_map")
    with right:
        tiles(told.one)
        with st.container(horizontal=True):
            report_button(shelf, told.question, told.overview.name)
            if not told.alone:
                st.button(
                    "Only this on all pages", on_click=keep, args=(_kept(told.overview),), key="only",
                    type="tertiary",
                )  # fmt: skip
    paste(told.one)


def _headline(told: Told) -> str:
    """Return one sentence; several where the sizes that lead differ and nobody chose one."""
    leads = told.overview.leads
    if told.one is leads[0] and len(leads) <= _MOST_LEADS:
        return told.overview.headline
    return f"{told.traffic}: {told.one.headline}"


def _kept(overview: Overview) -> dict[str, str]:
    """Return the filters, with their values, that keep every page to a subject."""
    about = overview.decisions[0].subject
    told = {"model": about.model, "gpu": about.gpu, "engine_version": about.engine_version}
    return {name: UNKNOWN if value is None else value for name, value in told.items()}
