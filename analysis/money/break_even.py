"""When speculation has paid for its preparation."""

from dataclasses import dataclass
from math import isfinite

from analysis.money.cost import MILLION
from warehouse.errors import InvalidInput


@dataclass(frozen=True)
class BreakEven:
    """Tokens to serve and hours to run until an investment is paid back; None: never."""

    investment_usd: float
    tokens: float | None
    hours: float | None

    def as_json(self) -> dict[str, float | None]:
        """Return the fields as a dict for JSON."""
        return dict(vars(self))


def break_even(
    investment_usd: float, usd_saved_per_million: float, usd_saved_per_hour: float
) -> BreakEven:
    """Return investment / saving, in tokens and in hours.

    ``investment_usd``: what the benchmark and a draft's training cost. Raises InvalidInput for an
    investment that is below zero or not finite.
    """
    if not (isfinite(investment_usd) and investment_usd >= 0):
        raise InvalidInput(f"An investment cannot be {investment_usd:g} USD.")
    return BreakEven(
        investment_usd,
        None if not usd_saved_per_million > 0 else investment_usd / usd_saved_per_million * MILLION,
        None if not usd_saved_per_hour > 0 else investment_usd / usd_saved_per_hour,
    )
