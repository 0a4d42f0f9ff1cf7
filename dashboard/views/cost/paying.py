"""What a reader pays and has to serve, as widgets; and the price list as a table."""

import pandas as pd
import streamlit as st

from analysis.money.cost import MILLION
from analysis.money.demand import Demand
from analysis.money.paying import Paying
from analysis.money.prices import PRICES
from answers.cost.values import Terms
from dashboard.components import shown, table

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
