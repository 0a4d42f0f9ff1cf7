"""Demand to whole replicas and money."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.money.cost import Basis
from analysis.money.demand import Demand, fleet
from warehouse.errors import InvalidInput


def test_ten_million_tokens_a_day_at_the_published_rates() -> None:
    old = fleet(Demand(10e6), 100.0, Basis(5.0))
    new = fleet(Demand(10e6), 250.0, Basis(5.0))

    # 115.7 tokens/s take two servers of 100, one of 250.
    assert (old.replicas, new.replicas) == (2, 1)
    assert old.usd_per_day == 240.0
    assert old.usd_per_year == 5 * 2 * 24 * 365
    assert old.usd_per_month == pytest.approx(old.usd_per_year / 12)
    assert old.usd_per_day_if_billed_by_token == pytest.approx(138.89, abs=0.01)
    saved = old.usd_per_day_if_billed_by_token - new.usd_per_day_if_billed_by_token
    assert saved * 365 == pytest.approx(30_417, abs=1)


@pytest.mark.parametrize(
    ("daily", "rate", "basis", "peak", "replicas"),
    [
        (8_640_000, 100.0, Basis(1.0), 1.0, 1),
        (8_640_001, 100.0, Basis(1.0), 1.0, 2),
        (8_640_000, 100.0, Basis(1.0), 3.0, 3),
        (8_640_000, 100.0, Basis(1.0, utilisation=0.4), 1.0, 3),
        # Three replicas' worth is 3.0000000000000004 of them in floating point.
        (0.1 * 3 * 86_400, 0.1, Basis(1.0), 1.0, 3),
        (1, 1e6, Basis(1.0), 1.0, 1),
    ],
)
def test_only_whole_replicas_can_be_rented(
    daily: float, rate: float, basis: Basis, peak: float, replicas: int
) -> None:
    assert fleet(Demand(daily, peak), rate, basis).replicas == replicas


def test_whole_instances_round_up_once_more() -> None:
    basis = Basis(41.62, gpus_per_instance=8, gpus_used=2)
    demand = Demand(86_400 * 500)

    shared, whole = (fleet(demand, 100.0, basis, whole) for whole in (False, True))

    assert (shared.gpus, shared.instances) == (10, None)
    assert shared.usd_per_hour == pytest.approx(10 * 41.62 / 8)
    assert (whole.gpus, whole.instances) == (10, 2)
    assert whole.usd_per_hour == pytest.approx(2 * 41.62)


@pytest.mark.parametrize(
    ("daily", "peak", "words"),
    [(0, 1, "above zero"), (float("inf"), 1, "above zero"), (5, 0.5, "below the mean"),
     (5, float("nan"), "below the mean")],
)  # fmt: skip
def test_a_demand_that_cannot_be_is_refused(daily: float, peak: float, words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        Demand(daily, peak)


@given(st.floats(1, 1e12), st.floats(0.1, 1e5), st.floats(0.05, 1.0))
def test_the_fleet_suffices_and_one_replica_less_does_not(
    daily: float, rate: float, busy: float
) -> None:
    demand = Demand(daily)
    found = fleet(demand, rate, Basis(1.0, utilisation=busy))
    capacity = rate * busy

    assert found.replicas * capacity >= demand.tokens_per_second * (1 - 1e-6)
    assert (found.replicas - 1) * capacity < demand.tokens_per_second
    assert found.usd_per_day >= found.usd_per_day_if_billed_by_token * busy * (1 - 1e-6)
