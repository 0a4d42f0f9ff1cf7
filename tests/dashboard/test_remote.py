"""``draftboard.open("https://…")`` against a real server: the answers of ``draftboard.open(path)``."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import draftboard
from analysis.money.paying import Paying, Price
from answers.cost.values import Terms
from tests.api_server import api_served
from warehouse.errors import InvalidInput

pytestmark = pytest.mark.slow

ASKED = ("runs", "compare", "decide", "cost")


@pytest.fixture(scope="module")
def address(filled: Path) -> Iterator[str]:
    """The API of the filled warehouse, without its gate."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("DRAFTBOARD_WAREHOUSE", str(filled))
        with api_served() as at:
            yield at


@pytest.mark.parametrize("name", ASKED)
def test_what_a_server_answers_is_what_the_files_answer(
    filled: Path, address: str, name: str
) -> None:
    words = {} if name == "runs" else {"dataset": "code"}

    here = getattr(draftboard.open(filled), name)(**words)
    there = getattr(draftboard.open(address), name)(**words)
    assert there.value == here.value
    assert there.to_json() == here.to_json()
    assert there.to_frame().equals(here.to_frame())


def test_words_and_terms_reach_the_server(filled: Path, address: str) -> None:
    terms = Terms(Paying(usd_per_hour=2.5, utilisation=0.5), investment_usd=1000)
    asked = {"mix": {"code": 0.7, "structured": 0.3}, "load": 4.0, "nowhere_worse": 0.1}

    here = draftboard.open(filled).cost(terms, **asked).value
    assert draftboard.open(address).cost(terms, **asked).value == here
    assert here.terms == terms


def test_what_cannot_be_asked_is_the_server_s_own_sentence(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(InvalidInput, match="'fast' is no bound"):
        draftboard.open(address).decide(slo="fast")
    with pytest.raises(InvalidInput, match="modle: Extra inputs"):
        draftboard.open(address).runs(modle="x")  # type: ignore[call-arg]
    with pytest.raises(InvalidInput, match="does not answer"):
        draftboard.open("http://localhost:9").runs()
    with pytest.raises(InvalidInput, match="is a Draftboard there"):
        draftboard.open(f"{address}/elsewhere/x/..").runs()
    own = Price(
        name="mine", usd_per_hour=1, gpus_per_instance=1, gpu="H200", kind="own",
        date="2026-11-01", source="a letter",
    )  # fmt: skip
    with pytest.raises(InvalidInput, match="price list of your own"):
        draftboard.open(address).cost(Terms(Paying(prices=(own,))))
    monkeypatch.setenv("DRAFTBOARD_TOKEN", "draftboard_secret")
    with pytest.raises(InvalidInput, match="not https") as error:
        draftboard.open("http://board.example.com")
    assert "draftboard_secret" not in str(error.value)
    assert "draftboard_secret" not in repr(draftboard.open(address))
