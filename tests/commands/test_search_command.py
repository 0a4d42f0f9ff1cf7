"""``search --replay`` as a user runs it."""

from pathlib import Path

import pytest

from tests.commands.asking import refused, run, told


@pytest.mark.slow
def test_the_search_over_the_examples_finds_the_winners_of_the_decision(examples: Path) -> None:
    found = told("search", "--replay", str(examples), "--stake", "10%")
    assert found["schema_version"] == 1
    studies = {one["study"] for one in found["searches"]}
    assert studies == {"laptop-lab", "laptop-lab-costly", "lab-nights", "lab-target-8b"}
    # No arm gains 10 % there.
    (h200,) = (one for one in found["searches"] if one["study"] == "lab-target-8b")
    assert {place["arm"] for place in h200["found"]} == {"baseline"}
    for one in found["searches"]:
        assert one["minutes"] <= one["grid_min"]
        assert one["minutes"] == pytest.approx(sum(step["minutes"] for step in one["steps"]))
        places = [place for place in one["found"] if place["by_all"] is not None]
        assert places
        assert all(place["agrees"] for place in places if place["settled"])
    nights = [one for one in found["searches"] if one["study"] == "lab-nights"]
    told_apart = {one["system"]["configuration"] for one in nights}
    assert len(told_apart) == len(nights) == 3
    # Its cells lie a day apart, which no launch takes.
    assert all(one["grid_min"] < 60 for one in nights)
    (costly,) = (one for one in found["searches"] if one["study"] == "laptop-lab-costly")
    assert costly["decided"]
    assert costly["minutes"] < 0.6 * costly["grid_min"]


@pytest.mark.slow
def test_the_search_for_a_mix_and_within_an_slo_finds_what_the_decision_finds(
    examples: Path,
) -> None:
    asked = ("search", "--replay", str(examples), "--study", "laptop-lab-costly", "--stake", "10%")
    mix = "code=0.5,prose=0.3,structured=0.2"
    (one,) = told(*asked, "--mix", mix)["searches"]
    assert {place["dataset"] for place in one["found"]} == {"mix"}
    assert all(place["agrees"] for place in one["found"] if place["settled"])
    assert any(place["by_all"] for place in one["found"])
    (strict,) = told(*asked, "--slo", "itl:p95<0.001ms")["searches"]
    assert not any(place["meets"] for place in strict["found"])
    assert "none meets the SLO" in run(*asked, "--slo", "itl:p95<0.001ms").stdout
    (easy,), (plain,) = (told(*asked, *more)["searches"] for more in (("--slo", "itl:p95<9s"), ()))
    assert (easy["found"], easy["steps"]) == (plain["found"], plain["steps"])


def test_a_mix_of_what_was_not_measured_is_refused(recorded: tuple[str, str]) -> None:
    assert "poems" in str(refused("search", "--replay", recorded[1], "--mix", "poems=1"))


@pytest.mark.parametrize("option", [("--check", "true"), ("--on", "slurm")])
def test_a_replay_refuses_what_only_measuring_follows(
    recorded: tuple[str, str], option: tuple[str, str]
) -> None:
    assert (
        f"Error: {option[0]}: only with" in run("search", "--replay", recorded[1], *option).output
    )


def test_a_study_is_searched_whole(tmp_path: Path) -> None:
    words = ("search", "studies/laptop-lab-search.yaml", "--results", str(tmp_path))
    assert "Error: --dataset: only with" in run(*words, "--dataset", "code").output


def test_a_single_launch_is_told_as_open(recorded: tuple[str, str]) -> None:
    (one,) = told("search", "--replay", recorded[1], "--stake", "1%")["searches"]
    assert not one["decided"]
    assert [step["arm"] for step in one["steps"]][0] == "baseline"
    printed = run("search", "--replay", recorded[1], "--stake", "1%").stdout
    assert "Open" in printed
    assert "launch  arm" in printed
    assert "By load" in printed
    assert "By load" not in run("search", "--replay", recorded[1], "--dry-run").stdout


def test_a_budget_too_small_for_each_method_once_is_told(recorded: tuple[str, str]) -> None:
    (one,) = told("search", "--replay", recorded[1], "--budget", "0.1min")["searches"]
    assert one["steps"] == []
    assert "before every method was measured once" in one["headline"]


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--stake", "0%"),
        ("--stake", "0.02"),
        ("--error", "0.05"),
        ("--error", "many"),
        ("--budget", "-3min"),
        ("--slo", "ttft:p95<fast"),
    ],
)
def test_what_is_no_size_is_refused(recorded: tuple[str, str], option: str, value: str) -> None:
    assert value in str(refused("search", "--replay", recorded[1], option, value))
