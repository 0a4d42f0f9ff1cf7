"""Compare: how do arms compare, figure by figure, as the published study shows it?"""

from dataclasses import replace

import streamlit as st

from answers.compare.answer import compare
from answers.compare.subjects import compared, offered
from answers.compare.values import Question
from answers.decide.subjects import Named
from dashboard import offered as there
from dashboard.chosen import one_of
from dashboard.components import plain
from dashboard.empty import nothing
from dashboard.links import lost
from dashboard.published import kept
from dashboard.shelf import Shelf, ask
from dashboard.views.compare import controls, measured, printed
from warehouse.filters import Filters

TITLE = "Compare"
URL_PATH = "compare"
ORDER = 20
_NOTHING = "How do the arms compare? No result to compare yet."


def render(shelf: Shelf, filters: Filters) -> None:
    """Draw the page: the subject that is chosen, a published study first."""
    studied = {one.title: one for one in kept(shelf, filters)}
    if there.cells(shelf, filters).empty and not studied:
        st.header(_NOTHING)
        nothing(shelf, "No result matches these filters. Remove one in the sidebar.")
        return
    top, choice, body, folded = *(st.container() for _ in range(3)), st.empty()
    last = folded.container()
    with last:
        question = controls.question(there.arms(shelf, filters), filters)
    ours = _comparable(shelf, question)
    names = [*studied, *ours]
    with choice:
        name = one_of("Subject", names, "subject") if names else None
    if names and name is None:
        folded.empty()
        top.header(plain(f"Not here any more: {lost('subject', names)}"))
        return
    if name in studied:
        folded.empty()
        with body:
            printed.render(studied[name], top)
        return
    chosen = _chosen(shelf, question, None if name is None else ours[name])
    with body:
        measured.render(shelf, chosen, top)
    with last:
        measured.left_out(chosen.found)


def _chosen(shelf: Shelf, question: Question, about: Named | None) -> measured.Chosen:
    """Compare what the filters keep of a subject; all of it where there is none."""
    if about is None:
        return measured.Chosen(question, ask(shelf, compare, question), None)
    question = replace(question, filters=about.filters)
    found = ask(shelf, compare, question)
    return measured.Chosen(question, found, compared(found, about))


def _comparable(shelf: Shelf, question: Question) -> dict[str, Named]:
    """Name -> subject, the first of them one that has a pair; empty where none has."""
    known = ask(shelf, offered, question)
    paired = (
        place
        for place, one in enumerate(known)
        if compared(ask(shelf, compare, replace(question, filters=one.filters)), one)
    )
    first = next(paired, None)
    if first is None:
        return {}
    return {one.name: one for one in (*known[first:], *known[:first])}
