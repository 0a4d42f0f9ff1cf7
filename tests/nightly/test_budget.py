"""What a night may take, in hours and in money."""

import pytest

from nightly.nights import budget, left_s
from warehouse.beside import NightLimits
from warehouse.errors import RunnerError


def test_the_tighter_of_both_limits_counts() -> None:
    # 8 USD at 4 USD an hour are two hours.
    assert left_s(NightLimits(hours=3, usd=8), 4.0, 0) == 2 * 3600
    assert left_s(NightLimits(hours=1, usd=8), 4.0, 0) == 3600


def test_what_earlier_calls_took_is_taken_off_and_nothing_is_owed() -> None:
    limits = NightLimits(hours=1)

    assert left_s(limits, None, 1000.0) == 2600
    assert left_s(limits, None, 5000.0) == 0


def test_without_limits_there_is_no_end() -> None:
    assert left_s(NightLimits(), 4.0, 1e9) is None


def test_nothing_is_a_limit_too() -> None:
    assert left_s(NightLimits(hours=0), None, 0.0) == 0


@pytest.mark.parametrize("price", [None, 0.0])
def test_a_limit_in_money_needs_a_price(price: float | None) -> None:
    with pytest.raises(RunnerError, match="price: {usd_per_hour"):
        left_s(NightLimits(usd=5), price, 0.0)


def test_a_budget_is_said_as_it_was_given() -> None:
    assert budget(NightLimits(hours=3, usd=20)) == "3 h or 20 USD"
