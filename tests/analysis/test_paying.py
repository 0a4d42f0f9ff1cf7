"""One answer to what a GPU costs: what was said, what was recorded, or a sentence."""

from typing import Any

import pytest

from analysis.money.cost import Basis
from analysis.money.paying import (
    Hardware,
    Paying,
    Refusal,
    basis_of,
    basis_or_raise,
    hardware_of,
    own_prices,
)
from warehouse.errors import InvalidInput, UnknownKey

NAN = float("nan")
H200 = Hardware("NVIDIA H200 141GB", 2, 4)


@pytest.mark.parametrize(
    ("stated", "row", "bought", "charged"),
    [
        (3, {"gpu_count": 2, "tensor_parallel_size": 4}, 8, 3),
        (None, {"gpu_count": 2.0, "tensor_parallel_size": 4}, 8, 2),
        (None, {"gpu_count": NAN, "tensor_parallel_size": 4}, 8, 4),
        (None, {"gpu_count": None, "gpu": NAN}, 1, 1),
    ],
)
def test_gpus_are_charged_as_stated_else_as_recorded_else_as_must_be(
    stated: int | None, row: dict[str, Any], bought: int, charged: int
) -> None:
    found = basis_of(Paying(10.0, bought, stated, 0.5), hardware_of(row))

    assert found == Basis(10.0, bought, charged, 0.5)


def test_a_listed_price_is_that_of_the_gpu_and_says_where_it_stands() -> None:
    found = basis_or_raise(Paying(), H200)

    assert (found.usd_per_hour, found.gpus_used) == (63.296, 2)
    assert "aws p5en.48xlarge, on-demand, 2026-08-06" in found.source


def test_a_named_price_and_own_prices_win_over_that_of_the_gpu() -> None:
    row = {"name": "x", "gpu": "H200", "usd_per_hour": 2, "date": "2026", "source": "lease"}
    mine = own_prices([row], "prices.yaml")

    assert basis_or_raise(Paying(prices=mine), H200).usd_per_hour == 2
    assert basis_or_raise(Paying(price="published study"), H200).usd_per_hour == 41.62


@pytest.mark.parametrize(
    ("paying", "on", "words"),
    [
        (Paying(), Hardware("B17"), "No price is known for B17; give --usd-per-hour"),
        (Paying(), Hardware(), "No price is known for an unknown GPU; give --usd-per-hour"),
        (Paying(), Hardware("H200"), "buys 8 GPUs, but how many of them the throughput is of"),
        (Paying(9.0, 4), Hardware("B17"), "give --gpus-used"),
    ],
)
def test_what_is_unknown_is_refused_in_a_sentence(paying: Paying, on: Hardware, words: str) -> None:
    found = basis_of(paying, on)

    assert isinstance(found, Refusal)
    assert words in found.sentence
    with pytest.raises(InvalidInput, match="give --"):
        basis_or_raise(paying, on)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"usd_per_hour": 0.0}, "above zero"),
        ({"usd_per_hour": NAN}, "above zero"),
        ({"usd_per_hour": 1.0, "utilisation": 60.0}, "0.6 for 60"),
        ({"usd_per_hour": 1.0, "utilisation": NAN}, "share above 0"),
        ({"usd_per_hour": 1.0, "gpus_used": 0}, "at least 1"),
        ({"usd_per_hour": 1.0, "price": "published study"}, "one of them"),
        ({"gpus_per_instance": 8}, "give both"),
    ],
)
def test_what_cannot_be_is_refused(values: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        basis_of(Paying(**values), H200)


def test_a_price_that_is_not_listed_names_those_that_are() -> None:
    with pytest.raises(UnknownKey, match="published study"):
        basis_of(Paying(price="x"), H200)
