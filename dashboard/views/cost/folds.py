"""What is folded under the answer: latency targets, the arithmetic, every number, prices."""

from dataclasses import dataclass, replace

import pandas as pd
import streamlit as st
from streamlit.elements.lib.mutable_expander_container import ExpanderContainer

from analysis.money.cost import MILLION, Demand
from analysis.money.paying import PRICES, Paying
from answers.cost import words
from answers.cost.capacity import (
    ArmCapacity,
    ServiceCapacity,
    capacity,
    capacity_json,
    offered,
    trade,
    trade_json,
)
from answers.cost.values import Costs, DecisionCost, Terms, money_json
from answers.cost.words import steps
from answers.decide.tables import TextRows
from answers.decide.values import DecideQuestion
from dashboard import offered as there
from dashboard.charts.pareto import slo_strips
from dashboard.charts.spec import Drawing, specification
from dashboard.components import Shown, plain, shown, table
from dashboard.downloads import charts_menu, rows_menu
from dashboard.links import BEHIND, linked
from dashboard.shelf import Shelf, ask, cached
from warehouse.filters import Filters

# --- What a reader pays and has to serve, as widgets; and the price list as a table.


#: What stands in the list of prices before the prices themselves.
LISTED, OWN = "by GPU: its first on-demand price", "my own price"
_CHOICES: tuple[str, ...] = (LISTED, OWN, *(price.name for price in PRICES))


def terms() -> Terms:
    """Draw the widgets and return what they say."""
    paid = _paying()
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
    return Terms(paid, demand, whole, spent)


def _paying() -> Paying:
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
    usd, bought = _own_price() if price == OWN else (None, 1)
    return paying(price, (usd, bought), used and int(used), busy / 100)


def _own_price() -> tuple[float | None, int]:
    """Ask for the USD per hour, and how many GPUs it buys."""
    left, right = st.columns(2)
    usd = left.number_input(
        "USD per hour", min_value=0.01, value=None, key="usd_per_hour", bind="query-params",
        placeholder="until then the listed one", format="%g",
    )  # fmt: skip
    bought = right.number_input(
        "GPUs it buys", min_value=1, value=1, key="gpus_per_instance", bind="query-params"
    )
    return usd, int(bought)


def paying(
    choice: str, own: tuple[float | None, int], used: int | None = None, utilisation: float = 1.0
) -> Paying:
    """Return what a reader pays. ``choice``: one of the list; ``own``: USD per hour and the GPUs it
    buys, for OWN alone. Until a reader has stated the price, it is the listed one of the GPU."""
    usd, bought = own if choice == OWN else (None, 1)
    listed = None if choice in (LISTED, OWN) else choice
    return Paying(usd, None if usd is None else bought, used, utilisation, listed)


def price_list() -> None:
    """Draw the price list: one row per price, with its date and source."""
    rows = pd.DataFrame(
        {
            "name": [p.name for p in PRICES],
            "hardware": [p.gpu for p in PRICES],
            "GPUs": [p.gpus_per_instance if p.unit == "GPU" else 0 for p in PRICES],
            "USD per hour": [f"{p.usd_per_hour:,.2f}" for p in PRICES],
            "USD per GPU-hour": [
                f"{p.usd_per_hour / p.gpus_per_instance:,.2f}" if p.unit == "GPU" else "no GPU"
                for p in PRICES
            ],
            "kind": [p.kind for p in PRICES],
            "date": [p.date for p in PRICES],
            "source": [p.source for p in PRICES],
        }
    )  # fmt: skip
    table(shown(rows), "prices")


# --- What is folded under the answer: latency targets, the arithmetic, every number, prices.


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


@dataclass(frozen=True)
class Scope:
    """What the folds are about: the cells, and how they are judged and paid."""

    filters: Filters
    question: DecideQuestion
    terms: Terms


@dataclass(frozen=True)
class _Reached:
    """What is asked of a service level: of which cells, which level, at which price, and whether
    single requests are counted."""

    filters: Filters
    slo: str
    paying: Paying
    counted: bool = False


def below(
    shelf: Shelf, scope: Scope, costs: Costs | None = None, row: DecisionCost | None = None
) -> None:
    """Draw the folds; what is closed is not computed."""
    with fold("Which load meets your latency target?", "fold_target", True) as here:
        if here.open:
            _targets(shelf, scope)
    if costs is not None and row is not None:
        with fold("The arithmetic, step by step", "fold_steps") as here:
            if here.open:
                _arithmetic(row, costs.terms)
        with fold("Every traffic in numbers", "fold_numbers") as here:
            if here.open:
                _numbers(costs)
    with fold("Every point between a GPU and a user", "fold_points") as here:
        if here.open:
            _points(shelf, scope)
    with fold("Price list, with dates and sources", "fold_prices") as here:
        if here.open:
            price_list()


def fold(label: str, key: str, expanded: bool = False) -> ExpanderContainer:
    """Draw an expander that the address keeps open or closed."""
    return st.expander(label, expanded, key=key, on_change="rerun", bind="query-params")


def _arithmetic(row: DecisionCost, counted: Terms) -> None:
    lines = steps(row, counted)
    if not lines:
        st.caption("There is nothing to calculate without a price and a load.")
        return
    names = {"what": "step", "formula": "how", "speculative": "with speculation"}
    table(shown(pd.DataFrame([vars(line) for line in lines]).rename(columns=names)), "steps")


def _numbers(costs: Costs) -> None:
    text(words.costs(costs.rows), "decisions")
    if costs.terms.demand is not None:
        text(words.demands(costs.rows), "decisions")
    more = words.others(costs.rows)
    if more[1]:
        text(more, "decisions")
    rows_menu("cost", lambda: pd.json_normalize([_file_row(row) for row in costs.rows]))


def _file_row(row: DecisionCost) -> dict[str, object]:
    whole = money_json(row)
    return {name: value for name, value in whole.items() if name not in ("loads", "missing")}


def _points(shelf: Shelf, scope: Scope) -> None:
    found = ask(shelf, trade, scope.filters)
    text(words.trade_points(found.points), "points")
    rows_menu("pareto", lambda: pd.json_normalize(trade_json(found)["points"]))


def _targets(shelf: Shelf, scope: Scope) -> None:
    known = ask(shelf, offered, scope.filters)
    slo = scope.question.slo or known.first
    if slo is None:
        st.caption("No latency was measured, so there is no target to meet.")
        return
    left, right = st.columns([3, 2], vertical_alignment="bottom")
    left.selectbox(
        "Bounds within what was measured", known.bounds, index=None, key="offered_bound",
        placeholder="choose one to ask for it above", on_change=_ask_for,
        help="It becomes the service level of the whole page, and of Decide.",
    )  # fmt: skip
    count = right.toggle(
        "Count goodput: judge every single request", key="goodput", bind="query-params",
        help=_HOW_GOODPUT,
    )  # fmt: skip
    asked = _Reached(scope.filters, slo, scope.terms.paying)
    found = _capacity(shelf, asked)
    if count and found.cells > MOST_CELLS:
        st.info(
            f"These are {found.cells:,} cells; goodput reads the requests of at most {MOST_CELLS}. "
            "Choose a dataset or an arm in the sidebar."
        )
    elif count:
        asked = replace(asked, counted=True)
        found = _capacity(shelf, asked)
    if scope.question.slo is None:
        st.caption(
            plain(f"No target is asked for; shown is {slo}, the middle of what was measured.")
        )
    _reached(shelf, asked, found)


def _ask_for() -> None:
    """Make the chosen bound the page's service level."""
    st.session_state["draft_slo"] = st.session_state["offered_bound"] or ""


def _capacity(shelf: Shelf, asked: _Reached) -> ServiceCapacity:
    return ask(shelf, capacity, asked.filters, asked.slo, asked.paying, asked.counted)


def _reached(shelf: Shelf, asked: _Reached, found: ServiceCapacity) -> None:
    st.markdown(plain(found.headline), help=_HOW_LOAD)
    charts, arms, loads = st.tabs(
        ["Loads that meet it", "Each arm's largest load", "Every load, with what it misses"],
        key="target_tab", on_change="rerun", bind="query-params",
    )  # fmt: skip
    if charts.open:
        with charts:
            _strips(*_drawn(shelf, asked))
    if arms.open:
        with arms:
            text(words.arms(found), "arms")
    if loads.open:
        with loads:
            text(words.loads(found), "loads")
            rows_menu("slo-loads", lambda: _file_rows(found))
    for sentence in dict.fromkeys(arm.unpriced for arm in found.arms if arm.unpriced):
        st.caption(plain(sentence))


@cached
def _drawn(shelf: Shelf, asked: _Reached) -> tuple[dict[str, Drawing], int]:
    """Return the charts of the first settings, and how many settings there are."""
    settings: dict[str, list[ArmCapacity]] = {}
    for arm in _capacity(shelf, asked).arms:
        if all(at.level.load.value is not None for at in arm.loads):
            settings.setdefault(arm.place.setting, []).append(arm)
    first = list(settings.items())[:MOST_STRIPS]
    return {name: specification(slo_strips(arms)) for name, arms in first}, len(settings)


def _strips(drawings: dict[str, Drawing], settings: int) -> None:
    if settings > MOST_STRIPS:
        st.caption(f"{MOST_STRIPS} of {settings} settings are drawn; all are judged.")
    places = st.columns(len(drawings) or 1)
    for place, (name, drawing) in zip(places, drawings.items(), strict=False):
        place.vega_lite_chart(drawing, alt=f"Which loads meet the service level, {name}")
    charts_menu("slo-loads", drawings)


def _file_rows(found: ServiceCapacity) -> pd.DataFrame:
    """Return every load of every arm, unrounded."""
    about: list[str | list[str]] = [
        "arm_label",
        "model",
        "dataset",
        "gpu",
        "tensor_parallel_size",
        "evidence",
    ]
    return pd.json_normalize(capacity_json(found)["arms"], "levels", about)


def text(rows: TextRows, what: str) -> None:
    """Draw rows of text as a table."""
    header, lines = rows
    table(shown(pd.DataFrame(lines, columns=header)), what)


def cells_behind(shelf: Shelf, filters: Filters, ids: tuple[str, ...]) -> Shown:
    """Return cells, each with a link to its place among all runs."""
    cells = there.cells(shelf, filters)
    chosen = cells.loc[cells["cell_id"].isin(ids), [*BEHIND, "cell_id"]]
    return linked(chosen.rename(columns=BEHIND))
