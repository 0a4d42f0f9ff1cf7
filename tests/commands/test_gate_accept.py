"""``draftboard gate accept``: what became worse on purpose is the reference from then on."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from commands.gate import gate
from commands.keeping.runs import note
from warehouse import annotations
from warehouse.errors import UnknownKey

Say = Callable[..., Result]


@pytest.fixture
def say(place: Path) -> Say:
    """``say(*words)``: the gate of that warehouse."""
    return lambda *words: CliRunner().invoke(gate, [*words, "--warehouse", str(place)])


def series(said: Result) -> dict[str, Any]:
    """The series of eagle3 as ``--json`` tells it."""
    found: dict[str, Any] = json.loads(said.stdout)["series"][0]
    assert "eagle3" in found["series"]
    return found


def test_an_accepted_night_ends_the_regression_and_is_said_with_who_and_why(say: Say) -> None:
    assert say().exit_code == 1

    done = say("accept", "2026-01-07", "--why", "the new sampler is right", "--author", "Ann")

    assert done.stdout == "Accepted: night 2026-01-07, for 2 of 2 series.\n"
    after = say("--json")
    assert after.exit_code == 0
    told = next(one for one in json.loads(after.stdout)["series"] if "eagle3" in one["series"])
    assert told["accepted"]["by"] == "Ann"
    assert "night 2026-01-07 was accepted by Ann: the new sampler is right" in told["said"]


def test_without_a_night_the_last_one_is_accepted(say: Say, place: Path) -> None:
    assert "night 2026-01-07" in say("accept", "--why", "as meant").stdout
    assert [event.target.night for event in annotations.accepted(place)] == ["2026-01-07"]


def test_only_the_series_that_are_named_are_accepted(say: Say) -> None:
    other = say("accept", "--why", "as meant", "--series", "baseline", "--study", "lab")
    assert other.stdout == "Accepted: night 2026-01-07 of lab (baseline), for 1 of 2 series.\n"
    assert say().exit_code == 1

    say("accept", "--why", "as meant", "--series", "EAGLE3 K=3, output throughput")
    assert say().exit_code == 0


def test_accepting_an_earlier_night_takes_it_back(say: Say) -> None:
    say("accept", "--why", "as meant")
    assert say().exit_code == 0

    say("accept", "2026-01-02", "--why", "it was not meant")

    assert series(say("--json"))["first_bad"].startswith("2026-01-06")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("accept", "2025-01-01"), "has the night 2025-01-01; the last is 2026-01-07"),
        (("accept", "--series", "eagle3 K=33"), 'a series has these parts: "'),
        (("accept", "--study", "other"), "No series of other"),
    ],
)
def test_what_cannot_be_accepted_is_one_sentence(
    say: Say, words: tuple[str, ...], said: str
) -> None:
    error = say(*words, "--why", "as meant").exception

    assert isinstance(error, UnknownKey)
    assert said in str(error)


def test_an_acceptance_needs_a_reason_and_is_listed_with_the_notes(say: Say, place: Path) -> None:
    assert "--why" in say("accept").stderr
    say("accept", "--why", "as meant")

    listed = CliRunner().invoke(note, ["--list", "--warehouse", str(place)]).stdout

    assert "accepted" in listed
    assert "as meant" in listed
