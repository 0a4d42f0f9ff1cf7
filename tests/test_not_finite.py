"""Bounds beyond all numbers: where few launches meet many lines, an interval has no end. Every face says so,
and none of them breaks, whichever number of an answer it is."""

import ast
import csv
import io
import json
import math
import re
from collections.abc import Callable, Iterator, Set
from copy import copy
from dataclasses import fields, is_dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow as pa
import pytest

from answers.compare import answer as compare
from answers.cost import answer as cost
from answers.cost import capacity
from answers.decide import answer as decide
from answers.doors.parameters import Page
from answers.doors.questions import QUESTIONS, Asking, answer_json
from answers.doors.rows import encoded
from answers.predict import answer as predict
from answers.trend import answer as trend
from dashboard.doors.api import offered, rendered
from dashboard.shelf import Shelf, open_shelf
from dashboard.views import VIEWS
from tests.commands.asking import run
from tests.dashboard.opening import opened
from tests.test_one_answer import Study, generated
from warehouse.json_text import json_text
from warehouse.loads import Load
from warehouse.store import Kept, Reader

ROOT = Path(__file__).parents[1]
ODD = (math.inf, -math.inf, math.nan)
#: What a question is asked, where it has words that it needs.
WORDS: dict[str, dict[str, Any]] = {
    "slo": {"slo": "itl:p95<20ms"},
    "cost": {"usd_per_hour": 3.0, "tokens_per_day": 1e9},
    "predict": {"k": 2, "concurrency": 4},
}
#: As Python and C write what is not a number, anywhere in a text.
_UNWORDED = re.compile(r"(?i)(?<![a-z])(inf|infinity|nan)(?![a-z])")


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    gains = {("draft_model", k): (0.1 * k, 0.1, 0.03 - 0.1 * k) for k in (1, 2, 4)}
    study = Study("ends", gains, datasets=("code", "prose"))
    return generated(tmp_path_factory.mktemp("odd") / "warehouse", study)


@pytest.fixture(scope="module")
def boundless(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two launches of two arms, which are far apart, at many lines: no bound can be said."""
    gains = {("draft_model", 3): (0.3, 0.3, 0.3)}
    study = Study("far apart", gains, datasets=tuple("abcdef"), launches=2, noise=2.0)
    return generated(tmp_path_factory.mktemp("boundless") / "warehouse", study)


#: What an interval is made of: only these may have no end; of other numbers a reader takes no inf.
BOUNDS = {"low", "high", "adjusted_low", "adjusted_high"}


def poisoned(value: Any, odd: float, only: Set[str] = frozenset(), name: str = "") -> Any:
    """The value with ``odd`` in place of every float of every answer in it. ``only``: of the fields of
    these names."""
    if isinstance(value, float):
        return odd if not only or name in only else value
    if is_dataclass(value) and not isinstance(value, Load | type):
        changed = copy(value)
        for one in fields(value):
            # No check of what a value may be stands between an answer and its faces.
            told = poisoned(getattr(value, one.name), odd, only, one.name)
            object.__setattr__(changed, one.name, told)
        return changed
    if isinstance(value, tuple | list):
        return type(value)(poisoned(one, odd, only, name) for one in value)
    if isinstance(value, dict):
        return {key: poisoned(one, odd, only, key) for key, one in value.items()}
    return value


def strictly(text: str | bytes) -> Any:
    def refuse(word: str) -> None:
        raise AssertionError(f"{word} is no JSON")

    return json.loads(text, parse_constant=refuse)


def found_by(asking: Asking, root: Path) -> Any:
    words, _ = asking.read(WORDS.get(asking.name, {}))
    with Reader(root, everything=asking.everything) as reader:
        return asking.ask(reader, words)


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("name", QUESTIONS)
def test_every_form_of_every_answer_has_a_null_where_a_number_cannot_be_said(
    results: Path, name: str, odd: float
) -> None:
    asking = QUESTIONS[name]
    found = poisoned(found_by(asking, results), odd)
    answer = answer_json(asking, found, Page()) | {"generation": 1, "not_fresh": None}

    for form in offered(asking):
        if form == "application/vnd.draftboard.values":
            assert encoded(found)
            continue
        body = rendered(asking, answer, form, {}).body
        if form == "application/json":
            assert strictly(body) == strictly(json_text(asking.as_json(found))) | {
                key: value for key, value in strictly(body).items() if key in _ABOUT
            }
        elif form == "text/csv":
            cells = {cell for row in csv.reader(io.StringIO(bytes(body).decode())) for cell in row}
            assert not [cell for cell in cells if _UNWORDED.fullmatch(cell.lstrip("-"))]
        else:
            rows = pa.ipc.open_stream(body).read_all().to_pylist()
            strictly(json.dumps(rows, default=str))


_ABOUT = ("schema_version", "page", "generation", "not_fresh")


#: A command, and the module and function that answer it.
TERMINAL: dict[str, tuple[str, ModuleType, str]] = {
    "compare": ("compare", compare, "compare"),
    "verdict": ("verdict --all", decide, "decide"),
    "tune": ("tune", decide, "decide"),
    "cost": ("cost --usd-per-hour 3 --tokens-per-day 1e9", cost, "costed"),
    "slo": ("cost slo itl:p95<20ms", capacity, "capacity"),
    "predict": ("whatif --k 2 --concurrency 4", predict, "predict"),
    "trends": ("gate", trend, "trend"),
}


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("name", TERMINAL)
def test_a_terminal_is_told_in_words_that_a_number_cannot_be_said(
    results: Path, name: str, odd: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    words, place, function = TERMINAL[name]
    answered, poisons = getattr(place, function), 0

    def told(only: Set[str]) -> str:
        def answer(*given: Any, **named: Any) -> Any:
            nonlocal poisons
            poisons += 1
            found = answered(*given, **named)
            return poisoned(list(found) if isinstance(found, Iterator) else found, odd, only)

        monkeypatch.setattr(place, function, answer)
        done = run(*words.split(), "--warehouse", str(results))
        assert isinstance(done.exception, SystemExit | None), done.exception
        return done.stdout

    told(frozenset())
    said = told(BOUNDS)
    assert poisons == 2
    assert said
    assert not _UNWORDED.search(said), said


class _Poisonous(Kept[Shelf]):
    """What is answered once for all pages, with an odd number in place of each."""

    odd: float

    def get(self, key: str, make: Callable[[Shelf], Any], source: Shelf) -> Any:
        return poisoned(super().get(key, make, source), self.odd, BOUNDS)


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("view", VIEWS, ids=lambda view: view.URL_PATH)
def test_every_page_is_drawn_whatever_number_cannot_be_said(
    results: Path, view: Any, odd: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DRAFTBOARD_WAREHOUSE", str(results))
    shelf = open_shelf()
    kept = _Poisonous()
    kept.odd = odd
    monkeypatch.setitem(vars(shelf), "kept", kept)

    page = opened(view.URL_PATH)

    for text in _texts(page):
        assert not _UNWORDED.search(text), text


def _texts(page: Any) -> Iterator[str]:
    for kind in ("markdown", "header", "subheader", "caption", "metric", "warning", "info"):
        for one in page.get(kind):
            yield str(one.value)
    for table in page.dataframe:
        yield from (str(cell) for row in table.value.to_numpy().tolist() for cell in row)


def test_no_command_nor_address_writes_json_by_itself() -> None:
    """A new one is covered because there is one place that writes JSON for readers."""
    for folder in ("commands", "answers", "dashboard", "ingest", "nightly", "runners", "warehouse"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Call) and ast.unparse(node.func).endswith(".echo"):
                    assert "json.dumps" not in ast.unparse(node), f"{path}: use json_text"


@pytest.mark.parametrize(
    "command",
    ["compare", "verdict", "tune", "cost --usd-per-hour 3 --tokens-per-day 1e9", "gate", "pareto"],
)
def test_arms_whose_launches_are_far_apart_are_answered(boundless: Path, command: str) -> None:
    words = [*command.split(), "--warehouse", str(boundless)]

    assert strictly(run(*words, "--json").stdout)
    shown = run(*words)
    assert not _UNWORDED.search(shown.output)
    if command == "compare":
        assert "no lower bound, up to" in shown.output
