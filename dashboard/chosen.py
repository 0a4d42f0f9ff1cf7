"""The controls of pages that stand on a decision: what is asked, about what, at which load."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from analysis.service.slo import EXAMPLE
from answers.decide.asked import load_from, mix_from
from answers.decide.overview import Overview
from answers.decide.subjects import Asked, Named, One, decide_one, subjects
from answers.decide.values import Decision, Objective, Question
from dashboard.components import plain
from dashboard.links import choose, follow_first, lost
from dashboard.shelf import Shelf, ask
from warehouse.filters import Filters

_OBJECTIVES: dict[str, Objective] = {
    "Throughput": "throughput", "Latency": "latency", "Cost": "cost",
}  # fmt: skip
LOAD, TRAFFIC, SUBJECT = "at_load", "traffic", "about"
#: What a link asks of a decision, though it may name no subject.
_OF_A_DECISION = frozenset({LOAD, TRAFFIC, "objective", "draft_slo", "mix"})


def question_of(filters: Filters) -> Question:
    """Return the question that the page's controls ask, without its load. Raises InvalidInput for a
    mix that cannot be read."""
    with st.popover("Change the question", help="Objective, latency target, traffic mix"):
        objective = st.selectbox(
            "Choose for", list(_OBJECTIVES), key="objective", bind="query-params"
        )
        slo = st.text_input(
            "Only arms that meet this SLO", key="draft_slo", bind="query-params",
            placeholder=EXAMPLE,
        )  # fmt: skip
        mix = st.text_input(
            "Traffic mix", key="mix", bind="query-params", placeholder="code=0.7,prose=0.3"
        )
    return Question(
        filters, _OBJECTIVES[objective], None, (slo or "").strip() or None, mix_from(mix)
    )


def load_chosen(one: Decision) -> float | None:
    """Return the reader's load: one that was measured, or another number. Raises InvalidInput
    else."""
    loads = [level.load for level in one.levels if level.load.value is not None]
    at_once = all(load.kind == "concurrency" for load in loads)
    options = [f"{load.value:g}" for load in loads]
    # What a link or a reader said stays an option, else the box would lose it.
    said = st.session_state.get(LOAD, st.query_params.get(LOAD))
    options += [said] if said and said not in options else []
    default = "" if one.operating_load is None else f": {one.operating_load.short}"
    text = st.selectbox(
        f"Your load ({'requests at once' if at_once else 'requests at once, or a second'})",
        options, index=None, key=LOAD, bind="query-params", accept_new_options=True,
        placeholder=f"the largest measured{default}",
    )  # fmt: skip
    return load_from(text)


def one_of(label: str, names: Sequence[str], key: str) -> str | None:
    """Draw a box that shows its first option until somebody sets it. None where the link names
    another subject, which is gone: the page says so and shows nothing in its place."""
    follow_first(key, names)
    gone = lost(key, names)
    chosen: str | None = st.selectbox(
        label, names, index=0 if gone is None else None, key=key, bind="query-params",
        placeholder="choose one that is here",
    )  # fmt: skip
    return chosen


def gone() -> str | None:
    """Return what the link names and is not here; None where all is here."""
    names: list[str | None] = [st.session_state.get(f"gone {key}") for key in (SUBJECT, TRAFFIC)]
    return next((name for name in names if name is not None), None)


def say_gone(name: str) -> None:
    """Say, in the place of a verdict, that what the link names is gone."""
    st.header(plain(f"Not here any more: {name}"))
    st.markdown("The link names it, and no result of it is kept. Choose below what there is.")


@dataclass(frozen=True)
class Told:
    """The decision that a page is about, and what was asked, kept to its subject. ``traffic``: its
    name; ``alone``: there is no other subject."""

    question: Question
    about: Named
    overview: Overview
    traffic: str
    one: Decision
    alone: bool

    @property
    def subject(self) -> str:
        """The name of the subject."""
        return self.overview.name

    @property
    def decisions(self) -> tuple[Decision, ...]:
        """All decisions on the subject."""
        return self.overview.ordered


def decidable(shelf: Shelf, question: Question) -> dict[str, Named]:
    """Return name -> subject, the first of them one that can be decided on; empty where none can.

    A page shows one subject, so only that is decided on, and those before it that cannot be.
    """
    there = list(ask(shelf, subjects, Asked(question.filters, question.allow)))
    while there and decided(shelf, question, there[0]).overview is None:
        del there[0]
    return {one.name: one for one in there}


def decided(shelf: Shelf, question: Question, about: Named) -> One:
    """Return the decision on a subject, kept under its own filters: all pages ask for the same."""
    return ask(shelf, decide_one, replace(question, filters=about.filters), about)


def chosen(
    shelf: Shelf,
    question: Question,
    known: dict[str, Named],
    boxes: Sequence[DeltaGenerator],
    printed: tuple[str, ...] = (),
) -> Told | str | None:
    """Return what the boxes say (subject, traffic, load) of ``decidable`` subjects; a sentence
    where the subject cannot be decided on. None where the link names one that is gone, or one of
    ``printed`` is chosen: published studies, which stand first and decide nothing."""
    unnamed = SUBJECT not in {*st.query_params, *st.session_state}
    if known and unnamed and _OF_A_DECISION & set(st.query_params):
        choose(SUBJECT, next(iter(known)))
    with boxes[0]:
        name = one_of("Model and hardware", [*printed, *known], SUBJECT)
    if name is None or name in printed:
        return None
    found = decided(shelf, question, known[name])
    if found.overview is None:
        return found.why_none or ""
    alone = len(known) + len(printed) == 1
    return _of_subject(shelf, question, (known[name], found.overview), boxes, alone)


def _of_subject(
    shelf: Shelf,
    question: Question,
    subject: tuple[Named, Overview],
    boxes: Sequence[DeltaGenerator],
    alone: bool,
) -> Told | None:
    """Return what the boxes of the traffic and the load say of a subject."""
    about, overview = subject
    with boxes[1]:
        place = one_of("Traffic", list(traffics(overview)), TRAFFIC)
    if place is None:
        return None
    with boxes[2]:
        load = load_chosen(traffics(overview)[place])
    question = replace(question, load=load)
    at_load = decided(shelf, question, about).overview or overview
    kept = replace(question, filters=about.filters)
    return Told(kept, about, at_load, place, traffics(at_load)[place], alone)


def traffics(subject: Overview) -> dict[str, Decision]:
    """Return name -> decision, those that lead first."""
    return {subject.place(one): one for one in subject.ordered}
