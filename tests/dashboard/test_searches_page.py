"""The searches on Trends, from what a search on the FAKE engine kept of itself: begun, and proven (the
study's name is another in each)."""

from pathlib import Path

import pandas as pd
import pytest
from streamlit.testing.v1 import AppTest

from tests.dashboard.opening import opened
from warehouse.beside import write_search
from warehouse.filters import Filters

KEPT = Path(__file__).with_name("searches")


@pytest.fixture
def place(empty_place: Path, fill_cells, make_facts) -> Path:
    """A warehouse with a cell."""
    fill_cells(empty_place, "a cell", [make_facts()])
    return empty_place


def shown(place: Path, *names: str, filters: Filters | None = None, **link: str) -> AppTest:
    for name in names:
        write_search(place, name, (KEPT / f"{name}.json").read_text())
    return opened("trends", filters, searches="true", **link)


def texts(page: AppTest) -> str:
    said = [*page.markdown, *page.caption, *page.info]
    return "\n".join(element.value.replace("\\", "") for element in said)


def tables(page: AppTest, column: str) -> list[pd.DataFrame]:
    return [frame.value for frame in page.dataframe if column in frame.value.columns]


def labels(page: AppTest) -> list[str]:
    said = [box.label.replace("\\", "") for box in page.expander]
    return [label for label in said if label.startswith("Search")]


def test_without_a_search_nothing_is_shown_of_one(place: Path) -> None:
    page = shown(place)

    assert not labels(page)
    assert not tables(page, "candidate")


def test_a_search_that_has_begun_shows_its_candidates_and_what_comes_next(place: Path) -> None:
    page = shown(place, "begun")

    assert labels(page)[0].startswith("Search begun: ")
    (found,) = tables(page, "candidate")
    assert list(found["candidate"]) == ["baseline", "draft-k1", "draft-k2", "draft-k3", "ngram-k2"]
    assert list(found["state"]) == ["measured", *["not measured yet"] * 4]
    assert "Next: r0-draft-k3-tp1, everywhere, about 3.3 minutes: nothing can be said" in texts(
        page
    )


def test_a_search_that_is_over_shows_what_was_promised_and_proven(place: Path) -> None:
    page = shown(place, "proven")

    assert labels(page)[0].startswith("Search proven (2026-11-24): decided, ")
    (proof,) = tables(page, "promised, 95 %")
    assert set(proof["against"]) == {"baseline", "runner-up"}
    (found,) = tables(page, "candidate")
    states = dict(zip(found["candidate"], found["state"], strict=True))
    assert states["draft-k3"] == "leads everywhere"
    assert states["ngram-k2"] == "out: numbers at 1: The server ended with status 3."
    (loads,) = tables(page, "rival")
    assert list(loads["state"]) == ["settled", "settled"]
    assert "kept its promise" in texts(page)


def test_of_two_searches_the_link_chooses_and_a_study_hides_the_others(place: Path) -> None:
    page = shown(place, "proven", "begun", search="proven")

    assert tables(page, "promised, 95 %")
    assert labels(shown(place, filters=Filters(study=("lab",)))) == []
