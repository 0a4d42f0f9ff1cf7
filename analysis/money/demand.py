"""From tokens a day to replicas, GPUs and money.

A replica is one server on ``basis.gpus_used`` GPUs; only whole ones can be rented, enough of them
for the busiest moment, and they are paid around the clock. So how busy they are follows from the
demand: a utilisation that somebody states is no part of it, or the same idle time would be paid
twice. A month is a twelfth of a year of 365 days.
"""

from dataclasses import dataclass
from math import ceil, isfinite
from typing import Any

from analysis.money.cost import Basis
from warehouse.errors import InvalidInput

SECONDS_PER_DAY = 86_400
DAYS_PER_YEAR = 365
HOURS_PER_YEAR = 24 * DAYS_PER_YEAR
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
        """The output tokens per second that must be served at the busiest moment."""
        return self.tokens_per_day / SECONDS_PER_DAY * self.peak_to_mean


@dataclass(frozen=True)
class Fleet:
    """What a demand takes: whole replicas, and what they cost around the clock (USD). ``busy``: the
    share of the paid time in which they serve (0-1), over an average day."""

    replicas: int
    gpus: int
    instances: int | None
    """Whole instances rented; None where single GPUs of an instance can be."""
    usd_per_hour: float
    usd_per_day: float
    usd_per_month: float
    usd_per_year: float
    busy: float

    def as_json(self) -> dict[str, Any]:
        """Return the fields as a dict for JSON."""
        return dict(vars(self))


def fleet(
    demand: Demand, tokens_per_second: float, basis: Basis, whole_instances: bool = False
) -> Fleet:
    """Return the replicas that serve ``demand`` at ``tokens_per_second`` (output) each.

    ``whole_instances``: GPUs can only be rented by the instance. Raises InvalidInput for a rate
    that is not above zero.
    """
    if not (isfinite(tokens_per_second) and tokens_per_second > 0):
        raise InvalidInput(f"A server that makes {tokens_per_second:g} tokens/s serves no demand.")
    # What three replicas serve must not take a fourth by a rounding error.
    replicas = max(ceil(demand.tokens_per_second / tokens_per_second - 1e-9), 1)
    gpus = replicas * basis.gpus_used
    instances = ceil(gpus / basis.gpus_per_instance) if whole_instances else None
    per_hour = (
        basis.usd_per_gpu_hour * gpus if instances is None else basis.usd_per_hour * instances
    )
    per_year = per_hour * HOURS_PER_YEAR
    return Fleet(
        replicas,
        gpus,
        instances,
        per_hour,
        per_hour * 24,
        per_year / MONTHS_PER_YEAR,
        per_year,
        demand.tokens_per_day / SECONDS_PER_DAY / (replicas * tokens_per_second),
    )
