"""What pages that stand on a decision have alike: the controls (what is asked, about what, at which
load) and the parts in which it is shown."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from analysis.choice.operating import EXAMPLES, wish
from analysis.service.slo import EXAMPLE
from answers.decide import tables
from answers.decide.answer import SubjectDecision, decide_one
from answers.decide.overview import NamedSubject, Overview, SubjectsQuestion, on_gpu, subjects
from answers.decide.values import DecideQuestion, Decision, Objective, mix_from
from answers.published.values import PublishedStudy
from dashboard.charts import Drawing
from dashboard.components import copied, plain
from dashboard.links import choose, follow_first, lost, set_to
from dashboard.shelf import Shelf, ask
from warehouse.filters import Filters

_OBJECTIVES: dict[str, Objective] = {
    "Throughput": "throughput", "Latency": "latency", "Cost": "cost",
}  # fmt: skip
LOAD, TRAFFIC, SUBJECT = "at_load", "traffic", "about"
SUBJECT_LABEL = "Model and hardware"
#: What a link asks of a decision, though it may name no subject.
_OF_A_DECISION = frozenset({LOAD, TRAFFIC, "objective", "draft_slo", "mix"})


def question_of(filters: Filters) -> tuple[DecideQuestion, Sequence[DeltaGenerator]]:
    """Draw the row of controls; return the question that the last of them asks, without its load, and
    the boxes of the others. Raises InvalidInput for a mix that cannot be read."""
    *boxes, last = st.columns([7, 4, 4, 3], vertical_alignment="bottom")
    with last.popover("Change the question", help="Objective, latency target, traffic mix"):
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
    question = DecideQuestion(
        filters, _OBJECTIVES[objective], None, (slo or "").strip() or None, mix_from(mix)
    )
    return question, boxes


def load_chosen(decision: Decision) -> str | None:
    """Draw the box of loads; return what was chosen, None for the largest measured. Raises
    InvalidInput for a load that cannot be read."""
    loads = [level.load for level in decision.levels if level.load.value is not None]
    options = [f"{load.value:g}{'/s' if load.is_rate else ''}" for load in loads]
    # What a link or a reader set stays an option, else the box would lose it.
    before = st.session_state.get(LOAD, st.query_params.get(LOAD))
    options += [before] if before and before not in options else []
    text: str | None = st.selectbox(
        "Your load", help=f"Write {EXAMPLES}.",
        options=options, index=None, key=LOAD, bind="query-params", accept_new_options=True,
        placeholder=f"the largest measured: {decision.operating_load.short}",
    )  # fmt: skip
    wish(text)
    return text or None


@dataclass(frozen=True)
class SubjectOffer:
    """What a page can be about. ``names``: of the subjects that the filters keep; ``every``: of all
    that there are; ``first``: the one on which the page opens without filters."""

    names: tuple[str, ...]
    every: tuple[str, ...] = ()
    first: str | None = None

    @property
    def hidden(self) -> tuple[str, ...]:
        """The subjects of which the filters leave nothing to show."""
        return tuple(name for name in self.every if name not in self.names)

    def why_hidden(self, name: str) -> str | None:
        """Return a sentence where the filters hide the chosen subject."""
        if name not in self.hidden:
            return None
        return (
            f"The filters leave nothing to show of {name}: remove one, or choose another subject."
        )

    def say_default(self, key: str) -> None:
        """Say that the page opens on another subject than without filters, where nobody chose one.
        ``key``: of the box of subjects; call it when that is drawn."""
        shown = next(iter(self.names), None)
        if shown is None or set_to(key) not in (None, shown) or self.first in (None, shown):
            return
        st.caption(
            plain(
                f"The filters leave nothing to show of {self.first}, which stands first without them."
            )
        )


def one_of(label: str, names: Sequence[str], key: str, hidden: Sequence[str] = ()) -> str | None:
    """Draw a box that shows its first option until somebody sets it; one of ``hidden`` that was
    chosen stays so. None where the link names another subject, which is gone: the page says so and
    shows nothing in its place. No box where there is nothing to choose."""
    if names:
        follow_first(key, names)
    chosen_before = set_to(key)
    offered = [*names, *(name for name in hidden if name == chosen_before)]
    if not offered:
        return None
    missing = lost(key, offered)
    chosen: str | None = st.selectbox(
        label, offered, index=0 if names and missing is None else None, key=key, bind="query-params",
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
class ChosenDecision:
    """The decision that a page is about, and what was asked, kept to its subject. ``traffic``: its
    name; ``alone``: there is no other subject."""

    question: DecideQuestion
    about: NamedSubject
    overview: Overview
    traffic: str
    one: Decision
    alone: bool


def decidable(shelf: Shelf, question: DecideQuestion) -> dict[str, NamedSubject]:
    """Return name -> subject, the first of them one that can be decided on; empty where none can.

    A page shows one subject, so only that is decided on, and those before it that cannot be.
    """
    there = list(ask(shelf, subjects, SubjectsQuestion(question.filters, question.allow)))
    while there and decided(shelf, question, there[0]).overview is None:
        del there[0]
    return {named.name: named for named in there}


def choices(
    shelf: Shelf,
    question: DecideQuestion,
    known: Mapping[str, NamedSubject],
    studied: Sequence[PublishedStudy] = (),
) -> SubjectOffer:
    """Return what a page on decisions can be about: the published studies that the filters keep, then
    the ``decidable`` subjects."""
    unfiltered = replace(question, filters=Filters())
    return offer_of(
        question.filters, known, studied,
        lambda: ask(shelf, subjects, SubjectsQuestion(allow=question.allow)),
        lambda named: decided(shelf, unfiltered, named).overview is not None,
    )  # fmt: skip


def offer_of(
    filters: Filters,
    kept: Mapping[str, NamedSubject],
    studies: Sequence[PublishedStudy],
    every: Callable[[], Sequence[NamedSubject]],
    shows: Callable[[NamedSubject], bool],
) -> SubjectOffer:
    """Return the subjects that are ``kept`` and those of the published studies that the filters keep: what
    was measured on a GPU stands before the studies, all else behind them. ``every``: the subjects without
    filters; ``shows``: whether one of them can be shown then."""
    met = [study.title for study in studies if study.meets(filters)]
    names = _ordered(kept.values(), met)
    if filters == Filters():
        return SubjectOffer(names)
    there = {named.name: named for named in every()}
    without = _ordered(there.values(), [study.title for study in studies])
    # Asking takes as long as showing, so only those before the one that is shown are asked about.
    first = next(
        (name for name in without if name in names[:1] or name not in there or shows(there[name])),
        None,
    )
    return SubjectOffer(names, without, first)


def _ordered(own: Iterable[NamedSubject], printed: Sequence[str]) -> tuple[str, ...]:
    subjects = list(own)
    first = [one.name for one in takewhile(lambda one: on_gpu(one.about), subjects)]
    return (*first, *printed, *(one.name for one in subjects[len(first) :]))


def decided(shelf: Shelf, question: DecideQuestion, about: NamedSubject) -> SubjectDecision:
    """Return the decision on a subject, kept under its own filters: all pages ask for the same."""
    return ask(shelf, decide_one, replace(question, filters=about.filters), about)


def chosen(
    shelf: Shelf,
    question: DecideQuestion,
    known: dict[str, NamedSubject],
    boxes: Sequence[DeltaGenerator],
    offer: SubjectOffer,
) -> ChosenDecision | str | None:
    """Return what the boxes say (subject, traffic, load) of ``decidable`` subjects; a sentence
    where the subject cannot be decided on. None where there is none, where the link names one that
    is gone, or where a published study is chosen, which decides nothing. ``offer``: the ``choices``."""
    unnamed = SUBJECT not in {*st.query_params, *st.session_state}
    if known and unnamed and _OF_A_DECISION & set(st.query_params):
        choose(SUBJECT, _with_traffic_of_link(shelf, question, known))
    with boxes[0]:
        name = one_of(SUBJECT_LABEL, offer.names, SUBJECT, offer.hidden)
    if name is None or name not in known:
        return None if name is None else offer.why_hidden(name)
    about = known[name]
    without_load = decided(shelf, question, about)
    if without_load.overview is None:
        return without_load.why_none or ""
    by_traffic = traffics(without_load.overview)
    with boxes[1]:
        traffic = one_of("Traffic", list(by_traffic), TRAFFIC)
    if traffic is None:
        return None
    with boxes[2]:
        question = replace(question, load=load_chosen(by_traffic[traffic]))
    overview = decided(shelf, question, about).overview or without_load.overview
    # Of a load of another kind than the traffic's only that kind is decided.
    by_traffic = traffics(overview)
    traffic = traffic if traffic in by_traffic else next(iter(by_traffic))
    return ChosenDecision(
        replace(question, filters=about.filters),
        about,
        overview,
        traffic,
        by_traffic[traffic],
        len(offer.names) == 1,
    )


def _with_traffic_of_link(
    shelf: Shelf, question: DecideQuestion, known: Mapping[str, NamedSubject]
) -> str:
    """Return the first subject that has the traffic which a link without a subject names; without
    one the first of all."""
    traffic = st.query_params.get(TRAFFIC)
    for name, about in known.items():
        overview = decided(shelf, question, about).overview
        if traffic is None or (overview is not None and traffic in traffics(overview)):
            return name
    return next(iter(known))


def traffics(subject: Overview) -> dict[str, Decision]:
    """Return name -> decision, those that lead first."""
    return {subject.place(decision): decision for decision in subject.ordered}


# --- The parts in which a decision is shown, of the warehouse's results or of a reader's own files.


def load_map(
    drawing: Drawing, overview: Overview, key: str = "", clicked: Callable[[], None] | None = None
) -> None:
    """Draw traffic over loads as one chart, with the word and size of each; ``clicked``: what a click
    on a field does, with the ``key`` of the chart."""
    lines = (f"{overview.place(d)}: {tables.words_by_load(d.levels)}" for d in overview.ordered)
    alt = f"Load map. {'. '.join(lines)}."
    st.vega_lite_chart(drawing, alt=alt, key=key or None, on_select=clicked or "ignore")


def tiles(one: Decision) -> None:
    """Draw what the decision brings and saves at the reader's load."""
    shown = tables.tiles(one)
    if not shown and one.doubts:
        st.info(plain(one.doubts[0]))
    for place, tile in zip(st.columns(max(len(shown), 1)), shown, strict=False):
        place.metric(tile.label, tile.value, tile.note, delta_color="off", delta_arrow="off")


def paste(one: Decision) -> None:
    """Draw what to give the engine, and what measures the launches that are missing."""
    if one.serve or one.config:
        copied(one.serve or f"--speculative-config '{one.config}'")
    command, before = tables.to_measure(one)
    if command:
        copied(command)
    missing = tables.nothing_to_paste(one) if one.serve is None else ""
    notes = "  ".join(
        filter(None, [tables.entries(one), missing, *tables.table_notes(one), before])
    )
    if notes:
        st.caption(plain(notes))


def bullets(sentences: Iterable[str], otherwise: str = "") -> None:
    """Draw sentences as a list, each once; ``otherwise`` where there is none."""
    lines = list(dict.fromkeys(sentences)) or [otherwise]
    if lines != [""]:
        st.markdown("\n".join(f"- {plain(line)}" for line in lines))


def against(one: Decision) -> None:
    """Draw what speaks against a decision."""
    bullets((loss.sentence for loss in one.against), "Nothing that was measured.")
