"""What is folded under the answer: latency targets, the arithmetic, every number, prices."""

from dataclasses import dataclass, replace

import pandas as pd
import streamlit as st
from streamlit.elements.lib.mutable_expander_container import ExpanderContainer

from analysis.money.paying import Paying
from answers.cost import tables
from answers.cost.bounds import offered
from answers.cost.capacity import Capacity, Carried, capacity
from answers.cost.contract import capacity_json, money_json, trade_json
from answers.cost.steps import steps
from answers.cost.trade import trade
from answers.cost.values import Costs, Money, Terms
from answers.decide.values import Question
from dashboard import offered as there
from dashboard.cells import BEHIND, linked
from dashboard.charts.pareto import slo_strips
from dashboard.charts.spec import Drawing, specification
from dashboard.components import Shown, plain, shown, table
from dashboard.download_menu import charts_menu, rows_menu
from dashboard.shelf import Shelf, ask, cached
from dashboard.views.cost.paying import price_list
from warehouse.filters import Filters

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
    question: Question
    terms: Terms


@dataclass(frozen=True)
class _Reached:
    """What is asked of a service level: of which cells, which level, at which price, and whether
    single requests are counted."""

    filters: Filters
    slo: str
    paying: Paying
    counted: bool = False


def below(shelf: Shelf, scope: Scope, costs: Costs | None = None, row: Money | None = None) -> None:
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


def _arithmetic(row: Money, counted: Terms) -> None:
    lines = steps(row, counted)
    if not lines:
        st.caption("There is nothing to calculate without a price and a load.")
        return
    names = {"what": "step", "formula": "how", "speculative": "with speculation"}
    table(shown(pd.DataFrame([vars(line) for line in lines]).rename(columns=names)), "steps")


def _numbers(costs: Costs) -> None:
    text(tables.costs(costs.rows), "decisions")
    if costs.terms.demand is not None:
        text(tables.demands(costs.rows), "decisions")
    more = tables.others(costs.rows)
    if more[1]:
        text(more, "decisions")
    rows_menu("cost", lambda: pd.json_normalize([_file_row(row) for row in costs.rows]))


def _file_row(row: Money) -> dict[str, object]:
    whole = money_json(row)
    return {name: value for name, value in whole.items() if name not in ("loads", "missing")}


def _points(shelf: Shelf, scope: Scope) -> None:
    found = ask(shelf, trade, scope.filters)
    text(tables.trade_points(found.points), "points")
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


def _capacity(shelf: Shelf, asked: _Reached) -> Capacity:
    return ask(shelf, capacity, asked.filters, asked.slo, asked.paying, asked.counted)


def _reached(shelf: Shelf, asked: _Reached, found: Capacity) -> None:
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
            text(tables.arms(found), "arms")
    if loads.open:
        with loads:
            text(tables.loads(found), "loads")
            rows_menu("slo-loads", lambda: _file_rows(found))
    for sentence in dict.fromkeys(arm.unpriced for arm in found.arms if arm.unpriced):
        st.caption(plain(sentence))


@cached
def _drawn(shelf: Shelf, asked: _Reached) -> tuple[dict[str, Drawing], int]:
    """Return the charts of the first settings, and how many settings there are."""
    settings: dict[str, list[Carried]] = {}
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


def _file_rows(found: Capacity) -> pd.DataFrame:
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


def text(rows: tables.Table, what: str) -> None:
    """Draw rows of text as a table."""
    header, lines = rows
    table(shown(pd.DataFrame(lines, columns=header)), what)


def cells_behind(shelf: Shelf, filters: Filters, ids: tuple[str, ...]) -> Shown:
    """Return cells, each with a link to its place among all runs."""
    cells = there.cells(shelf, filters)
    chosen = cells.loc[cells["cell_id"].isin(ids), [*BEHIND, "cell_id"]]
    return linked(chosen.rename(columns=BEHIND))
