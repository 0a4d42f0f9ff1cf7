"""Acceptance that was set by hand stands beside what was published, says what it is, and decides nothing."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from answers.compare.answer import compare
from answers.compare.values import CompareQuestion
from answers.decide.answer import decide
from answers.decide.values import DecideQuestion
from answers.published.values import BADGE
from dashboard.shelf import ask, open_shelf
from dashboard.views.printed import kept
from tests.commands.asking import run
from tests.dashboard.conftest import opened as shelved
from tests.dashboard.opening import opened
from warehouse.filters import Filters

EXAMPLES = Path(__file__).parents[2] / "examples"
DUMMY = EXAMPLES / "h200" / "gpt-oss-120b-dummy" / "baseline" / "tp1" / "words"
BADGES = ("dummy weights", "synthetic acceptance")


def drop(to: Path, load: int, arm: dict[str, Any]) -> None:
    """A recorded cell of gpt-oss-120b's shape on an H200, as one of ``studies/published-on-dummy.yaml``."""
    (source,) = DUMMY.glob(f"c{load}-r0@*")
    shutil.copytree(source, to)
    record = json.loads((to / "record.json").read_text(encoding="utf-8"))
    record |= {
        "study": "published-on-dummy",
        "model": "openai/gpt-oss-120b",
        "dataset": "ShareGPT",
        **arm,
    }
    (to / "record.json").write_text(json.dumps(record))


@pytest.fixture(scope="module")
def beside_study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The published study, and a baseline beside an arm with K = 3 at two loads. The arm's requests are
    the baseline's own: no synthetic arm was ever recorded."""
    place = tmp_path_factory.mktemp("dummy")
    config = {"method": "eagle3", "model": "nvidia/gpt-oss-120b-Eagle3-v2", "num_speculative_tokens": 3,
              "rejection_sample_method": "synthetic", "synthetic_acceptance_rates": [0.6, 0.3, 0.17]}  # fmt: skip
    eagle = {"arm": "eagle3-k3", "spec_method": "eagle3", "num_speculative_tokens": 3,
             "draft_model": config["model"], "speculative_config": config, "launch": "r0-eagle3-k3-tp1"}  # fmt: skip
    for load in (1, 25):
        drop(place / "results" / f"baseline-{load}", load, {})
        drop(place / "results" / f"eagle3-{load}", load, eagle)
    root = place / "warehouse"
    for source in (place / "results", EXAMPLES / "claims" / "published-study.yaml"):
        done = run("ingest", str(source), "--warehouse", str(root))
        assert done.exit_code == 0, done.output
    return root


@pytest.fixture
def with_study(beside_study: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    yield from shelved(beside_study, monkeypatch)


@pytest.mark.usefixtures("with_study")
def test_it_stands_beside_the_published_figures_with_both_badges() -> None:
    table = opened("compare").dataframe[0].value
    speed = table.iloc[0]
    assert (speed["printed"], speed["check"]) == ("+20.7 %", "follows")
    here = speed["measured here"].replace("\u202f", " ")
    assert here == "eagle3 K=3 +0.0 % [dummy weights] [synthetic acceptance]"
    (study,) = kept(open_shelf(), Filters())
    measured = study.figures[0].plots[0].measured
    assert measured
    assert {each.badges for each in measured} == {BADGES}
    other = [line for each in study.tables if each.dataset != "ShareGPT" for line in each.lines]
    assert not any(line.measured for line in other)


@pytest.mark.usefixtures("with_study")
def test_no_word_or_interval_is_given_to_it_and_nothing_is_decided() -> None:
    (study,) = kept(open_shelf(), Filters())
    every = [each for table in study.tables for line in table.lines for each in line.measured]
    assert {(each.low, each.high, each.word) for each in every} == {(None, None, None)}
    shelf = open_shelf()
    assert not ask(shelf, decide, DecideQuestion()).decisions
    found = ask(shelf, compare, CompareQuestion())
    assert not found.settings
    assert {cell.why for cell in found.excluded} == {
        "Acceptance was set by hand here, not measured."
    }
    assert len(found.excluded) == 2
    assert BADGE in opened("compare").selectbox(key="subject").value
