"""Demand to whole replicas and money."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.money.cost import Basis, Demand, fleet
from warehouse.errors import InvalidInput


def test_ten_million_tokens_a_day_at_the_published_rates() -> None:
    old = fleet(Demand(10e6), 100.0, Basis(5.0))
    new = fleet(Demand(10e6), 250.0, Basis(5.0))

    # 115.7 tokens/s take two servers of 100, one of 250.
    assert (old.replicas, new.replicas) == (2, 1)
    assert old.usd_per_day == 240.0
    assert old.usd_per_year == 5 * 2 * 24 * 365
    assert old.usd_per_month == pytest.approx(old.usd_per_year / 12)
    assert (old.busy, new.busy) == (pytest.approx(0.5787, abs=1e-4), pytest.approx(0.463, abs=1e-3))


def test_how_busy_a_server_is_said_to_be_takes_no_more_gpus() -> None:
    demand = Demand(86_400 * 900, peak_to_mean=2)

    always, half = (fleet(demand, 100.0, Basis(1.0, utilisation=busy)) for busy in (1.0, 0.5))

    # 1,800 tokens/s at the peak; 18 servers of 100 are half idle already.
    assert (always.gpus, half.gpus) == (18, 18)
    assert half.busy == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("daily", "rate", "basis", "peak", "replicas"),
    [
        (8_640_000, 100.0, Basis(1.0), 1.0, 1),
        (8_640_001, 100.0, Basis(1.0), 1.0, 2),
        (8_640_000, 100.0, Basis(1.0), 3.0, 3),
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


@given(st.floats(1, 1e12), st.floats(0.1, 1e5), st.floats(1, 10))
def test_the_fleet_suffices_and_one_replica_less_does_not(
    daily: float, rate: float, peak: float
) -> None:
    demand = Demand(daily, peak)
    found = fleet(demand, rate, Basis(1.0))

    assert found.replicas * rate >= demand.tokens_per_second * (1 - 1e-6)
    assert (found.replicas - 1) * rate < demand.tokens_per_second
    assert 0 < found.busy <= (1 + 1e-6) / peak


@pytest.mark.parametrize("rate", [0.0, -1.0, float("nan"), float("inf")])
def test_a_server_that_makes_no_tokens_serves_no_demand(rate: float) -> None:
    with pytest.raises(InvalidInput, match="serves no demand"):
        fleet(Demand(5.0), rate, Basis(1.0))
