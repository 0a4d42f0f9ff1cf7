"""Compare: how do arms compare, figure by figure, as the published study shows it?"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import streamlit as st

from answers.compare.answer import compare
from answers.compare.subjects import compared, offered
from answers.compare.values import CompareQuestion
from answers.decide.overview import NamedSubject
from answers.published.values import Study
from dashboard import offered as there
from dashboard.chosen import Offer, offer, one_of, opens_on
from dashboard.components import plain
from dashboard.links import lost
from dashboard.offered import nothing
from dashboard.published import kept
from dashboard.shelf import Shelf, ask
from dashboard.views.compare import controls, measured, printed
from warehouse.filters import Filters

TITLE = "Compare"
URL_PATH = "compare"
ORDER = 20
#: The box of subjects.
_SUBJECT = "subject"
_NOTHING = "How do the arms compare? No result to compare yet."


def render(shelf: Shelf, filters: Filters) -> None:
    """Draw the page: the subject that is chosen, a published study first."""
    studies = kept(shelf, Filters())
    if there.cells(shelf, filters).empty and not any(one.meets(filters) for one in studies):
        st.header(_NOTHING)
        nothing(shelf, "No result matches these filters. Remove one in the sidebar.")
        one_of(
            "Subject", (), _SUBJECT, _choices(shelf, CompareQuestion(filters), studies, {}).hidden
        )
        return
    _draw(shelf, filters, studies)


def _draw(shelf: Shelf, filters: Filters, studies: tuple[Study, ...]) -> None:
    """Draw what the filters keep; ``studies``: all published ones."""
    studied = {one.title: one for one in studies if one.meets(filters)}
    top, choice, body, folded = *(st.container() for _ in range(3)), st.empty()
    last = folded.container()
    with last:
        question = controls.question(
            there.arms(shelf, filters), filters, there.cells(shelf, filters)
        )
    ours = _comparable(shelf, question)
    choices = _choices(shelf, question, studies, ours)
    with choice:
        name = one_of("Subject", choices.names, _SUBJECT, choices.hidden)
    if name in studied:
        folded.empty()
        with body:
            printed.render(studied[name], top)
    elif name not in ours and (name or choices.names):
        folded.empty()
        top.header(plain(_why_none(choices, name)))
    else:
        chosen = _chosen(shelf, question, None if name is None else ours[name])
        with body:
            measured.render(shelf, chosen, top)
        with last:
            measured.left_out(chosen.found)
    with top:
        choices.say_default(_SUBJECT)


def _why_none(choices: Offer, name: str | None) -> str:
    """Say that the filters hide the chosen subject, or that what the link names is gone."""
    if name is None:
        return f"Not here any more: {lost(_SUBJECT, choices.names)}"
    return choices.why_hidden(name) or ""


def _choices(
    shelf: Shelf,
    question: CompareQuestion,
    studies: Sequence[Study],
    ours: Mapping[str, NamedSubject],
) -> Offer:
    """Return what the page can be about: the published studies that the filters keep, then ``ours``,
    those that are ``_comparable``."""
    unfiltered = replace(question, filters=Filters())
    names = [*(one.title for one in studies if one.meets(question.filters)), *ours]
    if question == unfiltered:
        return Offer(tuple(names))
    every = ask(shelf, offered, unfiltered)
    first = next((one.title for one in studies), None)
    if first is None:
        first = opens_on(every, ours, lambda one: _has_pair(shelf, unfiltered, one))
    return offer(names, [*(one.title for one in studies), *(one.name for one in every)], first)


def _chosen(shelf: Shelf, question: CompareQuestion, about: NamedSubject | None) -> measured.Chosen:
    """Compare what the filters keep of a subject; all of it where there is none."""
    if about is None:
        return measured.Chosen(question, ask(shelf, compare, question), None)
    question = replace(question, filters=about.filters)
    found = ask(shelf, compare, question)
    return measured.Chosen(question, found, compared(found, about))


def _comparable(shelf: Shelf, question: CompareQuestion) -> dict[str, NamedSubject]:
    """Name -> subject, the first of them one that has a pair; empty where none has."""
    known = ask(shelf, offered, question)
    paired = (place for place, one in enumerate(known) if _has_pair(shelf, question, one))
    first = next(paired, None)
    if first is None:
        return {}
    return {one.name: one for one in (*known[first:], *known[:first])}


def _has_pair(shelf: Shelf, question: CompareQuestion, about: NamedSubject) -> bool:
    found = ask(shelf, compare, replace(question, filters=about.filters))
    return compared(found, about) is not None
