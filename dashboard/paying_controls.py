"""The widgets that say what GPUs cost; their keys are the same on every page that asks."""

import streamlit as st

from analysis.money.paying import Paying
from dashboard.components import shown, table
from dashboard.paying import CHOICES, OWN, paying, price_rows, share


def paying_controls() -> Paying:
    """Draw the widgets in one row and return what they say."""
    left, middle, right = st.columns([3, 2, 2])
    price = left.selectbox(
        "Price", CHOICES, key="price", bind="query-params",
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
    own = _own_price() if price == OWN else (None, 1)
    return paying(price, own, used and int(used), share(busy))


def _own_price() -> tuple[float | None, int]:
    """USD per hour, and how many GPUs it buys."""
    left, right = st.columns(2)
    usd = left.number_input(
        "USD per hour", min_value=0.01, value=None, key="usd_per_hour", bind="query-params",
        placeholder="until then the listed one", format="%g",
    )  # fmt: skip
    bought = right.number_input(
        "GPUs it buys", min_value=1, value=1, key="gpus_per_instance", bind="query-params"
    )
    return usd, int(bought)


def price_list() -> None:
    """The list of prices in an expander."""
    with st.expander("Price list, with dates and sources"):
        table(shown(price_rows()), "prices")
