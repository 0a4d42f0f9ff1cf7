"""``tune`` as a user runs it: on the recorded runs, and without any."""

from pathlib import Path

import pytest

from tests.commands.asking import refused, run, told
from tests.dashboard.tuning.conftest import LOADS, fill_study


def test_the_recorded_run_gives_what_to_draft_on_each_dataset(recorded: tuple[str, str]) -> None:
    found = told("tune", *recorded)
    singles = [one for one in found["decisions"] if "dataset" in one["traffic"]]
    assert [one["traffic"]["dataset"] for one in singles] == ["code", "structured"]
    for one in singles:
        assert one["evidence"] == "cpu"
        # K = 3 won at every load of this run, so one K serves them all; one launch settles nothing.
        assert [level["num_speculative_tokens"] for level in one["loads"]] == [3, 3, 3]
        assert {level["word"] for level in one["loads"]} == {"open"}
        assert one["num_speculative_tokens_per_batch_size"] is None
        assert one["speculative_config"] is None
        assert len(one["acceptance"]) == 3
        assert all(len(level["of_all"]) == 3 for level in one["acceptance"])
        assert {rule["agrees"] for rule in one["rules"]} <= {True, False, None}


def test_each_decision_shows_the_acceptance_of_its_own_configuration(tmp_path: Path) -> None:
    fill_study(tmp_path, (0, 2, 4), temperature=0.0)
    fill_study(tmp_path, (0, 2), temperature=1.0)

    decisions = told("tune", "--warehouse", str(tmp_path), "--dataset", "code")["decisions"]

    shown = {
        one["configuration"]: sorted(
            (level["k"], level["concurrency"]) for level in one["acceptance"]
        )
        for one in decisions
    }
    assert shown == {
        "temperature 0.0": [(k, load) for k in (2, 4) for load in LOADS],
        "temperature 1.0": [(2, load) for load in LOADS],
    }
    assert {rule["arm"] for rule in decisions[-1]["rules"]} == {"draft_model K=2"}


def test_what_is_printed_can_be_pasted(recorded: tuple[str, str]) -> None:
    asked = ("tune", *recorded, "--dataset", "code")
    assert "Nothing to paste while nothing is settled" in run(*asked).stdout
    # Who names the arm has asked for its line.
    printed = run(*asked, "--arm", "draft_model K=3").stdout
    assert "--speculative-config '{" in printed
    assert "vllm serve 'draftboard-lab target (4.7M Llama)' --tensor-parallel-size 1" in printed
    assert "Rules of thumb: the measurement wins" in printed
    assert "At stake in the choice: unknown." in printed


def test_another_objective_and_an_slo_change_the_answer(recorded: tuple[str, str]) -> None:
    asked = ("tune", *recorded, "--dataset", "code")
    slo = ("--objective", "latency", "--slo", "itl:p95<4.5ms")
    (one,) = told(*asked, *slo)["decisions"]
    assert {level["metric"] for level in one["loads"]} == {"request_latency"}
    assert one["answer"] == "no"
    assert one["operating_load"]["value"] == 16
    assert "no arm meets itl:p95<4.5ms, and the baseline misses it too" in one["headline"]
    assert "the largest load at which something does is 1 at once" in one["headline"]
    (one,) = told(*asked, *slo, "--load", "1")["decisions"]
    assert (one["answer"], one["arm"]) == ("open", "draft_model K=3")
    nothing = " ".join(run(*asked, "--slo", "itl:p95<0.01ms").stdout.split())
    assert "nor does anything at any load measured" in nothing


@pytest.mark.parametrize(
    ("option", "value", "words"),
    [
        ("--slo", "speed<3", "no metric 'speed'"),
        ("--mix", "code", "no share of a dataset"),
        ("--mix", "code=0.5,code=0.5", "names a dataset twice"),
        ("--mix", "code=0.7,structured=0.7", "add up to 1"),
        ("--mix", "code=0.5,gone=0.5", "no results of gone"),
        ("--nowhere-worse", "much", "is no size"),
        ("--load", "many", "no load above 0"),
        ("--load", "1=0.5,8", "no load above 0"),
        ("--load", "8=0.5,8=0.5", "no load above 0"),
    ],
)
def test_what_cannot_be_asked_is_one_sentence(
    recorded: tuple[str, str], option: str, value: str, words: str
) -> None:
    assert words in str(refused("tune", *recorded, option, value))


def test_a_load_that_was_not_measured_is_said(recorded: tuple[str, str]) -> None:
    told_at = run("verdict", *recorded, "--all", "--load", "99").stdout
    assert "nothing is known of 99 at once" in " ".join(told_at.split())


def test_what_does_not_match_is_said(recorded: tuple[str, str]) -> None:
    assert "No speculative cell" in run("tune", *recorded, "--arm", "baseline").stdout
