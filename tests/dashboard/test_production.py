"""What was recorded of a server in production stands on Trends: a sentence, and a table when it is opened."""

import shutil
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from answers.live.values import chosen, headline
from tests.dashboard.opening import opened
from warehouse import annotations
from warehouse.annotations import RecordedStanding, RecordedSubject
from warehouse.filters import Filters

ABOUT = RecordedSubject(
    "laptop-lab", "lab-target", "AMD EPYC", "vllm", 1, "cpu", "structured", "throughput"
)
LAST = datetime(2026, 11, 27, 12, tzinfo=UTC)
HELD = RecordedStanding(
    LAST - timedelta(hours=2), ABOUT, "holds", "Holds: at 1 at once draft_model K=5 is what the decision takes.",
    "draft_model K=5", "draft_model K=5", 1.0, 5.1, 5.06, 0.883,
)  # fmt: skip
MOVED = replace(HELD, at=LAST, standing="no longer holds", takes="ngram K=3", length=2.54,
                sentence="No longer holds: a step yields 2.54 tokens.", gain=-0.03)  # fmt: skip
BEFORE = replace(MOVED, at=LAST - timedelta(hours=1))


def test_the_headline_says_since_when_it_stands_as_it_does() -> None:
    (records,) = chosen((HELD, MOVED, BEFORE), Filters())
    assert records == (MOVED, BEFORE, HELD)
    assert headline(records) == (
        "In production the decision no longer holds since 2026-11-27 11:00 UTC (3 looks): lab-target on structured  [CPU lab]"
    )
    assert "decision holds since 2026-11-27 10:00" in headline((HELD,))
    assert "cannot be judged since" in headline((replace(HELD, standing="cannot say"),))


@pytest.mark.parametrize(
    ("filters", "count"),
    [(Filters(study=("laptop-lab",)), 1), (Filters(study=("mine",)), 0), (Filters(model=("lab-target",)), 1),
     (Filters(gpu=("H200",)), 0), (Filters(since="2026-11-28"), 0), (Filters(until="2026-11-27"), 1)],
)  # fmt: skip
def test_study_model_gpu_and_days_choose_what_is_shown(filters: Filters, count: int) -> None:
    assert len(chosen((HELD,), filters)) == count


def test_trends_says_it_and_lists_the_looks(first_lab: Path, empty_place: Path) -> None:
    shutil.copytree(first_lab, empty_place)
    for one in (HELD, BEFORE, MOVED):
        annotations.append_lines(empty_place, annotations.STANDINGS_FILE, one)
    page = opened("trends", production="true")
    labels = [part.label for part in page.expander]
    assert any("In production the decision no longer holds since" in label for label in labels)
    assert any("a step yields 2.54 tokens" in text.value for text in page.markdown)
    (table,) = (x.value for x in page.dataframe if "tokens a step" in x.value.columns)
    assert table["standing"].tolist() == ["no longer holds", "no longer holds", "holds"]
    assert table["tokens a step"].tolist() == ["2.54", "2.54", "5.10"]
