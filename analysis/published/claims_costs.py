"""Published costs and savings, recomputed from the throughput and the price beside them.

A row has one price and one or two arms: throughputs ``baseline_tok_s`` (or ``tok_s``) and
``speculative_tok_s``, and the costs printed for them. Prices and demands are taken as exact,
throughputs as printed.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import product

from analysis.money.cost import DAYS_PER_YEAR, MILLION, Basis, saving, usd_per_million
from analysis.money.paying import PRICES, Price, instances_at, is_gpu
from analysis.published.claims_file import Row, number, positive
from analysis.published.printed import PrintedRange, decimal, decimals, printed, propagated
from analysis.verdicts.finding import Figure, Finding, shown
from warehouse.errors import InvalidInput

#: Printed cost -> USD per million tokens (and tokens a day) -> that cost in USD.
_COSTS: dict[str, Callable[[float, float], float]] = {
    "usd": lambda usd, _: usd,
    "usd_per_1m": lambda usd, _: usd,
    "usd_per_million_output_tokens": lambda usd, _: usd,
    "usd_per_1k": lambda usd, _: usd / 1000,
    "usd_per_day": lambda usd, daily: usd * daily / MILLION,
}
_ARMS = {"baseline": ("baseline_", ""), "speculative": ("speculative_",)}


@dataclass(frozen=True)
class _Bill:
    """A row's price and throughputs, and what is known of the GPUs behind both."""

    row: Row
    price: float
    rates: Mapping[str, PrintedRange]
    tokens_per_day: float
    priced: int | None
    """GPUs that the price buys."""
    measured: int | None
    """GPUs behind the throughput."""

    def usd_per_million(self, rate: PrintedRange) -> PrintedRange:
        """Return an arm's cost at the whole price, as a printed formula has it that knows no
        basis."""
        return propagated(lambda tok_s: usd_per_million(tok_s, Basis(self.price)), rate)

    def figure(self, name: str, follows: PrintedRange, unit: str) -> Figure:
        """Return a printed number of the row, with what follows for it."""
        about = {x: text for x, text in self.row.about.items() if x in ("dataset", "tp")}
        about["usd_per_hour"] = f"{self.price:g}"
        claimed = printed(number(self.row, name))
        return Figure(self.row.section, about, name, claimed, follows, unit)


def costs(
    rows: Sequence[Row], tables: Sequence[Row], prices: Sequence[Price] = PRICES
) -> list[Finding]:
    """Return every printed cost and saving. ``tables``: the improvement rows of the same file,
    which may say of how many GPUs a throughput is.

    A cost that follows from its row is flagged all the same where the price is that of another
    number of GPUs than the throughput: by the row (``gpus_per_instance``, ``gpus_used``, ``tp``),
    else by the price list and the tables' ``tp``. Savings in percent do not depend on the basis.
    """
    bills = []
    for row in rows:
        rates = {
            arm: printed(positive(row, f"{prefix}tok_s"))
            for arm, prefixes in _ARMS.items()
            for prefix in prefixes
            if f"{prefix}tok_s" in row.fields
        }
        price = positive(row, "usd_per_hour")
        daily = positive(row, "tokens_per_day") if "tokens_per_day" in row.fields else 0
        bills.append(
            _Bill(
                row, float(decimal(price)), rates, float(decimal(daily)),
                _stated(row, "gpus_per_instance") or _listed(row, price, prices),
                _stated(row, "gpus_used") or _stated(row, "tp") or _gpus_of(row, tables),
            )
        )  # fmt: skip
    return [finding for bill in bills for finding in (*_costs(bill), *_savings(bill))]


def _costs(bill: _Bill) -> Iterator[Finding]:
    for arm, rate in bill.rates.items():
        for prefix, (cost, convert) in product(_ARMS[arm], _COSTS.items()):
            name = f"{prefix}{cost}"
            if name in bill.row.fields and (bill.tokens_per_day or cost != "usd_per_day"):
                follows = propagated(
                    lambda usd, c=convert: c(usd, bill.tokens_per_day), bill.usd_per_million(rate)
                )
                yield _money(bill, name, follows, "USD")


def _savings(bill: _Bill) -> Iterator[Finding]:
    if len(bill.rates) < len(_ARMS):
        return
    old, new = (bill.usd_per_million(bill.rates[arm]) for arm in _ARMS)
    saved = propagated(lambda one, other: one - other, old, new)
    if "saving_pct" in bill.row.fields:
        share = propagated(lambda b, s: 100 * saving(1 / b, 1 / s), *bill.rates.values())
        figure = bill.figure("saving_pct", share, "%")
        reason = "Follows from the throughputs, whatever the price and its basis."
        yield figure.finding(reason) if figure.agrees else figure.differs()
    if "saving_usd" in bill.row.fields:
        yield _money(bill, "saving_usd", saved, "USD")
    if "usd_saved_per_year" in bill.row.fields and bill.tokens_per_day:
        yearly = saved.scaled(bill.tokens_per_day / MILLION * DAYS_PER_YEAR)
        yield _money(bill, "usd_saved_per_year", yearly, "USD")


def _money(bill: _Bill, name: str, follows: PrintedRange, unit: str) -> Finding:
    """Judge a sum of money: it must follow from its row, and from a price of the same GPUs."""
    figure = bill.figure(name, follows, unit)
    if not figure.agrees:
        return figure.differs()
    if bill.priced is None or bill.measured is None:
        return figure.finding(
            "Follows from its own row, which does not say how many GPUs the price buys."
        )
    if bill.priced == bill.measured:
        return figure.finding()
    share = follows.value * bill.measured / bill.priced
    gpus = f"{bill.measured} GPU" + ("" if bill.measured == 1 else "s")
    return figure.finding(
        f"{shown(figure.printed.value, unit)} is on the instance basis: {bill.price:,.2f} USD/h "
        f"buys {bill.priced} GPUs, and the throughput is that of {gpus}. On the per-GPU basis "
        f"it is {share:,.3f} {unit}.",
        "basis",
    )


def _stated(row: Row, name: str) -> int | None:
    if name not in row.fields:
        return None
    value = decimal(positive(row, name))
    if value != int(value):
        raise InvalidInput(f"{row.place}: {name} counts GPUs, and {value} is no whole number.")
    return int(value)


def _listed(row: Row, price: Decimal, prices: Sequence[Price]) -> int | None:
    """Return how many GPUs a price buys by the price list: that of its name (``price``), else that
    of the same sum, among those of the row's ``gpu`` where it names one. None for a round sum,
    which may be anybody's, and where the list says different numbers."""
    named = str(row.fields.get("price", "")).casefold()
    digits = decimals(price)
    found = [p for p in prices if p.name.casefold() == named]
    found = found or (instances_at(float(decimal(price)), digits, prices) if digits else [])
    gpu = row.fields.get("gpu")
    counts = {p.gpus_per_instance for p in found if gpu is None or is_gpu(str(gpu), p)}
    return counts.pop() if len(counts) == 1 else None


def _gpus_of(row: Row, tables: Sequence[Row]) -> int | None:
    """Return the ``tp`` of a table row that prints the same throughputs; None without one."""
    names = [f"{prefix}tok_s" for prefixes in _ARMS.values() for prefix in prefixes]
    rates = {row.fields[name] for name in names if name in row.fields}
    for table in tables:
        values = {table.fields.get("baseline"), table.fields.get("speculative")}
        if rates and rates <= values and "tp" in table.fields:
            return _stated(table, "tp")
    return None
