"""From tokens a day to replicas, GPUs and money.

A replica is one server on ``basis.gpus_used`` GPUs; only whole ones can be rented. A month is a
twelfth of a year of 365 days.
"""

from dataclasses import dataclass
from math import ceil, isfinite
from typing import Any

from analysis.money.cost import MILLION, Basis, usd_per_million
from warehouse.errors import InvalidInput

SECONDS_PER_DAY = 86_400
DAYS_PER_YEAR = 365
MONTHS_PER_YEAR = 12


@dataclass(frozen=True)
class Demand:
    """Output tokens asked for on an average day; ``peak_to_mean``: the busiest moment over the
    mean, for which the replicas must suffice. Raises InvalidInput for what cannot be."""

    tokens_per_day: float
    peak_to_mean: float = 1.0

    def __post_init__(self) -> None:
        if not (isfinite(self.tokens_per_day) and self.tokens_per_day > 0):
            raise InvalidInput(f"A demand must be above zero: {self.tokens_per_day:g} is not.")
        if not (isfinite(self.peak_to_mean) and self.peak_to_mean >= 1):
            raise InvalidInput(f"The peak cannot be below the mean: {self.peak_to_mean:g} < 1.")

    @property
    def tokens_per_second(self) -> float:
        """What must be served at the busiest moment."""
        return self.tokens_per_day / SECONDS_PER_DAY * self.peak_to_mean


@dataclass(frozen=True)
class Fleet:
    """What a demand takes: whole replicas, and what they cost around the clock (USD).

    ``usd_per_day_if_billed_by_token`` is the same demand at the cost per million tokens, as if
    only busy time were paid: the lower bound that rounding up to whole replicas never reaches.
    """

    replicas: int
    gpus: int
    instances: int | None
    """Whole instances rented; None where single GPUs of an instance can be."""
    usd_per_hour: float
    usd_per_day: float
    usd_per_month: float
    usd_per_year: float
    usd_per_day_if_billed_by_token: float

    def as_json(self) -> dict[str, Any]:
        """Plain values."""
        return dict(vars(self))


def fleet(
    demand: Demand, tokens_per_second: float, basis: Basis, whole_instances: bool = False
) -> Fleet:
    """The replicas that serve ``demand`` at ``tokens_per_second`` (output) each.

    ``whole_instances``: GPUs can only be rented by the instance. Raises InvalidInput for a rate
    that is not above zero.
    """
    per_million = usd_per_million(tokens_per_second, basis)
    # What three replicas serve must not take a fourth by a rounding error.
    replicas = ceil(demand.tokens_per_second / (tokens_per_second * basis.utilisation) - 1e-9)
    gpus = max(replicas, 1) * basis.gpus_used
    instances = ceil(gpus / basis.gpus_per_instance) if whole_instances else None
    per_hour = (
        basis.usd_per_gpu_hour * gpus if instances is None else basis.usd_per_hour * instances
    )
    per_year = per_hour * 24 * DAYS_PER_YEAR
    return Fleet(
        max(replicas, 1),
        gpus,
        instances,
        per_hour,
        per_hour * 24,
        per_year / MONTHS_PER_YEAR,
        per_year,
        demand.tokens_per_day / MILLION * per_million,
    )
