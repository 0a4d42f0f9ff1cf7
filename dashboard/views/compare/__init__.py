"""Compare: how do arms compare, figure by figure, as the published study shows it?"""

import streamlit as st

from answers.compare.answer import compare
from answers.compare.subjects import subjects
from dashboard import offered
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
    if offered.cells(shelf, filters).empty and not studied:
        st.header(_NOTHING)
        nothing(shelf, "No result matches these filters. Remove one in the sidebar.")
        return
    top, choice, body, folded = *(st.container() for _ in range(3)), st.empty()
    last = folded.container()
    with last:
        question = controls.question(offered.arms(shelf, filters), filters)
    found = ask(shelf, compare, question)
    ours = {one.name: one for one in subjects(found)}
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
    with body:
        measured.render(shelf, measured.Chosen(question, found, ours.get(name or "")), top)
    with last:
        measured.left_out(found)
