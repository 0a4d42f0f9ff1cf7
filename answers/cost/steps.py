"""The arithmetic behind a cost, step by step, so that a reader can check it with a calculator."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from analysis.money.cost import SECONDS_PER_DAY, SECONDS_PER_HOUR, Basis, Demand, Fleet
from answers.cost.values import Money, Side, Terms
from answers.cost.words import usd
from answers.wording import UNKNOWN, percent


@dataclass(frozen=True)
class Step:
    """One line: what is calculated, how, and with which numbers in each arm."""

    what: str
    formula: str
    baseline: str
    speculative: str


def steps(row: Money, terms: Terms) -> tuple[Step, ...]:
    """Return the steps from the price of an instance to what is saved; none without a price or a
    load."""
    if row.basis is None or row.load is None:
        return ()
    demand = terms.demand
    return (
        *_price(row.basis), *_cost(row, row.basis),
        *(() if demand is None else _fleet(row, row.basis, demand)),
    )  # fmt: skip


def _price(basis: Basis) -> Iterator[Step]:
    gpus = f"{basis.usd_per_hour:,.2f} USD / {basis.gpus_per_instance}"
    yield _alike(
        f"price of one {basis.unit}", f"USD per hour / {basis.unit}s that it buys",
        f"{gpus} = {basis.usd_per_gpu_hour:,.4f} USD/h",
    )  # fmt: skip
    yield _alike(
        f"{basis.unit}s charged",
        f"price of one {basis.unit} × {basis.unit}s behind the throughput",
        f"{basis.usd_per_gpu_hour:,.4f} × {basis.gpus_used} = "
        f"{basis.usd_per_hour_charged:,.4f} USD/h",
    )  # fmt: skip


def _cost(row: Money, basis: Basis) -> Iterator[Step]:
    yield _alike("load", "where both arms run", UNKNOWN if row.load is None else row.load.text)
    yield _each(
        row, "output tokens a second", "measured; with speculation: × what it is expected to gain",
        lambda side: _rate(side.output_throughput),
    )  # fmt: skip
    yield _each(
        row, "tokens a paid hour", "output tok/s × 3,600 s × utilisation",
        lambda side: f"{_rate(side.output_throughput)} × {SECONDS_PER_HOUR:,} × "
        f"{basis.utilisation:.0%} = {_hourly(side, basis)}",
    )  # fmt: skip
    yield _each(
        row, "cost of a million output tokens", "1,000,000 / tokens a paid hour × USD/h charged",
        lambda side: f"1,000,000 / {_hourly(side, basis)} × {basis.usd_per_hour_charged:,.4f} = "
        f"{_usd(side, 'output')} USD",
    )  # fmt: skip
    yield _each(
        row, "the same over input; over all tokens",
        "spread over that kind alone: three views of one bill, never added",
        lambda side: f"{_usd(side, 'input')} and {_usd(side, 'total')} USD",
    )  # fmt: skip
    told = UNKNOWN if row.saving is None else percent(row.saving.per_output_token)
    yield Step("saved", "1 − cost with speculation / cost of the baseline", "", told)


def _fleet(row: Money, basis: Basis, demand: Demand) -> Iterator[Step]:
    yield _alike(
        "demand at the busiest moment", "tokens a day / 86,400 s × peak to mean",
        f"{demand.tokens_per_day:,.0f} / {SECONDS_PER_DAY:,} × {demand.peak_to_mean:g} = "
        f"{demand.tokens_per_second:,.1f} tok/s",
    )  # fmt: skip
    yield _of_fleet(
        row, "replicas", "demand at the busiest moment / output tok/s, rounded up",
        lambda fleet: f"{fleet.replicas:,}",
    )  # fmt: skip
    yield _of_fleet(
        row, "busy", "mean demand / output tok/s of all replicas",
        lambda fleet: f"{fleet.busy:.0%}",
    )  # fmt: skip
    yield _of_fleet(
        row, f"{basis.unit}s", f"replicas × {basis.unit}s charged",
        lambda fleet: f"{fleet.replicas:,} × {basis.gpus_used} = {fleet.gpus:,}",
    )  # fmt: skip
    yield _of_fleet(
        row, "fleet an hour", f"{basis.unit}s × price of one, or whole instances × their price",
        lambda fleet: f"{fleet.usd_per_hour:,.2f} USD",
    )  # fmt: skip
    yield _of_fleet(
        row, "fleet a year", "an hour × 24 × 365", lambda fleet: f"{fleet.usd_per_year:,.0f} USD"
    )
    saved = row.usd_saved_per_year
    told = UNKNOWN if saved is None else f"{saved.value:,.0f} USD"
    yield Step("saved a year", "fleet of the baseline − fleet with speculation", "", told)


def _alike(what: str, formula: str, text: str) -> Step:
    return Step(what, formula, text, text)


def _each(row: Money, what: str, formula: str, text: Callable[[Side], str]) -> Step:
    sides = (row.baseline, row.speculative)
    return Step(what, formula, *(UNKNOWN if side is None else text(side) for side in sides))


def _of_fleet(row: Money, what: str, formula: str, text: Callable[[Fleet], str]) -> Step:
    return _each(
        row, what, formula, lambda side: UNKNOWN if side.fleet is None else text(side.fleet)
    )


def _rate(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:,.2f}"


def _hourly(side: Side, basis: Basis) -> str:
    """Return the tokens that a server makes in a paid hour."""
    rate = side.output_throughput
    return UNKNOWN if rate is None else f"{rate * SECONDS_PER_HOUR * basis.utilisation:,.0f}"


def _usd(side: Side, kind: str) -> str:
    if side.cost is None:
        return UNKNOWN
    costs = {
        "output": side.cost.usd_per_million_output_tokens,
        "input": side.cost.usd_per_million_input_tokens,
        "total": side.cost.usd_per_million_total_tokens,
    }
    return usd(costs[kind])
