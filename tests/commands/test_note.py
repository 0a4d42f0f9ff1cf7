"""note, exclude and include on a real warehouse: what was said, and what it takes out of answers."""

import json
import shutil
from collections.abc import Callable, Collection
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from commands.decide import compare, verdict
from commands.gate import gate
from commands.keeping.runs import exclude, include, note
from warehouse.annotations import excluded_runs
from warehouse.errors import DraftboardError
from warehouse.rows import Measurement
from warehouse.store import open_writer

Say = Callable[..., Result]
#: The last night's server was slow.
NIGHTS = (1500.0, 1500.0, 1500.0, 1100.0)
FIRST = datetime(2026, 1, 2, 20, tzinfo=UTC)
LUCK = (1.0, 1.004, 0.997)


@pytest.fixture
def say() -> Say:
    """``say(command, *words)``: what click made of it; standard output and errors apart."""
    return lambda command, *words: CliRunner().invoke(command, [str(word) for word in words])


@pytest.fixture
def fill(make_source: Callable[..., Any], make_cell: Callable[..., Any]) -> Callable[..., Path]:
    """``fill(root, wanted)``: those of eight runs (an arm in a night, by number) with three repeats
    of two levels each."""

    def filled(root: Path, wanted: Collection[int] = range(2 * len(NIGHTS))) -> Path:
        with open_writer(root) as writer:
            for number in sorted(wanted):
                source = make_source(f"run-{number}")
                writer.add(source, iter(_cells(make_cell, source, number)))
            writer.commit()
        return root

    return filled


def _cells(make_cell: Callable[..., Any], source: Any, number: int) -> list[Any]:
    night, arm = divmod(number, 2)
    method, k, speed = (("none", None, 1000.0), ("eagle3", 3, NIGHTS[night]))[arm]
    facts = {"spec_method": method, "num_speculative_tokens": k, "study": "lab"}
    cells = []
    for index in range(6):
        level, repeat = divmod(index, 3)
        value = speed * LUCK[repeat]
        cells.append(
            make_cell(
                source, index, 1.0, facts | {"concurrency": 2**level, "repeat": repeat},
                run_id=f"lab/{method}-{night}#1",
                started_at=FIRST + timedelta(days=night, minutes=index),
                measurements=(
                    Measurement("canonical", "output_throughput", "mean", value),
                    Measurement("canonical", "ttft", "p95", 1e5 / value),
                ),
            )
        )  # fmt: skip
    return cells


def test_a_note_is_listed_with_its_author_and_changes_no_answer(
    tmp_path: Path, fill: Callable[..., Path], say: Say
) -> None:
    at = ("--warehouse", fill(tmp_path / "w"))
    before = say(compare, *at, "--json").stdout

    said = say(note, "driver updated", "--night", "2026-01-05", "--study", "lab", *at,
               "--author", "Ann")  # fmt: skip
    on_run = say(note, "GPU 3 was warm", "--run", "lab/eagle3-3#1", *at, "--author", "Bo")

    assert said.stdout == "Noted on night 2026-01-05 of lab by Ann.\n"
    assert on_run.stdout == "Noted on lab/eagle3-3#1 by Bo.\n"
    lines = say(note, "--list", *at).stdout.splitlines()
    assert [line.split()[-2:] for line in lines[1:]] == [["driver", "updated"], ["was", "warm"]]
    assert say(compare, *at, "--json").stdout == before


def test_the_author_comes_from_the_environment_and_is_unknown_else(
    tmp_path: Path, fill: Callable[..., Path], say: Say, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DRAFTBOARD_AUTHOR", raising=False)
    monkeypatch.setenv("USER", "somebody")
    words = ("a note", "--night", "2026-01-05", "--warehouse", fill(tmp_path / "w"), "--json")

    nobody = json.loads(say(note, *words).stdout)
    monkeypatch.setenv("DRAFTBOARD_AUTHOR", "Ann")
    ann = json.loads(say(note, *words).stdout)

    assert (nobody["author"], ann["author"]) == ("unknown", "Ann")
    assert ann["target"] == {"night": "2026-01-05"}


def test_an_exclusion_takes_the_bad_night_out_of_the_gate_until_it_is_taken_back(
    tmp_path: Path, fill: Callable[..., Path], say: Say
) -> None:
    at = ("--warehouse", fill(tmp_path / "w"))
    assert say(gate, *at).exit_code == 1

    done = say(exclude, "lab/eagle3-3#1", "--reason", "GPU throttled", "--author", "Ann", *at)

    assert done.stdout == "Excluded: lab/eagle3-3#1\n"
    assert say(gate, *at).exit_code == 0
    told = json.loads(say(note, "--list", "--json", *at).stdout)
    assert [one["text"] for one in told["excluded"]] == ["GPU throttled"]
    assert told["unreadable_lines"] == 0
    back = say(include, "lab/eagle3-3#1", "--reason", "it did not", *at)
    assert back.stdout == "Taken back: lab/eagle3-3#1\n"
    assert say(gate, *at).exit_code == 1


def test_a_whole_night_can_be_excluded_and_taken_back(
    tmp_path: Path, fill: Callable[..., Path], say: Say
) -> None:
    root = fill(tmp_path / "w")
    words = ("--night", "2026-01-05", "--reason", "GPU throttled", "--warehouse", root)

    done = say(exclude, *words, "--study", "lab")

    assert sorted(done.stdout.splitlines()) == [
        "Excluded: lab/eagle3-3#1", "Excluded: lab/none-3#1",
    ]  # fmt: skip
    assert say(gate, "--warehouse", root).exit_code == 0
    assert say(include, *words).exit_code == 0
    assert excluded_runs(root) == {}


def test_a_verdict_changes_with_the_runs_it_stands_on(
    tmp_path: Path, fill: Callable[..., Path], say: Say
) -> None:
    at = ("--warehouse", fill(tmp_path / "w", (0, 1, 2, 3)))
    # Starts of the server are not known there, so nothing is more than likely.
    assert "EAGLE-3 with 3 draft tokens is the best so far" in _plain(say(verdict, *at).stdout)

    words = ("lab/eagle3-0#1", "lab/eagle3-1#1", "--reason", "other model", *at)
    assert say(exclude, *words).exit_code == 0

    assert "No pair of cells can be compared" in _plain(say(verdict, *at).stdout)


def _plain(printed: str) -> str:
    """What was printed, without its line breaks."""
    return " ".join(printed.split())


@pytest.fixture
def all_eight(tmp_path: Path, fill: Callable[..., Path]) -> Path:
    """A warehouse of all eight runs, of which examples take copies."""
    return fill(tmp_path / "eight")


@pytest.mark.slow
@settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(out=st.sets(st.integers(0, 7), min_size=1, max_size=7))
def test_an_excluded_run_is_as_if_it_had_never_been_ingested(
    tmp_path_factory: pytest.TempPathFactory,
    fill: Callable[..., Path],
    all_eight: Path,
    say: Say,
    out: set[int],
) -> None:
    place = tmp_path_factory.mktemp("property")
    whole = Path(shutil.copytree(all_eight, place / "whole"))
    rest = fill(place / "rest", set(range(8)) - out)

    words = [f"run-{number}.json" for number in sorted(out)]
    assert say(exclude, *words, "--reason", "r", "--warehouse", whole).exit_code == 0

    for command, more in ((compare, ["--json"]), (compare, []), (gate, ["--json"]), (verdict, [])):
        with_exclusions = say(command, "--warehouse", whole, *more)
        never_there = say(command, "--warehouse", rest, *more)
        assert with_exclusions.stdout == never_there.stdout
        assert with_exclusions.exit_code == never_there.exit_code


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("lab/eagle-3#1",), "There is no run 'lab/eagle-3#1'; the nearest are lab/eagle3-"),
        (("lab/",), "'lab/' names 8 runs; name one of them: lab/"),
        (("--night", "2025-01-01"), "No run started in the night of 2025-01-01"),
        (("--night", "2026-01-05", "--study", "x"), "No run of x started in the night"),
    ],
)
def test_a_run_that_is_not_there_is_one_sentence(
    tmp_path: Path, fill: Callable[..., Path], say: Say, words: tuple[str, ...], why: str
) -> None:
    root = fill(tmp_path / "w")

    done = say(exclude, *words, "--reason", "r", "--warehouse", root)

    assert isinstance(done.exception, DraftboardError)
    assert why in str(done.exception)
    assert excluded_runs(root) == {}


def test_what_is_not_excluded_cannot_be_taken_back(
    tmp_path: Path, fill: Callable[..., Path], say: Say
) -> None:
    done = say(include, "run-1.json", "--reason", "r", "--warehouse", fill(tmp_path / "w"))

    assert "lab/eagle3-0#1 is not excluded" in str(done.exception)


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (note, ("text",)),
        (note, ("--night", "2026-01-05")),
        (note, ("text", "--run", "a", "--night", "2026-01-05")),
        (note, ("text", "--run", "a", "--study", "lab")),
        (note, ("text", "--night", "tonight")),
        (note, ("text", "--list")),
        (exclude, ("--reason", "r")),
        (exclude, ("a",)),
        (exclude, ("a", "--night", "2026-01-05", "--reason", "r")),
        (exclude, ("a", "--study", "lab", "--reason", "r")),
    ],
)
def test_wrong_usage_says_what_to_write(say: Say, command: Any, words: tuple[str, ...]) -> None:
    done = say(command, *words)

    assert done.exit_code == 2
    assert "Error: " in done.output


def test_without_notes_the_list_says_how_to_write_one(
    tmp_path: Path, fill: Callable[..., Path], say: Say
) -> None:
    root = fill(tmp_path / "w", (0,))
    assert "Nothing was noted yet" in say(note, "--list", "--warehouse", root).stdout
    (root / "annotations.jsonl").write_text('{"half', encoding="utf-8")
    assert "1 line of" in say(note, "--list", "--warehouse", root).stdout


@pytest.mark.parametrize("command", [note, exclude, include])
def test_help_has_an_example(say: Say, command: Any) -> None:
    assert "Example:" in say(command, "--help").output
