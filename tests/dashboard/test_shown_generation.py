"""The generation that pages show while a newer one is being answered."""

import shutil
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from answers.runs import read
from dashboard.shelf import Shelf, Turnover, ask, open_shelf
from warehouse import annotations
from warehouse.annotations import annotation
from warehouse.contract import Facts
from warehouse.filters import Filters
from warehouse.store import Kept, Reader

Fill = Callable[[Path, str, list[Facts]], None]


@pytest.fixture
def opened(filled: Path, tmp_path: Path) -> Path:
    """A copy of the filled warehouse, to which results may be added."""
    return Path(shutil.copytree(filled, tmp_path / "warehouse"))


@pytest.fixture
def add(opened: Path, fill_cells: Fill, make_facts: Callable[..., Facts]) -> Callable[[], Shelf]:
    """Takes a result in; returns the newest generation."""

    def one_more() -> Shelf:
        before = open_shelf(opened)
        fill_cells(opened, f"after {before.generation}", [make_facts(dataset="new")])
        newest = open_shelf(opened)
        assert newest.generation == before.generation + 1
        return newest

    return one_more


class Held:
    """A question that answers while it may."""

    def __init__(self) -> None:
        self.may_answer = threading.Event()
        self.may_answer.set()
        self.asked: list[int] = []

    def question(self, reader: Reader) -> int:
        self.asked.append(reader.generation)
        self.may_answer.wait(60)
        return reader.generation


@pytest.fixture
def held() -> Iterator[Held]:
    """A question that nobody waits for after the test."""
    one = Held()
    yield one
    one.may_answer.set()


def _asked(root: Path, held: Held) -> tuple[Shelf, Turnover]:
    """The generation that pages show, and its turn, where the question was asked and would now take
    long."""
    old = open_shelf(root)
    assert ask(old, held.question) == old.generation
    held.may_answer.clear()
    return old, Turnover(old, long_s=0.0)


def _comes(turn: Turnover, newest: Shelf) -> bool:
    """Whether the pages come to show the newest generation."""
    end = time.monotonic() + 60
    while turn.shelf(newest) != newest:
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True


def test_pages_stay_on_a_generation_until_the_newest_has_answered(
    opened: Path, add: Callable[[], Shelf], held: Held
) -> None:
    old, turn = _asked(opened, held)

    newest = add()
    assert turn.shelf(newest) == old
    assert turn.shelf(newest) == old
    held.may_answer.set()

    assert _comes(turn, newest)
    assert held.asked == [old.generation, newest.generation]
    # It is answered already: nobody waits, and nothing is asked twice.
    assert ask(newest, held.question) == newest.generation
    assert len(held.asked) == 2


def test_a_small_warehouse_is_followed_at_once(opened: Path, add: Callable[[], Shelf]) -> None:
    old = open_shelf(opened)
    turn = Turnover(old)
    ask(old, read.runs, Filters())

    newest = add()

    assert turn.shelf(newest) == newest


def test_an_exclusion_and_a_reader_who_adds_results_are_followed_at_once(
    opened: Path, add: Callable[[], Shelf], held: Held
) -> None:
    old, turn = _asked(opened, held)
    second = add()
    assert turn.shelf(second) == old
    turn.show(second)
    assert turn.shelf(second) == second

    run = read.runs(second.reader, Filters()).runs[0]
    annotations.add(opened, annotation("exclude", run.target, "a wrong driver", "Ada"))
    third = open_shelf(opened)
    assert turn.shelf(third) == third


def test_a_failure_is_told_to_all_who_wait_and_asked_anew(opened: Path) -> None:
    shelf = open_shelf(opened)
    tries: list[int] = []

    def fails_once(reader: Reader) -> int:
        tries.append(reader.generation)
        if len(tries) == 1:
            raise ValueError("once")
        return len(tries)

    with pytest.raises(ValueError, match="once"):
        ask(shelf, fails_once)
    assert ask(shelf, fails_once) == 2
    assert ask(shelf, fails_once) == 2


def test_what_was_asked_longest_ago_is_forgotten_first() -> None:
    made: list[str] = []
    kept: Kept[str] = Kept(most=2)

    def get(key: str) -> str:
        return kept.get(key, lambda source: made.append(key) or source + key, "of ")

    assert [get("a"), get("b"), get("a"), get("c"), get("a"), get("b")] == [
        "of a", "of b", "of a", "of c", "of a", "of b",
    ]  # fmt: skip
    assert made == ["a", "b", "c", "b"]
    assert [one.key for one in kept.recent(60)] == ["b", "a"]
