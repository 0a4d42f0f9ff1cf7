"""Published costs and savings, recomputed from the throughput and the price beside them.

A row has one price and one or two arms: throughputs ``baseline_tok_s`` (or ``tok_s``) and
``speculative_tok_s``, and the costs printed for them. Prices and demands are taken as exact,
throughputs as printed.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

from analysis.money.cost import DAYS_PER_YEAR, MILLION, Basis, saving, usd_per_million
from analysis.money.paying import PRICES, Price, instances_at, is_gpu
from analysis.published.claims_file import Row, number, positive
from analysis.published.printed import Range, decimal, decimals, printed, propagated
from analysis.verdicts.finding import Figure, Finding, shown
from warehouse.errors import InvalidInput

#: Printed cost -> its unit, and USD per million tokens (and tokens a day) -> that cost.
_COSTS: dict[str, tuple[str, Callable[[float, float], float]]] = {
    "usd": ("USD", lambda usd, _: usd),
    "usd_per_1m": ("USD", lambda usd, _: usd),
    "usd_per_million_output_tokens": ("USD", lambda usd, _: usd),
    "usd_per_1k": ("USD", lambda usd, _: usd / 1000),
    "usd_per_day": ("USD", lambda usd, daily: usd * daily / MILLION),
}
_ARMS = {"baseline": ("baseline_", ""), "speculative": ("speculative_",)}


@dataclass(frozen=True)
class _Bill:
    """A row's price and throughputs, and what is known of the GPUs behind both."""

    row: Row
    price: float
    rates: Mapping[str, Range]
    tokens_per_day: float
    priced: int | None
    """GPUs that the price buys."""
    measured: int | None
    """GPUs behind the throughput."""

    def usd_per_million(self, arm: str) -> Range:
        """Return the arm's cost at the whole price, as a printed formula has it that knows no
        basis."""
        return propagated(lambda rate: usd_per_million(rate, Basis(self.price)), self.rates[arm])

    @property
    def mismatched(self) -> bool:
        """Whether the price buys another number of GPUs than the throughput is of."""
        return None not in (self.priced, self.measured) and self.priced != self.measured


def costs(
    rows: Sequence[Row], tables: Sequence[Row], prices: Sequence[Price] = PRICES
) -> list[Finding]:
    """Return every printed cost and saving. ``tables``: the improvement rows of the same file,
    which may say of how many GPUs a throughput is.

    A cost that follows from its row is flagged all the same where the price is that of another
    number of GPUs than the throughput: by the row (``gpus_per_instance``, ``gpus_used``, ``tp``),
    else by the price list and the tables' ``tp``. Savings in percent do not depend on the basis.
    """
    known = [_bill(row, tables, prices) for row in rows]
    return [finding for bill in known for finding in _findings(bill)]


def _bill(row: Row, tables: Sequence[Row], prices: Sequence[Price]) -> _Bill:
    rates = {
        arm: printed(positive(row, f"{prefix}tok_s"))
        for arm, prefixes in _ARMS.items()
        for prefix in prefixes
        if f"{prefix}tok_s" in row.fields
    }
    price = positive(row, "usd_per_hour")
    daily = positive(row, "tokens_per_day") if "tokens_per_day" in row.fields else 0
    return _Bill(
        row, float(decimal(price)), rates, float(decimal(daily)),
        _stated(row, "gpus_per_instance") or _listed(row, price, prices),
        _stated(row, "gpus_used") or _stated(row, "tp") or _gpus_of(row, tables),
    )  # fmt: skip


def _findings(bill: _Bill) -> Iterator[Finding]:
    for arm, prefixes in _ARMS.items():
        if arm in bill.rates:
            for prefix in prefixes:
                yield from _arm_findings(bill, arm, prefix)
    if len(bill.rates) == len(_ARMS):
        yield from _saving_findings(bill)


def _arm_findings(bill: _Bill, arm: str, prefix: str) -> Iterator[Finding]:
    per_million = bill.usd_per_million(arm)
    for name, (unit, convert) in _COSTS.items():
        if f"{prefix}{name}" in bill.row.fields and (bill.tokens_per_day or name != "usd_per_day"):
            follows = propagated(lambda usd, c=convert: c(usd, bill.tokens_per_day), per_million)
            yield _money(bill, f"{prefix}{name}", follows, unit)


def _saving_findings(bill: _Bill) -> Iterator[Finding]:
    old, new = (bill.usd_per_million(arm) for arm in _ARMS)
    share = propagated(lambda b, s: 100 * saving(1 / b, 1 / s), *bill.rates.values())
    saved = propagated(lambda one, other: one - other, old, new)
    if "saving_pct" in bill.row.fields:
        figure = _figure(bill, "saving_pct", share, "%")
        reason = "Follows from the throughputs, whatever the price and its basis."
        yield figure.finding(reason) if figure.agrees else figure.differs()
    if "saving_usd" in bill.row.fields:
        yield _money(bill, "saving_usd", saved, "USD")
    if "usd_saved_per_year" in bill.row.fields and bill.tokens_per_day:
        yearly = saved.scaled(bill.tokens_per_day / MILLION * DAYS_PER_YEAR)
        yield _money(bill, "usd_saved_per_year", yearly, "USD")


def _money(bill: _Bill, name: str, follows: Range, unit: str) -> Finding:
    """Judge a sum of money: it must follow from its row, and from a price of the same GPUs."""
    figure = _figure(bill, name, follows, unit)
    if not figure.agrees:
        return figure.differs()
    if not bill.mismatched or bill.priced is None or bill.measured is None:
        return figure.finding(_unsaid(bill))
    share = follows.value * bill.measured / bill.priced
    gpus = f"{bill.measured} GPU" + ("" if bill.measured == 1 else "s")
    return figure.finding(
        f"{shown(figure.printed.value, unit)} is on the instance basis: {bill.price:,.2f} USD/h "
        f"buys {bill.priced} GPUs, and the throughput is that of {gpus}. On the per-GPU basis "
        f"it is {share:,.3f} {unit}.",
        "basis",
    )


def _unsaid(bill: _Bill) -> str:
    if bill.priced is None or bill.measured is None:
        return "Follows from its own row, which does not say how many GPUs the price buys."
    return ""


def _figure(bill: _Bill, name: str, follows: Range, unit: str) -> Figure:
    claimed = printed(number(bill.row, name))
    return Figure(bill.row.section, _about(bill), name, claimed, follows, unit)


def _about(bill: _Bill) -> dict[str, str]:
    told = {name: text for name, text in bill.row.about.items() if name in ("dataset", "tp")}
    return {**told, "usd_per_hour": f"{bill.price:g}"}


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
