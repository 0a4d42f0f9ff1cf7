"""Cost & capacity: what a token costs, what a year saves, which load meets a latency target."""

from dataclasses import dataclass

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from answers.cost.answer import cost
from answers.cost.capacity import capacity, kept_to, trade, within
from answers.cost.values import Costs, DecisionCost, Terms
from answers.cost.words import NOTHING, notes, per_year
from answers.decide.answer import decide
from answers.decide.overview import NamedSubject
from answers.decide.values import DecideQuestion, Decisions
from answers.wording import badge, known
from dashboard import links, offered
from dashboard.charts import cost as charts_cost
from dashboard.charts import pareto as charts_pareto
from dashboard.charts.pareto import CHOSEN, POINT
from dashboard.charts.spec import Drawing, specification
from dashboard.chosen import (
    SUBJECT,
    Told,
    choices,
    chosen,
    decidable,
    decided,
    gone,
    keep_choice,
    one_of,
    question_of,
    say_gone,
    traffics,
)
from dashboard.components import plain, table, titled
from dashboard.downloads import charts_menu
from dashboard.links import LINK_COLUMNS
from dashboard.offered import nothing
from dashboard.shelf import Shelf, ask, cached
from dashboard.views.cost import folds
from dashboard.views.cost.folds import terms
from warehouse.filters import Filters

TITLE = "Cost & capacity"
URL_PATH = "cost"
ORDER = 30
FORMER = ("slo",)
_NO_PARTNER = "No cell has a partner; Compare lists the reasons."
#: Parameters of former pages -> what they are called now.
_RENAMED = {"slo": "draft_slo", "at": "at_load"}
_HOW = (
    "USD per million output tokens = 1,000,000 / (output tok/s × 3,600 × utilisation) × USD per "
    "hour of the hardware charged. Saved = 1 − cost with speculation / cost of the baseline; "
    "positive is cheaper. Arm, load, saving and how sure it is are those of the decision; the "
    "throughput with speculation is the baseline's, raised by what the decision expects. Replicas "
    "= demand at the busiest moment / output tok/s, rounded up, paid around the clock."
)
_HOW_FRONT = (
    "Across: 1000 / mean inter-token latency (ms). Up: output throughput / GPUs. More of both is "
    "better; a point is beaten where another one of the same model, dataset and GPU gives at least "
    "as much of both and more of one."
)


@dataclass(frozen=True)
class Sheet:
    """The money of one subject's decisions, ``row`` that of the chosen traffic, and its charts."""

    costs: Costs
    row: DecisionCost
    drawings: tuple[Drawing, ...]


def render(shelf: Shelf, filters: Filters) -> None:
    """Draw the page."""
    links.rename(_RENAMED)
    if offered.cells(shelf, filters).empty:
        st.header(NOTHING)
        nothing(shelf, "No result matches these filters. Remove one in the sidebar.")
        keep_choice(choices(shelf, DecideQuestion(filters), {}))
        return
    top, below = st.container(), st.container()
    boxes = st.columns([7, 4, 4, 3], vertical_alignment="bottom")
    with boxes[3]:
        question = question_of(filters)
    known = decidable(shelf, question)
    there = choices(shelf, question, known)
    told = chosen(shelf, question, known, boxes, there)
    with below:
        there.say_default(SUBJECT)
    with folds.fold("What you pay, and what you have to serve", "fold_pay"):
        counted = terms()
    if isinstance(told, Told):
        _decided(shelf, told, counted, top)
        return
    with top:
        _undecided(told if known else told or ask(shelf, decide, question).why_none or _NO_PARTNER)
    if not known:
        charts_menu("cost", titled(_trade(shelf, filters)))
        folds.below(shelf, folds.Scope(filters, question, counted))


def _undecided(why: str | None) -> None:
    """Say why nothing is costed; without a reason, what the link names is gone."""
    if why is None:
        say_gone(gone() or "")
        return
    st.header(NOTHING)
    st.info(plain(why))


def _decided(shelf: Shelf, told: Told, counted: Terms, top: DeltaGenerator) -> None:
    """Draw what there is to say of the chosen traffic."""
    sheet = _sheet(shelf, told.question, counted, (told.about, told.traffic))
    with top:
        _answer(sheet.row)
    left, right = st.columns([3, 2])
    left.vega_lite_chart(sheet.drawings[0], alt=sheet.row.headline)
    right.vega_lite_chart(sheet.drawings[1], alt=f"Saved a year: {per_year(sheet.row)}")
    scope = kept_to(told.one, told.question.filters)
    front = _trade(shelf, scope)
    charts_menu("cost", titled([*sheet.drawings, *front]))
    folds.below(shelf, folds.Scope(scope, told.question, counted), sheet.costs, sheet.row)


@cached
def _sheet(
    shelf: Shelf, question: DecideQuestion, counted: Terms, place: tuple[NamedSubject, str]
) -> Sheet:
    """Return the money and its charts. ``place``: the subject, and the name of the traffic."""
    found = decided(shelf, question, place[0]).overview
    known = {} if found is None else traffics(found)
    costs = cost(Decisions(tuple(known.values())), counted)
    at = list(known).index(place[1])
    row = costs.rows[at]
    if question.slo is not None:
        scope = kept_to(row.decision, question.filters)
        row = within(row, ask(shelf, capacity, scope, question.slo, counted.paying, False))
    charts = (charts_cost.cost_by_load(row, question.slo), charts_cost.saved_a_year(costs.rows, at))
    return Sheet(costs, row, tuple(map(specification, charts)))


def _answer(row: DecisionCost) -> None:
    st.header(plain(row.headline), help=_HOW)
    told = badge(row.decision.subject.evidence)
    if told:
        st.badge(told, color="gray")
    (st.caption if row.basis else st.info)(" ".join(plain(text) for text in notes([row])))


def _trade(shelf: Shelf, filters: Filters) -> list[Drawing]:
    """Draw one chart of competing points, those of one dataset; return it for the files."""
    found = ask(shelf, trade, filters)
    if found.left_out:
        st.caption(f"Left out: {found.left_out} loads whose rates or number of GPUs are unknown.")
    if not found.groups:
        return []
    names = {known(group[0].place.dataset): group for group in reversed(found.groups)}
    group = found.groups[0]
    if len(names) > 1:
        name = one_of("Dataset of the chart below", sorted(names), "trade_dataset")
        group = names.get(name or "", group)
    drawing = _front(shelf, filters, found.groups.index(group))
    st.vega_lite_chart(
        drawing, key="front", on_select=_choose, alt=f"{drawing['title']['text']}. {_HOW_FRONT}"
    )
    chosen = st.selectbox(
        "The cells behind a point: choose it here or click on it",
        [point.name for point in found.points], index=None, key=POINT, bind="query-params",
        placeholder="no point chosen", help=_HOW_FRONT,
    )  # fmt: skip
    if chosen is not None:
        (point,) = (point for point in found.points if point.name == chosen)
        table(folds.cells_behind(shelf, filters, point.cells), "cells", LINK_COLUMNS)
    return [drawing]


@cached
def _front(shelf: Shelf, filters: Filters, at: int) -> Drawing:
    """Return the chart of one group of competing points; ``at``: its place."""
    return specification(charts_pareto.pareto(ask(shelf, trade, filters).groups[at]))


def _choose() -> None:
    """Put the point that was clicked into the box below, which is what the link holds."""
    picked = st.session_state["front"]["selection"].get(CHOSEN)
    if picked:
        st.session_state[POINT] = picked[0][POINT]
