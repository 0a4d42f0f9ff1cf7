"""Notes and exclusions in the dashboard: what editors write, what everybody sees, what changes."""

import json
import shutil
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import vl_convert
from streamlit import config
from streamlit.testing.v1 import AppTest

from analysis.nightly.regressions import Budgets
from answers import explore as read_explore
from answers.decide.answer import decide
from answers.decide.overview import overviews
from answers.decide.values import DecideQuestion
from answers.explore import KEYS, Measure, Pick
from answers.report import ReportRequest, report
from answers.runs import notes
from answers.runs import read as read_runs
from answers.runs.read import RunRow
from answers.trend import answer as read_trend
from answers.trend.answer import watch
from dashboard import annotating
from dashboard.doors.access import NotAllowed, User, require_role
from dashboard.downloads import html
from dashboard.filters import cells
from dashboard.shelf import ask, open_shelf
from tests.dashboard.opening import opened
from warehouse import annotations
from warehouse.annotations import AnnotationTarget, add, annotation, excluded_runs, read
from warehouse.contract import Facts
from warehouse.filters import Filters
from warehouse.rows import Measurement
from warehouse.storage import question

Fill = Callable[..., None]
FILTERS = Filters(gpu=("H200",))
HOSTILE = "<img src=x onerror=alert(1)> **bold** $x$ :red[y]"
FIRST = datetime(2026, 11, 2, 22, tzinfo=UTC)


def _open(path: str, filters: Filters = FILTERS, **asked: str) -> AppTest:
    return opened(path, filters, **asked)


@pytest.fixture
def own(filled: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the filled warehouse, to write on, as the one that the dashboard opens."""
    root = tmp_path / "own"
    shutil.copytree(filled, root)
    monkeypatch.setenv("DRAFTBOARD_WAREHOUSE", str(root))
    return root


def _runs(filters: Filters = FILTERS) -> tuple[RunRow, ...]:
    return ask(open_shelf().with_excluded(), read_runs.runs, filters).runs


def _runs_of(arm: str) -> list[RunRow]:
    return [run for run in _runs() if run.arms == (arm,)]


def _say(root: Path, action: str, arm: str, text: str = "GPU throttled") -> None:
    for run in _runs_of(arm):
        add(root, annotation(action, run.target, text, "Ann"))  # type: ignore[arg-type]


def _best_arm() -> str:
    (subject,) = overviews(decide(open_shelf().reader, DecideQuestion(FILTERS)).decisions)
    return subject.leads[0].arm


def _text(elements: Any) -> str:
    return "\n".join(element.value for element in elements).replace("\\", "")


def test_an_exclusion_changes_verdict_and_compare_at_once_and_taking_back_undoes_it(
    own: Path,
) -> None:
    before = (
        _best_arm(),
        _open("compare").header[0].value,
        len(cells(open_shelf(), FILTERS)),
    )
    assert before[0].startswith("eagle3")

    _say(own, "exclude", "eagle3 K=5")
    assert _best_arm().startswith("draft_model")
    assert "a draft model with 3 draft tokens" in _text(_open("compare").header)
    assert "a draft model" in _text(_open("decide").header)
    assert len(cells(open_shelf(), FILTERS)) == before[2] - 10

    _say(own, "include", "eagle3 K=5", "it did not")
    after = (
        _best_arm(),
        _open("compare").header[0].value,
        len(cells(open_shelf(), FILTERS)),
    )
    assert after == before


def test_a_note_costs_no_page_its_cache(own: Path) -> None:
    kept = cells(open_shelf(), FILTERS)

    _say(own, "note", "eagle3 K=5")

    assert cells(open_shelf(), FILTERS) is kept


def test_a_question_in_sql_and_explore_follow(own: Path) -> None:
    pick = Pick(
        Measure("output_throughput", "mean"), KEYS["Concurrency"], KEYS["Arm"], None, "mean"
    )
    sql = "select count(*) as n from cells"

    def counted() -> tuple[int, int]:
        shelf = open_shelf()
        behind = ask(shelf, read_explore.cells, pick, FILTERS).total
        return behind, question.ask(own, sql).rows.to_pylist()[0]["n"]

    before = counted()
    _say(own, "exclude", "eagle3 K=5")

    assert counted() == (before[0] - 10, before[1] - 10)


def test_runs_shows_what_is_excluded_with_reason_author_and_time(own: Path) -> None:
    _say(own, "exclude", "eagle3 K=5")
    run_id = _runs_of("eagle3 K=5")[0].name

    page = _open("data", run=run_id)

    said = _text(page.warning)
    event = read(own)[0]
    assert f"Excluded by name: GPU throttled (Ann, {event.at:%Y-%m-%d %H:%M} UTC)" in said
    assert "2 runs excluded by name" in _text(page.header)
    rows = next(frame.value for frame in page.dataframe if "excluded" in frame.value)
    told = list(rows.loc[rows["excluded"] != "", "run"])
    assert told == [run.run_id for run in _runs_of("eagle3 K=5")]


def test_runs_without_exclusions_has_no_column_for_them(own: Path) -> None:
    assert own.exists()
    page = _open("data")

    assert not any("excluded" in frame.value for frame in page.dataframe)
    assert "excluded" not in _text(page.header)


def _write(page: AppTest, label: str, text: str) -> None:
    next(field for field in page.text_input if field.label == label).set_value(text)


def _press(page: AppTest, label: str) -> AppTest:
    next(button for button in page.button if button.label == label).click()
    page.run()
    assert not page.exception, page.exception
    return page


def test_an_editor_writes_a_note_excludes_a_run_and_takes_it_back(own: Path) -> None:
    page = _open("data")
    _write(page, "Note", "driver updated")
    _press(page, "Note")
    assert "local noted: driver updated" in _text(page.markdown)

    _write(page, "Reason", "GPU throttled")
    _press(page, "Exclude this run")
    assert "Excluded by name: GPU throttled (local, " in _text(page.warning)
    assert len(excluded_runs(own)) == 1

    _write(page, "Reason", "it did not")
    _press(page, "Take this run back")
    assert not page.warning
    assert excluded_runs(own) == {}
    assert [event.action for event in read(own)] == ["note", "exclude", "include"]
    assert {event.author for event in read(own)} == {"local"}


def test_a_note_without_a_text_is_a_sentence(own: Path) -> None:
    page = _press(_open("data"), "Note")

    assert "A note needs a text" in _text(page.error)
    assert read(own) == ()


@pytest.fixture
def _viewer(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    before = config.get_option("server.address")
    config.set_option("server.address", "0.0.0.0")
    monkeypatch.setenv("DRAFTBOARD_OPEN_TO_EVERYONE", "viewer")
    yield
    config.set_option("server.address", before)


def test_an_admin_reads_the_audit_trail_and_nobody_else(
    own: Path, request: pytest.FixtureRequest
) -> None:
    _say(own, "note", "eagle3 K=5", "driver updated")

    rows = _open("data", part="Audit").dataframe[0].value
    assert set(rows["why"]) == {"driver updated"}
    assert set(rows["who"]) == {"Ann"}

    request.getfixturevalue("_viewer")
    assert "driver updated" not in str(
        [table.value for table in _open("data", part="Audit").dataframe]
    )
    with pytest.raises(NotAllowed):
        require_role(User("Ed", "", "editor"), "admin")


@pytest.mark.usefixtures("_viewer")
def test_a_viewer_sees_what_was_said_and_has_no_form(own: Path) -> None:
    _say(own, "note", "eagle3 K=5", "driver updated")
    _say(own, "exclude", "eagle3 K=5")

    page = _open("data", run=_runs_of("eagle3 K=5")[0].name)

    assert "GPU throttled" in _text(page.warning)
    assert "Ann noted: driver updated" in _text(page.markdown)
    assert not page.button
    assert not _open("trends").button


@pytest.fixture(scope="module")
def nights(
    tmp_path_factory: pytest.TempPathFactory, fill_cells: Fill, make_facts: Callable[..., Facts]
) -> Path:
    """What ``nightly`` is a copy of: nobody else touches it."""
    root = tmp_path_factory.mktemp("nights") / "warehouse"
    for place in range(6):
        for study in ("lab", "other"):
            values = (Measurement("canonical", "output_throughput", "mean", 100.0 + place % 2),)
            fill_cells(
                root, f"{study} {place}", [make_facts(study=study)],
                started_at=FIRST + timedelta(days=place), measurements=values,
            )  # fmt: skip
    return root


@pytest.fixture
def nightly(nights: Path, empty_place: Path) -> Path:
    """Six nights of one cell of a study; another study ran in the same nights."""
    shutil.copytree(nights, empty_place)
    return empty_place


def _started(run: RunRow) -> datetime:
    assert run.started_at is not None
    return run.started_at


def _layers(page: AppTest) -> list[dict[str, Any]]:
    spec = json.loads(page.get("vega_lite_chart")[0].proto.spec)
    return [layer for layer in spec["layer"] if layer["mark"].get("shape") == "triangle-down"]


@pytest.mark.usefixtures("nightly")
def test_trends_shows_the_notes_of_a_series_nights_and_runs_and_marks_them(nightly: Path) -> None:
    only_lab = Filters(study=("lab",))
    assert not _layers(_open("trends", only_lab))
    mine = sorted(_runs(only_lab), key=_started)[2]
    for target, text in (
        (AnnotationTarget(night="2026-11-03"), "driver updated"),
        (AnnotationTarget(night="2026-11-03", study="other"), "of the other study"),
        (AnnotationTarget(night="2027-11-03"), "of no night here"),
        (mine.target, "GPU was warm"),
    ):
        add(nightly, annotation("note", target, text, "Ann"))

    page = _open("trends", only_lab, behind="true")

    tables = [frame.value for frame in page.dataframe]
    noted = next(rows for rows in tables if "text" in rows)
    assert list(zip(noted["night"], noted["text"], strict=True)) == [
        ("2026-11-04", "GPU was warm"), ("2026-11-03", "driver updated"),
    ]  # fmt: skip
    nights = next(rows for rows in tables if "notes" in rows)
    said = dict(zip(nights["night"].str[:10], nights["notes"], strict=True))
    assert said["2026-11-03"] == "driver updated"
    assert said["2026-11-02"] == ""
    assert len(_layers(page)) == 1
    assert "a note" in _text(page.caption)


@pytest.mark.usefixtures("nightly")
def test_a_night_whose_runs_are_excluded_stays_marked(nightly: Path) -> None:
    only_lab = Filters(study=("lab",))
    target = sorted(_runs(only_lab), key=_started)[3].target
    add(nightly, annotation("exclude", target, "GPU throttled", "Ann"))

    page = _open("trends", only_lab)

    shelf = open_shelf()
    line = watch(ask(shelf, read_trend.watched, only_lab), Budgets()).lines[0]
    assert "2026-11-05" not in line.days
    version = annotating.notes_version(shelf)
    of_it = ask(shelf.with_excluded(), notes.of_series, only_lab, line.about, version)
    assert [placed.night for placed in of_it] == ["2026-11-05"]
    assert len(_layers(page)) == 1


@pytest.mark.usefixtures("nightly")
def test_an_editor_notes_a_night_for_a_study_or_for_all(nightly: Path) -> None:
    page = _open("trends", Filters(study=("lab",)))
    page.selectbox(key="noted-night").set_value("2026-11-05")
    page.checkbox(key="noted-night-study").set_value(True)
    _write(page, "Note", "driver updated")
    _press(page, "Note on the night")

    assert [event.target for event in read(nightly)] == [
        AnnotationTarget(night="2026-11-05", study="lab")
    ]
    assert any("driver updated" in frame.value.to_numpy() for frame in page.dataframe)


def test_the_report_says_what_was_noted_and_what_it_leaves_out(own: Path) -> None:
    assert "was noted" not in html(
        report(open_shelf().reader, ReportRequest(DecideQuestion(FILTERS)))
    )
    _say(own, "note", "draft_model K=3", "GPU 3 was warm")
    add(own, annotation("note", AnnotationTarget(night="2026-11-02"), "driver updated", "Bo"))
    _say(own, "exclude", "eagle3 K=5")

    made = report(open_shelf().reader, ReportRequest(DecideQuestion(FILTERS)))

    assert "a draft model" in made.headline
    assert dict(made.scope)["Left out"].startswith("2 runs are excluded by name: GPU throttled (")
    points = next(s for s in made.sections if s.title == "What was noted on these runs?").points
    assert any(text.endswith("Bo noted on night 2026-11-02: driver updated") for text in points)
    assert any("Ann noted on run-" in text and "GPU 3 was warm" in text for text in points)
    assert any("Ann excluded run-" in text and "GPU throttled" in text for text in points)


def test_markup_in_a_note_is_text_wherever_it_stands(own: Path) -> None:
    _say(own, "note", "eagle3 K=5", HOSTILE)
    _say(own, "exclude", "eagle3 K=5", HOSTILE)
    add(own, annotation("note", AnnotationTarget(night="2026-11-02"), HOSTILE, HOSTILE[:30]))

    for path in ("data", "trends", "decide", "compare"):
        page = _open(path, run=_runs_of("eagle3 K=5")[0].name)
        said = [*page.header, *page.markdown, *page.caption, *page.info, *page.warning]
        assert all("<img" not in element.value.replace("\\<", "") for element in said)
        assert all("**bold**" not in element.value for element in said)
        assert not any(element.allow_html for element in page.markdown)
    written = html(report(open_shelf().reader, ReportRequest(DecideQuestion(FILTERS))))
    written = written.replace(vl_convert.javascript_bundle(), "")
    assert "&lt;img src=x" in written
    assert "<img" not in written


def test_excluding_everything_leaves_pages_that_say_what_to_do(own: Path) -> None:
    for arm in ("baseline", "eagle3 K=5", "draft_model K=3"):
        _say(own, "exclude", arm)

    for path in ("decide", "compare", "trends"):
        assert _open(path).info
    page = _open("data")
    assert "6 runs excluded by name" in _text(page.header)


def test_the_file_beside_the_results_is_all_that_was_written(own: Path) -> None:
    before = {p.name: p.stat().st_mtime_ns for p in own.rglob("*") if p.is_file()}

    _say(own, "exclude", "eagle3 K=5")
    _open("data")

    after = {p.name: p.stat().st_mtime_ns for p in own.rglob("*") if p.is_file()}
    assert {name for name in after if before.get(name) != after[name]} == {
        annotations.FILE, annotations.LOCK,
    }  # fmt: skip
