"""When speculation has paid for its preparation."""

import pytest

from analysis.money.cost import break_even
from warehouse.errors import InvalidInput


def test_an_investment_is_paid_back_by_tokens_and_by_hours() -> None:
    found = break_even(850.0, usd_saved_per_million=0.85, usd_saved_per_hour=2.0)

    assert found.tokens == pytest.approx(1e9)
    assert found.hours == 425.0


@pytest.mark.parametrize("saved", [0.0, -1.0, float("nan")])
def test_what_saves_nothing_never_pays(saved: float) -> None:
    found = break_even(100.0, saved, saved)
    assert (found.tokens, found.hours) == (None, None)


@pytest.mark.parametrize("spent", [-1.0, float("nan"), float("inf")])
def test_an_impossible_investment_is_refused(spent: float) -> None:
    with pytest.raises(InvalidInput, match="investment"):
        break_even(spent, 1.0, 1.0)
