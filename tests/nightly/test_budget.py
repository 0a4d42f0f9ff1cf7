"""What a night may take, in hours and in money."""

import pytest

from nightly.nights import Budget
from warehouse.beside import NightLimits
from warehouse.errors import RunnerError


def test_the_tighter_of_both_limits_counts() -> None:
    # 8 USD at 4 USD an hour are two hours.
    assert Budget(NightLimits(hours=3, usd=8), 4.0).left_s(0) == 2 * 3600
    assert Budget(NightLimits(hours=1, usd=8), 4.0).left_s(0) == 3600


def test_what_earlier_calls_took_is_taken_off_and_nothing_is_owed() -> None:
    budget = Budget(NightLimits(hours=1), None)

    assert budget.left_s(1000.0) == 2600
    assert budget.left_s(5000.0) == 0


def test_without_limits_there_is_no_end() -> None:
    assert Budget(NightLimits(), 4.0).left_s(1e9) is None


def test_nothing_is_a_limit_too() -> None:
    assert Budget(NightLimits(hours=0), None).left_s(0.0) == 0


@pytest.mark.parametrize("price", [None, 0.0])
def test_a_limit_in_money_needs_a_price(price: float | None) -> None:
    with pytest.raises(RunnerError, match="price: {usd_per_hour"):
        Budget(NightLimits(usd=5), price)


def test_a_budget_is_said_as_it_was_given() -> None:
    assert str(Budget(NightLimits(hours=3, usd=20), 4.0)) == "3 h or 20 USD"
