"""``search --replay`` as a user runs it."""

from pathlib import Path

import pytest

from tests.commands.asking import refused, run, told


@pytest.mark.slow
def test_the_search_over_the_examples_finds_the_winners_of_the_decision(examples: Path) -> None:
    found = told("search", "--replay", str(examples), "--stake", "10%")
    assert found["schema_version"] == 1
    studies = {one["study"] for one in found["searches"]}
    assert studies == {"laptop-lab", "laptop-lab-costly", "lab-nights"}
    for one in found["searches"]:
        assert one["minutes"] <= one["grid_min"]
        assert one["minutes"] == pytest.approx(sum(step["minutes"] for step in one["steps"]))
        places = [place for place in one["found"] if place["by_all"] is not None]
        assert places
        assert all(place["agrees"] for place in places if place["settled"])
    (costly,) = (one for one in found["searches"] if one["study"] == "laptop-lab-costly")
    assert costly["decided"]
    assert costly["minutes"] < 0.6 * costly["grid_min"]


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
    ("option", "value"), [("--stake", "0%"), ("--error", "many"), ("--budget", "-3min")]
)
def test_what_is_no_size_is_refused(recorded: tuple[str, str], option: str, value: str) -> None:
    assert option in str(refused("search", "--replay", recorded[1], option, value))
