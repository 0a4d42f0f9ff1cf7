"""``whatif`` as a user runs it: on the recorded runs, and without any."""

from pathlib import Path

import pytest

from tests.answers.test_break_even import fill
from tests.commands.asking import refused, run, told
from warehouse.errors import InvalidInput


def test_what_does_not_match_is_said(recorded: tuple[str, str]) -> None:
    asked = ("--k", "3", "--concurrency", "8", "--model", "other")
    assert "No speculative cell" in run("whatif", *recorded, *asked).stdout
    assert told("whatif", *recorded, *asked) == {"forecasts": [], "refused": []}
    nowhere = told("whatif", "--break-even", *recorded, "--model", "other")
    assert nowhere == {"break_even": [], "refused": []}


def test_a_load_between_the_recorded_ones_is_predicted_between_them(
    recorded: tuple[str, str],
) -> None:
    found = told("whatif", *recorded, "--k", "3", "--concurrency", "8", "--usd-per-hour", "3.6")
    assert found["refused"] == []
    for forecast in found["forecasts"]:
        # 1,039 tok/s at 4 and 2,430 at 16 on code, 1,083 and 2,107 on structured.
        assert 1083 < forecast["prediction"]["output_throughput"] < 2107
        assert forecast["prediction"]["warnings"] == []
        assert forecast["fit"]["residual"] < 0.05
        rate = forecast["prediction"]["output_throughput"]
        cost = forecast["cost"]["usd_per_million_output_tokens"]
        assert cost["predicted"] == pytest.approx(1000 / rate)
        withheld = [row for row in forecast["leave_one_out"] if row["metric"] == "itl"]
        assert [row["left_out"] for row in withheld] == ["concurrency"]
        assert withheld[0]["worst"] < 0.15
        low, high = forecast["bands"]["output_throughput"]
        assert forecast["bands"]["level"] == 0.9
        assert low < rate < high
        assert {law["law"] for law in forecast["fit"]["laws"]} == {"roofline", "sum of parts"}
        assert all(
            row["low"] < row["predicted"] < row["high"]
            for row in forecast["withheld"]
            if row["metric"] != "mean_length"
        )


def test_a_forecast_prints_how_wrong_it_may_be(recorded: tuple[str, str]) -> None:
    printed = run(
        "whatif", *recorded, "--dataset", "code", "--k", "2", "--concurrency", "24"
    ).stdout
    assert "warning: K of 2 is outside what was measured (3)." in printed
    assert "warning: Concurrency of 24 is outside what was measured (1 to 16)." in printed
    assert "Each load withheld in turn" in printed
    assert "No K could be withheld" in printed
    assert "No band: one K was measured" in printed


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (("--k", "9", "--concurrency", "8"), "too far"),
        (("--k", "3", "--concurrency", "8", "--mean-acceptance-length", "5"), "between 1 and 4"),
        (("--k", "3", "--concurrency", "8", "--acceptance-rate", "61"), "between 0 and 1"),
        (("--k", "3", "--concurrency", "8", "--acceptance-rate", "0.6",
          "--mean-acceptance-length", "2"), "give one"),
        (("--textbook",), "need --acceptance-rate"),
    ],
)  # fmt: skip
def test_what_cannot_be_answered_is_refused_in_one_sentence(
    recorded: tuple[str, str], asked: tuple[str, ...], words: str
) -> None:
    error = refused("whatif", *recorded, *asked)
    assert isinstance(error, InvalidInput)
    assert words in str(error)


def test_an_acceptance_rate_is_turned_into_a_length_of_its_k(recorded: tuple[str, str]) -> None:
    asked = ("whatif", *recorded, "--dataset", "code", "--k", "3", "--concurrency", "4")
    by_rate = told(*asked, "--acceptance-rate", "0.8")["forecasts"][0]["prediction"]
    by_length = told(*asked, "--mean-acceptance-length", "3.4")["forecasts"][0]["prediction"]
    assert by_rate["mean_length"] == pytest.approx(3.4)
    assert by_rate["output_throughput"] == pytest.approx(by_length["output_throughput"])


def test_the_textbook_models_need_no_warehouse_and_say_what_they_are() -> None:
    asked = ("whatif", "--textbook", "--acceptance-rate", "0.7", "--warehouse", "/nowhere")
    found = told(*asked)
    assert found["end_to_end_gain"] == pytest.approx(1.41, rel=0.025)
    assert found["evidence"] == "textbook model"
    assert "no measurement stands behind these figures" in run(*asked).stdout
    prose = told(*asked, "--text", "natural_language", "--k", "8")
    assert prose["model"]["cap"] == 2.0


def test_what_is_not_given_is_what_the_decision_takes(recorded: tuple[str, str]) -> None:
    printed = run("whatif", *recorded, "--dataset", "code").stdout
    assert (
        "K = 3 at 16 at once; what was not given is that of the arm that draftboard verdict names."
        in printed
    )
    assert "K = 3 at concurrency 16" in printed


def test_from_when_on_a_draft_pays_is_told_for_every_k_and_load_or_for_one(tmp_path: Path) -> None:
    asked = ("whatif", "--break-even", "--warehouse", str(fill(tmp_path)))
    printed, found = run(*asked).stdout, told(*asked)["break_even"][0]
    assert "[synthetic acceptance]" in printed.splitlines()[0]
    for step in found["pays_from"]:
        # In a sentence at the largest load; in a row everywhere.
        assert (step["headline"] in printed) == (step["concurrency"] == 128)
        row = f"{step['k']} {step['concurrency']} {step['length']:.2f} {step['low']:.2f} to {step['high']:.2f}"
        assert row in " ".join(printed.split())
    assert (
        "It stands on the baseline and arms with acceptance set by hand, K = 1, 2 and 4" in printed
    )

    (one,) = told(*asked, "--k", "3", "--concurrency", "32")["break_even"][0]["pays_from"]
    assert (one["k"], one["concurrency"]) == (3, 32)
    assert one["headline"] in run(*asked, "--k", "3", "--concurrency", "32").stdout


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ((), "3 draft lengths K of one draft tell what its steps cost, and 1 was measured"),
        (("--k", "0"), "give it a --k from 1 on"),
        (("--mean-acceptance-length", "2.5"), "with requests as measured"),
        (("--output-tokens", "300"), "with requests as measured"),
        (("--k", "3", "--concurrency", "24"), "Concurrency of 24 is outside what was measured"),
    ],
)
def test_from_when_on_a_draft_pays_is_not_guessed(
    recorded: tuple[str, str], more: tuple[str, ...], words: str
) -> None:
    assert words in str(refused("whatif", "--break-even", *recorded, *more))


def test_nothing_speculative_pays_from_nowhere(recorded: tuple[str, str]) -> None:
    asked = ("whatif", "--break-even", *recorded, "--model", "other")
    assert "No speculative cell" in run(*asked).stdout
