"""What a search tells dashboards of itself, however it ends."""

from pathlib import Path

import pytest

from analysis.search.space import SearchArm, SearchPlace
from answers.search.board import Board, from_texts
from answers.search.live import live
from answers.search.values import LiveSearch, SearchPlan, SearchTerms
from commands.running.search import _telling
from commands.running.search_board import Telling
from warehouse.beside import SEARCHES, read_searches
from warehouse.errors import RunnerError
from warehouse.rows import Rejection
from warehouse.store import open_writer

PLANNED = SearchPlan(
    "mine", (SearchArm("baseline", "", 0), SearchArm("k3", '{"method": "ngram"}', 3)), (SearchPlace("code", 1.0),),
    {arm: tuple(f"{arm}-start-{turn}" for turn in range(8)) for arm in ("baseline", "k3")}, 10.0,
)  # fmt: skip


@pytest.fixture
def now() -> LiveSearch:
    """A search before its first launch."""
    return live(None, PLANNED, SearchTerms())


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A warehouse without a cell."""
    with open_writer(tmp_path / "warehouse") as writer:
        writer.reject(Rejection("results/broken.json", "Not a result: the file is empty."))
        writer.commit()
    return tmp_path / "warehouse"


def kept(place: Path) -> Board:
    (one,) = from_texts(read_searches(place))
    return one


def test_what_comes_next_is_printed_and_kept(
    place: Path, now: LiveSearch, capsys: pytest.CaptureFixture[str]
) -> None:
    Telling(place).next(now)

    one = kept(place)
    assert (one.phase, one.expected_min) == ("measuring", 10.0)
    assert one.doing == (
        "Next: baseline-start-0, everywhere, about 10.0 minutes: nothing can be said without it."
    )
    said = capsys.readouterr()
    assert one.doing in said.err
    assert "not measured yet" in said.err
    assert said.out == ""


@pytest.mark.parametrize(
    ("error", "why"),
    [(RunnerError("The race is paused."), "The race is paused."),
     (KeyboardInterrupt(), "It was interrupted.")],
)  # fmt: skip
def test_a_search_that_ends_before_its_end_is_kept_as_stopped(
    place: Path, now: LiveSearch, error: BaseException, why: str
) -> None:
    telling = Telling(place)
    telling.next(now)
    with pytest.raises(type(error)), telling:
        raise error

    one = kept(place)
    assert (one.phase, one.expected_min) == ("stopped", None)
    assert one.doing == f"{why} The same command goes on from here."


def test_where_there_is_no_warehouse_none_is_begun(tmp_path: Path, now: LiveSearch) -> None:
    Telling(tmp_path / "none").next(now)

    assert not (tmp_path / "none").exists()


def test_a_warehouse_that_is_named_shows_the_search_from_its_first_ingest_on(
    tmp_path: Path, now: LiveSearch
) -> None:
    place = tmp_path / "later"
    Telling(place, named=True).next(now)

    with open_writer(place) as writer:
        writer.reject(Rejection("results/broken.json", "Not a result: the file is empty."))
        writer.commit()

    assert kept(place).phase == "measuring"


@pytest.mark.parametrize(
    ("named", "shown"), [("{}/later", True), ("", False), ("s3://nobody/there", False)]
)
def test_a_search_is_kept_in_a_folder_that_is_named_and_nowhere_else(
    tmp_path: Path, now: LiveSearch, monkeypatch: pytest.MonkeyPatch, named: str, shown: bool
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("DRAFTBOARD_WAREHOUSE", named.format(tmp_path))

    _telling(None).next(now)

    assert [path.parent.parent for path in tmp_path.rglob("searches/*.json")] == (
        [tmp_path / "later"] if shown else []
    )


def test_a_file_that_cannot_be_written_is_said_once_and_ends_nothing(
    place: Path, now: LiveSearch, capsys: pytest.CaptureFixture[str]
) -> None:
    (place / SEARCHES).write_text("no folder")
    telling = Telling(place)

    telling.next(now)
    telling.next(now)

    assert capsys.readouterr().err.count("The dashboard does not show this search: ") == 1
