"""The price list: dated, sourced, matched to a GPU without guessing."""

from urllib.parse import urlsplit

import pytest

from analysis.money.paying import PRICES, by_name, for_gpu, instances_at, own_prices
from warehouse.errors import InvalidInput, UnknownKey

OWN = {"name": "ours", "gpu": "H200", "usd_per_hour": "2.5", "date": "2026-11", "source": "lease"}


def test_every_price_has_a_date_and_a_source_and_a_name_of_its_own() -> None:
    assert len({price.name for price in PRICES}) == len(PRICES)
    for price in PRICES:
        assert price.date.startswith("2026")
        assert (
            "." in urlsplit(f"https://{price.source.split(', ')[-1]}").netloc or " " in price.source
        )


@pytest.mark.parametrize(
    ("gpu", "name"),
    [
        ("NVIDIA H200 141GB", "aws p5en.48xlarge"),
        ("H200", "aws p5en.48xlarge"),
        ("NVIDIA A100-SXM4-80GB", "aws p4de.24xlarge"),
        ("NVIDIA A100-SXM4-40GB", "aws p4d.24xlarge"),
        ("NVIDIA B200", "hyperstack b200"),
    ],
)
def test_a_gpu_takes_an_on_demand_price_of_its_own_kind(gpu: str, name: str) -> None:
    found = for_gpu(gpu)
    assert found is not None
    assert (found.name, found.kind) == (name, "on-demand")


@pytest.mark.parametrize("gpu", ["NVIDIA GH200 480GB", "CPU (2 cores)", "A100", "", None])
def test_a_price_is_never_guessed(gpu: str | None) -> None:
    assert for_gpu(gpu) is None


def test_only_what_can_be_rented_by_the_hour_is_taken_for_a_gpu() -> None:
    # Reserved and published prices of the same GPU stand first here.
    ordered = sorted(PRICES, key=lambda price: price.kind, reverse=True)

    assert ordered[0].kind == "reserved"
    assert (found := for_gpu("H200", ordered)) is not None
    assert found.kind == "on-demand"


def test_own_prices_come_first() -> None:
    mine = own_prices([OWN], "prices.yaml")

    assert for_gpu("NVIDIA H200", (*mine, *PRICES)) == mine[0]
    assert mine[0].usd_per_hour == 2.5
    assert by_name("OURS", mine).kind == "own"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"usd_per_hour": "cheap"}, r"prices.yaml: 0.usd_per_hour"),
        ({"usd_per_hour": -1}, r"0.usd_per_hour"),
        ({"date": "yesterday"}, r"0.date"),
        ({"colour": "red"}, r"0.colour"),
        ({"source": ""}, r"0.source"),
    ],
)
def test_a_wrong_price_is_named_by_its_row_and_field(change: dict[str, object], words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        own_prices([{**OWN, **change}], "prices.yaml")


@pytest.mark.parametrize("rows", [None, 3, "text", {"name": "x"}])
def test_a_price_list_that_is_no_list_is_refused(rows: object) -> None:
    with pytest.raises(InvalidInput, match="each price needs"):
        own_prices(rows, "prices.yaml")


def test_an_unknown_name_lists_those_there_are() -> None:
    with pytest.raises(UnknownKey, match="aws p5en.48xlarge"):
        by_name("nothing")


def test_a_price_becomes_a_basis_that_names_its_source() -> None:
    basis = by_name("published study").basis(gpus_used=1)

    assert basis.usd_per_hour_charged == pytest.approx(41.62 / 8)
    assert "published study, published, 2026" in basis.sentence


def test_a_printed_price_is_recognised_by_its_decimals() -> None:
    assert [p.name for p in instances_at(41.62, 2, PRICES)] == ["published study"]
    assert instances_at(5.0, 0, PRICES) == []
    assert {p.name for p in instances_at(42.0, 0, PRICES)} == {
        "published study", "aws p5en.48xlarge capacity block",
    }  # fmt: skip
