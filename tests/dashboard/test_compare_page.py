"""The Compare page: which cells it compares, and that it never draws two things as one."""

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from streamlit.testing.v1 import AppTest

from dashboard import answers, data, panels
from dashboard.answers import MOST_PANELS
from dashboard.data import Question
from dashboard.shelf import open_shelf
from dashboard.tables import pair_rows
from dashboard.views import compare
from warehouse.contract import Facts
from warehouse.filters import Filters

APP = Path(__file__).parents[2] / "dashboard" / "app.py"
Fill = Callable[..., None]
BASELINE = {"spec_method": "none"}
DRAFT = {"spec_method": "draft_model", "num_speculative_tokens": 3, "draft_model": "one"}


def _question(**changes: Any) -> Question:
    return Question(**({"filters": Filters(), "statistic": "median", "allow": ()} | changes))


@pytest.fixture
def other_engine(empty_place: Path, fill_cells: Fill, make_facts: Callable[..., Facts]) -> Path:
    """A baseline on one engine version and a draft on another."""
    fill_cells(empty_place, "old", [make_facts(**BASELINE)])
    fill_cells(empty_place, "new", [make_facts(engine_version="0.26.0", **DRAFT)])
    return empty_place


@pytest.mark.usefixtures("other_engine")
def test_cells_without_a_partner_are_listed_with_the_field_and_both_values() -> None:
    known = data.answer(open_shelf(), _question(statistic="p50"))

    reasons = known.unmatched.rows.column("reason").to_pylist()
    assert known.unmatched.total == 2
    assert all("engine version" in r and "0.26.0" in r and "0.25.1" in r for r in reasons)
    assert not known.titles


@pytest.mark.usefixtures("other_engine")
def test_a_page_without_pairs_says_so_and_shows_the_reasons() -> None:
    page = AppTest.from_file(APP, default_timeout=30).run()

    assert not page.exception
    assert "No cell has a partner" in page.info[0].value
    assert any("Without a partner: 2 cells" in text.value for text in page.markdown)


@pytest.mark.usefixtures("other_engine")
def test_a_difference_that_is_allowed_makes_the_pair_and_marks_it() -> None:
    question = _question(statistic="p50", allow=("engine_version",))

    found = data.study(open_shelf(), question)

    rows = pair_rows(found, "p50")
    assert len(rows) == len(panels.CHARTED)
    assert set(rows["allowed"]) == {"engine_version"}
    assert found.unmatched.empty


@pytest.mark.usefixtures("warehouse")
def test_the_csv_holds_the_pairs_unrounded() -> None:
    shelf, question = open_shelf(), _question(statistic="p50")
    found = data.study(shelf, question)

    read = pd.read_csv(io.StringIO(compare.csv_text(shelf, question)), keep_default_na=False)

    assert len(read) == len(panels.charted(found.pairs, "p50"))
    row = read.iloc[0]
    same = found.pairs[
        (found.pairs["speculative_id"] == row["speculative_id"])
        & (found.pairs["metric"] == row["metric"])
        & (found.pairs["statistic"] == row["statistic"])
    ].iloc[0]
    assert row["improvement"] == same["improvement"]
    assert row["baseline"] == same["baseline"]


def test_levels_with_prompts_and_seeds_of_their_own_share_one_panel(
    empty_place: Path, fill_cells: Fill, make_facts: Callable[..., Facts]
) -> None:
    for name, arm in (("base", BASELINE), ("draft", DRAFT)):
        known = [
            make_facts(concurrency=level, prompt_set_hash=f"{level:032x}", seed=level, **arm)
            for level in (1, 2, 4)
        ]
        fill_cells(empty_place, name, known)

    known_answer = data.answer(open_shelf(), _question(statistic="p50"))

    assert list(known_answer.titles) == ["code · TP 1"]
    assert sorted(set(known_answer.levels["concurrency"])) == [1, 2, 4]


def test_two_drafts_with_one_label_are_two_arms_with_their_names(
    empty_place: Path, fill_cells: Fill, make_facts: Callable[..., Facts]
) -> None:
    fill_cells(empty_place, "base", [make_facts(**BASELINE)])
    for draft in ("one", "two"):
        fill_cells(empty_place, draft, [make_facts(**(DRAFT | {"draft_model": draft}))])

    levels = data.answer(open_shelf(), _question(statistic="p50")).levels

    assert set(levels["arm"]) == {"draft_model K=3 (one)", "draft_model K=3 (two)"}


def test_at_most_twelve_panels_are_drawn(
    empty_place: Path, fill_cells: Fill, make_facts: Callable[..., Facts]
) -> None:
    names = [f"set {i}" for i in range(MOST_PANELS + 2)]
    for arm in (BASELINE, DRAFT):
        known = [make_facts(dataset=name, **arm) for name in names]
        fill_cells(empty_place, arm["spec_method"], known)

    known_answer = data.answer(open_shelf(), _question(statistic="p50"))

    assert len(known_answer.titles) == MOST_PANELS + 2
    assert len(answers.improvement_drawings(known_answer, "ttft")) == MOST_PANELS


@pytest.mark.usefixtures("warehouse")
def test_the_table_stands_in_the_order_of_the_study() -> None:
    rows = data.answer(open_shelf(), _question(statistic="p50")).totals.rows.to_pylist()

    assert [row["metric"].split(" (")[0] for row in rows[:6]] == [
        "Output throughput", "Total throughput", "Time to first token", "Time per output token",
        "Inter-token latency", "Request latency median",
    ]  # fmt: skip
    assert all(row["improvement"][0] in "+-" for row in rows)
