"""Compare: how do arms compare, figure by figure, as the published study shows it?"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pandas as pd
import streamlit as st

from analysis.matching.comparison import STUDY_TABLE
from analysis.matching.fields import MATCH_FIELDS, stated_arguments
from answers.compare.answer import compare
from answers.compare.subjects import compared, offered
from answers.compare.values import Line, Question
from answers.decide.subjects import Named
from answers.published.values import Study
from dashboard.chosen import SubjectOffer, one_of, opens_on
from dashboard.components import plain
from dashboard.filters import arms, cells, nothing
from dashboard.links import lost
from dashboard.shelf import Shelf, ask
from dashboard.views import measured, printed
from warehouse.catalogue import METRICS
from warehouse.filters import Filters

TITLE = "Compare"
URL_PATH = "compare"
ORDER = 20
#: The box of subjects.
_SUBJECT = "subject"
_NOTHING = "How do the arms compare? No result to compare yet."


def render(shelf: Shelf, filters: Filters) -> None:
    """Draw the page: the subject that is chosen, a published study first."""
    studies = printed.kept(shelf, Filters())
    studied = {study.title: study for study in studies if study.meets(filters)}
    if cells(shelf, filters).empty and not studied:
        st.header(_NOTHING)
        nothing(shelf, "No result matches these filters. Remove one in the sidebar.")
        one_of("Subject", (), _SUBJECT, _offer(shelf, Question(filters), studies, {}).hidden)
        return
    top, choice, body, folded = *(st.container() for _ in range(3)), st.empty()
    last = folded.container()
    with last:
        question = _question(arms(shelf, filters), filters, cells(shelf, filters))
    ours = _comparable(shelf, question)
    offer = _offer(shelf, question, studies, ours)
    with choice:
        name = one_of("Subject", offer.names, _SUBJECT, offer.hidden)
    if name in studied:
        folded.empty()
        with body:
            printed.render(studied[name], top)
    elif name not in ours and (name or offer.names):
        folded.empty()
        gone = f"Not here any more: {lost(_SUBJECT, offer.names)}"
        top.header(plain(gone if name is None else offer.why_hidden(name) or ""))
    else:
        # What the filters keep of a subject; all of it where there is none.
        about = None if name is None else ours[name]
        question = question if about is None else replace(question, filters=about.filters)
        comparison = ask(shelf, compare, question)
        subject = None if about is None else compared(comparison, about)
        with body:
            measured.render(shelf, question, comparison, subject, top)
        with last:
            measured.left_out(comparison)
    with top:
        offer.say_default(_SUBJECT)


def _question(arms: list[str], filters: Filters, cells: pd.DataFrame) -> Question:
    """Ask which cells are compared with which; folded, since most readers change nothing here.
    ``cells``: of them any server argument may be allowed alone."""
    with st.expander("Which cells are compared?"):
        left, right = st.columns([1, 2])
        reference: str = left.selectbox("Compared with", arms, key="reference", bind="query-params")
        allowed: list[str] = right.multiselect(
            "Cells are paired when they are equal in everything but the speculation. "
            "Also pair cells that differ in",
            [*MATCH_FIELDS, *stated_arguments(cells)], key="allow", bind="query-params", placeholder="nothing else",
        )  # fmt: skip
    return Question(filters, tuple(sorted(allowed)), reference, _also())


def _also() -> tuple[Line, ...]:
    """Return the lines beside those of the study's table that the metric's controls ask for."""
    state, link = st.session_state, st.query_params
    key = measured.METRIC_LABELS.get(str(state.get("metric", link.get("metric"))))
    if key is None:
        return ()
    chosen = str(state.get("statistic", link.get("statistic", "median")))
    statistic = measured.STATISTIC_LABELS.get(chosen, "p50")
    line = (key, statistic if METRICS[key].distribution else "mean")
    return () if line in STUDY_TABLE else (line,)


def _offer(
    shelf: Shelf, question: Question, studies: Sequence[Study], ours: Mapping[str, Named]
) -> SubjectOffer:
    """Return what the page can be about: the published studies that the filters keep, then ``ours``,
    those that are ``_comparable``."""
    unfiltered = replace(question, filters=Filters())
    names = (*(study.title for study in studies if study.meets(question.filters)), *ours)
    if question == unfiltered:
        return SubjectOffer(names)
    every, printed = ask(shelf, offered, unfiltered), tuple(study.title for study in studies)
    first = printed[0] if printed else opens_on(
        every, ours, lambda named: _has_pair(shelf, unfiltered, named)
    )  # fmt: skip
    return SubjectOffer(names, (*printed, *(named.name for named in every)), first)


def _comparable(shelf: Shelf, question: Question) -> dict[str, Named]:
    """Return name -> subject, the first of them one that has a pair; empty where none has."""
    known = ask(shelf, offered, question)
    for at, named in enumerate(known):
        if _has_pair(shelf, question, named):
            return {each.name: each for each in (*known[at:], *known[:at])}
    return {}


def _has_pair(shelf: Shelf, question: Question, about: Named) -> bool:
    comparison = ask(shelf, compare, replace(question, filters=about.filters))
    return compared(comparison, about) is not None
