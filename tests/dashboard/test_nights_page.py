"""The last nights on Trends: when, what ran, how long, what changed, what failed."""

from pathlib import Path

import pandas as pd
import pytest
from streamlit.testing.v1 import AppTest

from nightly.nights import write_summary
from tests.dashboard.opening import opened
from tests.nightly.test_history import FINE, night, with_stages
from warehouse import annotations
from warehouse.filters import Filters

LATER = night(
    night="2026-11-22", started=night().started.replace(day=22), outcome="fine", verdict=FINE,
    regressions=(), failures=(), changed=(), stages=with_stages(),
)  # fmt: skip
OTHER = night(study="other", started=night().started.replace(hour=20), outcome="incomplete")


@pytest.fixture
def place(empty_place: Path, fill_cells, make_facts) -> Path:
    """A warehouse with three nights of two studies."""
    fill_cells(empty_place, "a cell", [make_facts()])
    for one in (night(), LATER, OTHER):
        write_summary(empty_place, one)
    return empty_place


def _opened(filters: Filters | None = None, **link: str) -> AppTest:
    return opened("trends", filters, last_nights="true", **link)


def _nights(page: AppTest) -> list[str]:
    """The nights of the table of nights."""
    return list(_table(page)["night"])


def _table(page: AppTest) -> pd.DataFrame:
    return next(frame.value for frame in page.dataframe if "outcome" in frame.value.columns)


def _texts(page: AppTest) -> str:
    said = [*page.header, *page.markdown, *page.caption, *page.info, *page.warning]
    return "\n".join(element.value.replace("\\", "") for element in said)


@pytest.mark.usefixtures("place")
def test_the_newest_night_is_the_label_of_the_fold_and_the_first_row() -> None:
    page = _opened()

    assert [box.label.replace("\\", "") for box in page.expander if "Last night" in box.label] == [
        "Last night, 2026-11-22, lab: nothing got worse"
    ]
    assert _nights(page) == ["2026-11-22", "2026-11-21", "2026-11-21"]
    assert "3 nights: 1 fine, 1 regression, 1 incomplete." in _texts(page)


@pytest.mark.usefixtures("place")
def test_a_row_says_how_long_what_changed_and_what_failed() -> None:
    row = _table(_opened(Filters(study=("lab",)))).iloc[1]

    assert row["cells good"] == "22 of 24"
    assert row["took"] == "6 min"
    assert row["got worse"] == "1 series, worst Output throughput -62.0 %"
    assert row["what changed"] == "engine_version: 0.31.0 → 0.32.0"
    assert row["what failed"] == "draft/tp1/code/c8-r0: The server ran out of memory."
    assert row["cost, USD"] == "12.30"


def test_what_people_noted_on_a_night_stands_with_it_and_not_with_others(place: Path) -> None:
    for day, study, text in [
        ("2026-11-22", None, "driver updated"), ("2026-11-22", "lab", "GPU was hot"),
        ("2026-11-22", "other", "not this study"), ("2026-11-21", None, "not this night"),
    ]:  # fmt: skip
        target = annotations.AnnotationTarget(night=day, study=study)
        annotations.add(place, annotations.annotation("note", target, text, "Ann"))

    page = _opened(night="2026-11-22, lab")

    (noted,) = [f.value for f in page.dataframe if "written (UTC)" in f.value.columns]
    assert set(noted["text"]) == {"driver updated", "GPU was hot"}


@pytest.mark.usefixtures("place")
def test_one_night_chosen_by_its_link_shows_its_summary() -> None:
    page = _opened(night="2026-11-21, lab")

    assert page.selectbox(key="night").value == "2026-11-21, lab"
    assert "Regression: something got worse. 22 of 24 cells good, 1 failed" in _texts(page)
    shown = {str(v) for frame in page.dataframe for v in frame.value.to_numpy().ravel()}
    assert {"-66.0 % to -58.0 %", "engine_version", "The server ran out of memory."} <= shown


@pytest.mark.usefixtures("place")
def test_study_and_days_choose_nights() -> None:
    assert list(_table(_opened(Filters(study=("other",))))["study"]) == ["other"]
    assert _nights(_opened(Filters(since="2026-11-22"))) == ["2026-11-22"]
    assert _nights(_opened(Filters(until="2026-11-21"))) == ["2026-11-21", "2026-11-21"]


@pytest.mark.usefixtures("place")
def test_filters_that_match_no_night_say_so() -> None:
    page = _opened(Filters(study=("no such study",)))

    assert "No night matches these filters" in page.info[-1].value


@pytest.mark.usefixtures("warehouse")
def test_without_a_night_the_page_says_how_to_begin_one() -> None:
    page = _opened()

    assert "Begin one with" in page.info[-1].value
    assert page.code[0].value == "draftboard nightly STUDY.yaml --results results"


def test_a_damaged_summary_is_said_and_the_others_are_shown(place: Path) -> None:
    (place / "nights" / "lab" / "2026-11-20T22-00-00Z.json").write_text("{")

    page = _opened()

    assert "2026-11-20T22-00-00Z.json is no summary of a night" in _texts(page)
    assert len(_nights(page)) == 3


def test_a_night_that_ends_appears_without_an_ingest(place: Path) -> None:
    page = _opened()
    write_summary(place, night(started=night().started.replace(day=23), night="2026-11-23"))
    page.run()

    assert _nights(page)[0] == "2026-11-23"


def test_markup_in_what_was_said_stays_text(place: Path) -> None:
    hostile = "<img src=x onerror=alert(1)> **bold** $x$"
    bad = night(
        started=night().started.replace(day=24), night="2026-11-24",
        stages=tuple(s.model_copy(update={"status": "failed", "said": hostile})
                     for s in with_stages()),
    )  # fmt: skip
    write_summary(place, bad)

    page = _opened()

    assert not any(element.allow_html for element in page.markdown)
    assert all("<img" not in element.value for element in (*page.markdown, *page.header))
    shown = {str(v) for frame in page.dataframe for v in frame.value.to_numpy().ravel()}
    assert hostile in shown
