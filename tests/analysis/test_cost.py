"""What tokens cost: the published figures on both bases, and what has no price."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.money.cost import Basis, cost, saving, usd_per_million
from warehouse.errors import InvalidInput

INSTANCE = Basis(41.62, gpus_per_instance=8, gpus_used=8)
ONE_GPU = Basis(41.62, gpus_per_instance=8, gpus_used=1)
positive = st.floats(0.01, 1e6)


@pytest.mark.parametrize(
    ("rate", "basis", "usd"),
    [
        (2620.89, INSTANCE, 4.4111),
        (3250.07, INSTANCE, 3.5572),
        (2620.89, ONE_GPU, 0.5514),
        (3250.07, ONE_GPU, 0.44465),
        (100.0, Basis(5.0), 13.8889),
        # Busy half the time, a token costs twice as much.
        (100.0, Basis(5.0, utilisation=0.5), 27.7778),
        # 1 million tokens in 1000 s at 3.6 USD/h.
        (1000.0, Basis(3.6), 1.0),
    ],
)
def test_a_million_tokens_cost_their_time_times_the_price(
    rate: float, basis: Basis, usd: float
) -> None:
    assert usd_per_million(rate, basis) == pytest.approx(usd, rel=1e-4)


@pytest.mark.parametrize(
    ("basis", "name", "charged"),
    [
        (INSTANCE, "per instance", 41.62),
        (ONE_GPU, "per GPU", 5.2025),
        (Basis(3.99), "per GPU", 3.99),
        (Basis(41.62, 8, 2), "2 GPUs at the price of 8", 10.405),
        # A server on 16 GPUs pays for two instances of 8.
        (Basis(41.62, 8, 16), "16 GPUs at the price of 8", 83.24),
    ],
)
def test_every_basis_says_which_it_is(basis: Basis, name: str, charged: float) -> None:
    assert basis.name == name
    assert basis.usd_per_hour_charged == pytest.approx(charged)
    assert f"{basis.gpus_used} charged: {charged:,.2f} USD/h" in basis.sentence
    assert basis.as_json()["sentence"] == basis.sentence


def test_output_input_and_total_are_three_views_of_one_bill() -> None:
    found = cost(1000.0, 5000.0, Basis(3.6))

    assert found.usd_per_million_output_tokens == pytest.approx(1.0)
    assert found.usd_per_million_input_tokens == pytest.approx(0.25)
    assert found.usd_per_million_total_tokens == pytest.approx(0.2)


def test_an_unknown_rate_has_an_unknown_cost() -> None:
    assert vars(cost(1000.0, None, Basis(3.6))) == {
        "usd_per_million_output_tokens": pytest.approx(1.0),
        "usd_per_million_input_tokens": None,
        "usd_per_million_total_tokens": None,
    }
    assert cost(1000.0, 1000.0, Basis(3.6)).usd_per_million_input_tokens is None


def test_the_published_saving_is_the_same_on_either_basis() -> None:
    for basis in (INSTANCE, ONE_GPU):
        old, new = usd_per_million(2620.89, basis), usd_per_million(3250.07, basis)
        assert saving(old, new) == pytest.approx(0.19359, abs=1e-5)


@pytest.mark.parametrize("usd", [0.0, -1.0, float("nan"), float("inf")])
def test_a_price_that_cannot_be_is_refused(usd: float) -> None:
    with pytest.raises(InvalidInput, match="must be above zero"):
        Basis(usd)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"gpus_used": 0}, "at least 1"),
        ({"gpus_per_instance": 0}, "at least 1"),
        ({"utilisation": 0.0}, "write 0.6 for 60 %"),
        ({"utilisation": 60.0}, "write 0.6 for 60 %"),
    ],
)
def test_a_basis_that_cannot_be_is_refused(given: dict[str, float], words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        Basis(5.0, **given)


@pytest.mark.parametrize("rate", [0.0, -3.0, float("nan"), float("inf")])
def test_a_rate_that_is_not_above_zero_has_no_price(rate: float) -> None:
    with pytest.raises(InvalidInput, match="rate must be above 0"):
        usd_per_million(rate, ONE_GPU)


def test_a_total_below_the_output_is_refused() -> None:
    with pytest.raises(InvalidInput, match="counts output too"):
        cost(1000.0, 900.0, ONE_GPU)


@given(positive, positive, st.integers(1, 64), st.floats(0.01, 1.0))
def test_the_saving_does_not_depend_on_the_basis(
    old: float, new: float, gpus: int, busy: float
) -> None:
    one, other = Basis(7.0), Basis(7.0 * 3, gpus, gpus, busy)
    first, second = (
        saving(usd_per_million(old, basis), usd_per_million(new, basis)) for basis in (one, other)
    )
    assert first == pytest.approx(second, rel=1e-9, abs=1e-9)
