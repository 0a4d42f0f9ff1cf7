"""Cost & capacity: what a token costs, what a year saves, which load meets a latency target."""

from dataclasses import replace
from functools import partial

import pandas as pd
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from analysis.money.cost import MILLION, Demand
from analysis.money.paying import PRICES, Paying
from answers.cost import words
from answers.cost.answer import cost, with_energy, with_memory
from answers.cost.capacity import (
    ArmCapacity,
    capacity,
    capacity_json,
    kept_to,
    offered,
    trade,
    trade_json,
    within,
)
from answers.cost.values import Costs, DecisionCost, Terms, money_json
from answers.decide.answer import decide
from answers.decide.overview import NamedSubject
from answers.decide.values import DecideQuestion, Decisions
from answers.wording import badge, known
from dashboard import links
from dashboard.charts import Drawing, specification
from dashboard.charts import cost as charts
from dashboard.chosen import (
    SUBJECT,
    SUBJECT_LABEL,
    ChosenDecision,
    choices,
    chosen,
    decidable,
    decided,
    gone,
    one_of,
    question_of,
    say_gone,
    traffics,
)
from dashboard.components import badged, fold, grid, plain, table, tabled, titled
from dashboard.downloads import charts_menu, rows_menu
from dashboard.filters import cells, nothing
from dashboard.shelf import Shelf, ask, cached
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
#: What stands in the list of prices before the prices themselves.
LISTED, OWN = "by GPU: its first on-demand price", "my own price"
_CHOICES: tuple[str, ...] = (LISTED, OWN, *(price.name for price in PRICES))
#: Cells whose requests are read for goodput; beyond, a reader must choose.
MOST_CELLS = 400
#: Settings whose loads are drawn; all are judged and stand in the table.
MOST_STRIPS = 3
_HOW_LOAD = (
    "A load is judged by its mean over the repeats. The largest load is the largest measured one up "
    "to which every load meets all bounds; throughput and cost are those at it. Nothing is "
    "interpolated."
)
_HOW_GOODPUT = (
    "Good: a completed request that meets every bound on single requests itself, whatever "
    "statistic the bound names. Goodput = good requests / measured window. Higher is better."
)


def render(shelf: Shelf, filters: Filters) -> None:
    """Draw the page."""
    links.rename(_RENAMED)
    if cells(shelf, filters).empty:
        st.header(words.NOTHING)
        nothing(shelf)
        one_of(SUBJECT_LABEL, (), SUBJECT, choices(shelf, DecideQuestion(filters), {}).hidden)
        return
    top, below = st.container(), st.container()
    question, boxes = question_of(filters)
    there = decidable(shelf, question)
    offer = choices(shelf, question, there)
    choice = chosen(shelf, question, there, boxes, offer)
    with below:
        offer.say_default(SUBJECT)
    with st.expander(
        "What you pay, and what you have to serve",
        key="fold_pay",
        on_change="rerun",
        bind="query-params",
    ):
        counted = terms()
    if isinstance(choice, ChosenDecision):
        _decided(shelf, choice, counted, top)
        return
    why = choice if there else choice or ask(shelf, decide, question).why_none or _NO_PARTNER
    with top:
        if why is None:
            say_gone(gone() or "")
        else:
            st.header(words.NOTHING)
            st.info(plain(why))
    if not there:
        charts_menu("cost", titled(_trade(shelf, filters)))
        _folds(shelf, filters, question.slo, counted)


def _decided(shelf: Shelf, choice: ChosenDecision, counted: Terms, top: DeltaGenerator) -> None:
    question = choice.question
    costs, row, drawings = _sheet(shelf, question, counted, choice.about, choice.traffic)
    with top:
        st.header(plain(row.headline), help=_HOW)
        badged(filter(None, [badge(row.decision.subject.evidence)]))
        notes = (plain(text) for text in words.notes([row]) if text not in row.headline)
        (st.caption if row.basis else st.info)(" ".join(notes))
    says = (row.headline, f"Saved a year: {words.per_year(row)}")
    for place, drawing, alt in zip(
        st.columns([3, 2][: len(drawings)]), drawings, says, strict=False
    ):
        place.vega_lite_chart(drawing, alt=alt)
    scope = kept_to(choice.one, question.filters)
    charts_menu("cost", titled([*drawings, *_trade(shelf, scope)]))
    _folds(shelf, scope, question.slo, counted, (costs, row))


@cached
def _sheet(
    shelf: Shelf, question: DecideQuestion, counted: Terms, about: NamedSubject, traffic: str
) -> tuple[Costs, DecisionCost, list[Drawing]]:
    overview = decided(shelf, question, about).overview
    by_traffic = {} if overview is None else traffics(overview)
    costs = cost(Decisions(tuple(by_traffic.values())), counted)
    at = list(by_traffic).index(traffic)
    row = costs.rows[at]
    if question.slo is not None:
        scope = kept_to(row.decision, question.filters)
        row = within(row, ask(shelf, capacity, scope, question.slo, counted.paying, False))
    drawn = [charts.cost_by_load(row, question.slo)]
    if any(one.usd_saved_per_year for one in costs.rows):
        drawn.append(charts.saved_a_year(costs.rows, at))
    return costs, row, list(map(specification, drawn))


def _trade(shelf: Shelf, filters: Filters) -> list[Drawing]:
    found = ask(shelf, trade, filters)
    if found.left_out:
        st.caption(f"Left out: {found.left_out} loads whose rates or number of GPUs are unknown.")
    if not found.groups:
        return []
    names = {
        known(found.groups[at][0].place.dataset): at for at in reversed(range(len(found.groups)))
    }
    at = 0
    if len(names) > 1:
        name = one_of("Dataset of the chart below", sorted(names), "trade_dataset")
        at = names.get(name or "", 0)
    drawing = _front(shelf, filters, at)
    st.vega_lite_chart(
        drawing, key="front", on_select=_choose, alt=f"{drawing['title']['text']}. {_HOW_FRONT}"
    )
    chosen = st.selectbox(
        "The cells behind a point: choose it here or click on it",
        [point.name for point in found.points], index=None, key=charts.POINT, bind="query-params",
        placeholder="no point chosen", help=_HOW_FRONT,
    )  # fmt: skip
    if chosen is not None:
        (point,) = (point for point in found.points if point.name == chosen)
        every = cells(shelf, filters)
        behind = every.loc[every["cell_id"].isin(point.cells), [*links.BEHIND, "cell_id"]]
        table(links.linked(behind.rename(columns=links.BEHIND)), "cells", links.LINK_COLUMNS)
    return [drawing]


@cached
def _front(shelf: Shelf, filters: Filters, at: int) -> Drawing:
    return specification(charts.pareto(ask(shelf, trade, filters).groups[at]))


def _choose() -> None:
    if picked := st.session_state["front"]["selection"].get(charts.CHOSEN):
        st.session_state[charts.POINT] = picked[0][charts.POINT]


# --- What a reader pays and has to serve, as widgets.


def terms() -> Terms:
    """Draw the widgets and return what they say."""
    left, middle, right = st.columns([3, 2, 2])
    price = left.selectbox(
        "Price", _CHOICES, key="price", bind="query-params",
        help="Dated prices with their sources stand in the price list below. A real decision "
        "takes the price on your own contract.",
    )  # fmt: skip
    used = middle.number_input(
        "GPUs charged", min_value=1, value=None, key="gpus_used", bind="query-params",
        placeholder="as recorded", help="GPUs behind one server's throughput.",
    )  # fmt: skip
    busy = right.slider(
        "Utilisation, %", 1, 100, 100, key="utilisation", bind="query-params",
        help="Share of the paid time in which the server runs at this throughput: for the cost of "
        "a token. The GPUs of a demand follow from its peak alone.",
    )  # fmt: skip
    usd, bought = None, 1
    if price == OWN:
        left, right = st.columns(2)
        usd = left.number_input(
            "USD per hour", min_value=0.01, value=None, key="usd_per_hour", bind="query-params",
            placeholder="until then the listed one", format="%g",
        )  # fmt: skip
        bought = right.number_input(
            "GPUs it buys", min_value=1, value=1, key="gpus_per_instance", bind="query-params"
        )
    places = st.columns(4, vertical_alignment="bottom")
    millions = places[0].number_input(
        "Output tokens a day, millions", min_value=0.001, value=1000.0, key="millions_a_day",
        bind="query-params", format="%g",
    )  # fmt: skip
    peak = places[1].number_input(
        "Peak to mean", min_value=1.0, value=1.0, key="peak_to_mean", bind="query-params",
        help="The busiest moment over the mean: the replicas must suffice for it.", format="%g",
    )  # fmt: skip
    spent = places[2].number_input(
        "Invested, USD", min_value=0.0, value=None, key="investment", bind="query-params",
        placeholder="nothing", format="%g",
        help="What the benchmark and a draft's training cost: when is it paid back?",
    )  # fmt: skip
    whole = places[3].toggle(
        "Whole instances only", key="whole_instances", bind="query-params",
        help="GPUs can only be rented by the instance.",
    )  # fmt: skip
    demand = Demand(millions * MILLION, peak) if millions else None
    paid = paying(price, (usd, int(bought)), used and int(used), busy / 100)
    return Terms(paid, demand, whole, spent)


def paying(
    choice: str, own: tuple[float | None, int], used: int | None = None, utilisation: float = 1.0
) -> Paying:
    """Return what a reader pays. ``choice``: one of the list; ``own``: USD per hour and the GPUs it
    buys, for OWN alone. Until a reader has stated the price, it is the listed one of the GPU."""
    usd, bought = own if choice == OWN else (None, 1)
    listed = None if choice in (LISTED, OWN) else choice
    return Paying(usd, None if usd is None else bought, used, utilisation, listed)


def _price_list() -> None:
    header = (
        "name", "hardware", "GPUs", "USD per hour", "USD per GPU-hour", "kind", "date", "source",
    )  # fmt: skip
    rows = []
    for price in PRICES:
        gpus, usd = price.gpus_per_instance if price.unit == "GPU" else 0, price.usd_per_hour
        each = f"{usd / gpus:,.2f}" if gpus else "no GPU"
        about = (price.kind, price.date, price.source)
        rows.append((price.name, price.gpu, gpus, f"{usd:,.2f}", each, *about))
    table(tabled(header, rows), "prices")


# --- What is folded under the answer: latency targets, the arithmetic, every number, prices.


def _folds(
    shelf: Shelf, scope: Filters, slo: str | None, counted: Terms,
    money: tuple[Costs, DecisionCost] | None = None,
) -> None:  # fmt: skip
    fold(
        "Which load meets your latency target?",
        "fold_target",
        partial(_targets, shelf, scope, slo, counted.paying),
        True,
    )
    if money is not None:
        fold("The arithmetic, step by step", "fold_steps", partial(_arithmetic, *money))
        fold("Every traffic in numbers", "fold_numbers", partial(_numbers, money[0]))
        fold(
            "Energy: joules per token, and what a watt yields",
            "fold_energy",
            partial(_energy, shelf, money[0]),
        )
        fold(
            "Memory: what the draft takes from the KV cache",
            "fold_memory",
            partial(_memory, shelf, replace(money[0], rows=(money[1],))),
        )
    fold("Every point between a GPU and a user", "fold_points", partial(_points, shelf, scope))
    fold("Price list, with dates and sources", "fold_prices", _price_list)


def _arithmetic(costs: Costs, row: DecisionCost) -> None:
    header, steps = words.steps(row, costs.terms)
    if not steps:
        st.caption("There is nothing to calculate without a price and a load.")
        return
    table(tabled(header, steps), "steps")


def _numbers(costs: Costs) -> None:
    table(tabled(*words.costs(costs.rows)), "decisions")
    if costs.terms.demand is not None:
        table(tabled(*words.demands(costs.rows)), "decisions")
    header, rows = words.break_evens(costs.rows)
    if rows:
        table(tabled(header, rows), "decisions")
    rows_menu("cost", lambda: pd.json_normalize([
        {name: value for name, value in money_json(row).items() if name not in ("loads", "missing")}
        for row in costs.rows
    ]))  # fmt: skip


def _energy(shelf: Shelf, costs: Costs) -> None:
    header, rows = words.energies(ask(shelf, with_energy, costs).rows)
    if not rows:
        st.caption(words.NO_POWER)
        return
    table(tabled(header, rows), "decisions")
    st.caption(words.HOW_ENERGY)


def _memory(shelf: Shelf, costs: Costs) -> None:
    tokens = st.number_input(
        "Tokens of a request, prompt and answer", min_value=1, value=None, step=1, key="request_tokens",
        bind="query-params", placeholder="as measured",
    )  # fmt: skip
    terms = replace(costs.terms, request_tokens=tokens)
    sentences = [*words.rooms(ask(shelf, with_memory, replace(costs, terms=terms)).rows)]
    if not sentences:
        st.caption(words.NO_CACHE)
    for sentence in sentences:
        st.markdown(plain(sentence))


def _points(shelf: Shelf, filters: Filters) -> None:
    found = ask(shelf, trade, filters)
    table(tabled(*words.trade_points(found.points)), "points")
    rows_menu("pareto", lambda: pd.json_normalize(trade_json(found)["points"]))


def _targets(shelf: Shelf, scope: Filters, wanted: str | None, paid: Paying) -> None:
    there = ask(shelf, offered, scope)
    slo = wanted or there.first
    if slo is None:
        st.caption("No latency was measured, so there is no target to meet.")
        return
    left, right = st.columns([3, 2], vertical_alignment="bottom")
    left.selectbox(
        "Bounds within what was measured", there.bounds, index=None, key="offered_bound",
        placeholder="choose one to ask for it above", on_change=_ask_for,
        help="It becomes the service level of the whole page, and of Decide.",
    )  # fmt: skip
    count = right.toggle(
        "Count goodput: judge every single request", key="goodput", bind="query-params",
        help=_HOW_GOODPUT,
    )  # fmt: skip
    found = ask(shelf, capacity, scope, slo, paid, False)
    if count and found.cells > MOST_CELLS:
        st.info(
            f"These are {found.cells:,} cells; goodput reads the requests of at most {MOST_CELLS}. "
            "Choose a dataset or an arm in the sidebar."
        )
        count = False
    if count:
        found = ask(shelf, capacity, scope, slo, paid, True)
    if wanted is None:
        st.caption(
            plain(f"No target is asked for; shown is {slo}, the middle of what was measured.")
        )
    st.markdown(plain(found.headline), help=_HOW_LOAD)
    drawn, arms, loads = st.tabs(
        ["Loads that meet it", "Each arm's largest load", "Every load, with what it misses"],
        key="target_tab", on_change="rerun", bind="query-params",
    )  # fmt: skip
    if drawn.open:
        with drawn:
            _strips(*_drawn(shelf, scope, slo, paid, count))
    if arms.open:
        with arms:
            table(tabled(*words.arms(found)), "arms")
    if loads.open:
        with loads:
            table(tabled(*words.loads(found)), "loads")
            rows_menu("slo-loads", lambda: pd.json_normalize(
                capacity_json(found)["arms"], "levels",
                ["arm_label", "model", "dataset", "gpu", "tensor_parallel_size", "evidence"],
            ))  # fmt: skip
    for sentence in dict.fromkeys(arm.unpriced for arm in found.arms if arm.unpriced):
        st.caption(plain(sentence))


def _strips(drawings: dict[str, Drawing], settings: int) -> None:
    if settings > MOST_STRIPS:
        st.caption(f"{MOST_STRIPS} of {settings} settings are drawn; all are judged.")
    grid([*drawings.values()], [f"Which loads meet the service level, {name}" for name in drawings])
    charts_menu("slo-loads", drawings)


def _ask_for() -> None:
    st.session_state["draft_slo"] = st.session_state["offered_bound"] or ""


@cached
def _drawn(
    shelf: Shelf, scope: Filters, slo: str, paid: Paying, counted: bool
) -> tuple[dict[str, Drawing], int]:
    settings: dict[str, list[ArmCapacity]] = {}
    for arm in ask(shelf, capacity, scope, slo, paid, counted).arms:
        if all(at.level.load.value is not None for at in arm.loads):
            settings.setdefault(arm.place.setting, []).append(arm)
    return {
        name: specification(charts.slo_strips(arms))
        for name, arms in list(settings.items())[:MOST_STRIPS]
    }, len(settings)
