"""The arithmetic behind a cost, step by step, so that a reader can check it with a calculator."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from analysis.money.cost import SECONDS_PER_HOUR, Basis
from analysis.money.demand import SECONDS_PER_DAY, Demand
from analysis.money.worth import Costed, Worth
from analysis.tables import UNKNOWN, number


@dataclass(frozen=True)
class Step:
    """One line: what is calculated, how, and with which numbers in each arm."""

    what: str
    formula: str
    baseline: str
    speculative: str


def steps(row: Worth, demand: Demand | None = None) -> list[Step]:
    """From the price of an instance to what is saved; an arm without a load is unknown."""
    return [*_price(row), *_cost(row), *(_fleet(row, demand) if demand else ())]


def _price(row: Worth) -> Iterator[Step]:
    basis = row.basis
    gpus = f"{basis.usd_per_hour:,.2f} USD / {basis.gpus_per_instance}"
    yield _alike(
        "price of one GPU", "USD per hour / GPUs that it buys",
        f"{gpus} = {basis.usd_per_gpu_hour:,.4f} USD/h",
    )  # fmt: skip
    yield _alike(
        "GPUs charged", "price of one GPU × GPUs behind the throughput",
        f"{basis.usd_per_gpu_hour:,.4f} × {basis.gpus_used} = "
        f"{basis.usd_per_hour_charged:,.4f} USD/h",
    )  # fmt: skip


def _cost(row: Worth) -> Iterator[Step]:
    yield _each(row, "load", "where the arm runs", lambda a: f"concurrency {a.point.concurrency}")
    yield _each(
        row, "tokens an hour", "output tok/s × 3,600 s × utilisation",
        lambda a: f"{a.point.output:,.2f} × {SECONDS_PER_HOUR:,} × {row.basis.utilisation:.0%} = "
        f"{_hourly(a, row.basis):,.0f}",
    )  # fmt: skip
    yield _each(
        row, "cost of a million output tokens", "1,000,000 / tokens an hour × USD/h charged",
        lambda a: f"1,000,000 / {_hourly(a, row.basis):,.0f} × "
        f"{row.basis.usd_per_hour_charged:,.4f} = {a.usd_per_million:,.4f} USD",
    )  # fmt: skip
    yield _each(
        row, "the same over input; over all tokens",
        "spread over that kind alone: three views of one bill, never added",
        lambda a: f"{number(a.cost.usd_per_million_input_tokens, 4)} and "
        f"{number(a.cost.usd_per_million_total_tokens, 4)} USD",
    )  # fmt: skip
    yield Step("saved", "1 − cost with speculation / cost of the baseline", "", _saved(row))


def _fleet(row: Worth, demand: Demand) -> Iterator[Step]:
    yield _alike(
        "demand at the busiest moment", "tokens a day / 86,400 s × peak to mean",
        f"{demand.tokens_per_day:,.0f} / {SECONDS_PER_DAY:,} × {demand.peak_to_mean:g} = "
        f"{demand.tokens_per_second:,.1f} tok/s",
    )  # fmt: skip
    yield _each(
        row, "replicas", "demand / (output tok/s × utilisation), rounded up",
        lambda a: f"{demand.tokens_per_second:,.1f} / ({a.point.output:,.2f} × "
        f"{row.basis.utilisation:.0%}) → {_of(a, 'replicas')}",
    )  # fmt: skip
    yield _each(
        row, "GPUs", "replicas × GPUs charged",
        lambda a: f"{_of(a, 'replicas')} × {row.basis.gpus_used} = {_of(a, 'gpus')}",
    )  # fmt: skip
    yield _each(row, "fleet an hour", "GPUs × price of one GPU, or whole instances × their price",
                lambda a: f"{_of(a, 'usd_per_hour', 2)} USD")  # fmt: skip
    yield _each(row, "fleet a month", "a twelfth of the year",
                lambda a: f"{_of(a, 'usd_per_month')} USD")  # fmt: skip
    yield _each(row, "fleet a year", "an hour × 24 × 365",
                lambda a: f"{_of(a, 'usd_per_year')} USD")  # fmt: skip
    saved = number(row.usd_saved_per_year, 0)
    yield Step("saved a year", "fleet of the baseline − fleet with speculation", "", f"{saved} USD")


def _alike(what: str, formula: str, text: str) -> Step:
    return Step(what, formula, text, text)


def _each(row: Worth, what: str, formula: str, text: Callable[[Costed], str]) -> Step:
    told = [UNKNOWN if arm is None else text(arm) for arm in (row.baseline, row.speculative)]
    return Step(what, formula, *told)


def _hourly(arm: Costed, basis: Basis) -> float:
    """Tokens that the server makes in a paid hour."""
    return arm.point.output * SECONDS_PER_HOUR * basis.utilisation


def _of(arm: Costed, name: str, decimals: int = 0) -> str:
    return number(None if arm.fleet is None else getattr(arm.fleet, name), decimals)


def _saved(row: Worth) -> str:
    if row.saving is None or row.baseline is None or row.speculative is None:
        return UNKNOWN
    costs = [f"{arm.usd_per_million:,.4f}" for arm in (row.speculative, row.baseline)]
    return f"1 − {' / '.join(costs)} = {row.saving:.1%}"
