"""Reports that a reader drops: compared like any other, refused alike, and gone afterwards."""

import tempfile
from pathlib import Path
from typing import Any

import pytest
import zstandard
from streamlit.testing.v1 import AppTest

from answers.compare import uploaded
from answers.compare.values import Question
from dashboard import data, upload
from dashboard.answers import upload as answers_upload
from dashboard.data import upload as data_upload
from dashboard.shelf import open_shelf
from dashboard.upload import MOST_FILES, MOST_MB, Report, Uploaded, take_in
from tests.conftest import Drop, recorded_drop
from warehouse.errors import InvalidInput
from warehouse.filters import Filters

BASELINE, DRAFT = recorded_drop("code", "none"), recorded_drop("code", "draft_model", 3)
HOSTILE = "../../<b onmouseover=alert(1)>.json"


def _report(drop: Drop) -> Report:
    return Report(drop.report.name, drop.report.read_bytes(), drop.stated)


@pytest.fixture(scope="module")
def lab() -> Uploaded:
    """Both arms of the laptop lab and a file that is no report."""
    return take_in([_report(BASELINE), _report(DRAFT), Report(HOSTILE, b'{"a": 1}')])


def test_two_reports_are_compared_without_any_warehouse(lab: Uploaded) -> None:
    assert lab.held is not None
    told = answers_upload.upload(uploaded.told(lab.held, None, Question()))

    assert told.cells.total == BASELINE.levels + DRAFT.levels
    assert told.page is not None
    assert "a draft model with 3 draft tokens" in told.page.headline
    assert len(told.drawings) == 1


def test_a_file_that_is_no_report_is_refused_with_the_reason_of_ingest(lab: Uploaded) -> None:
    assert lab.rejections == (
        (
            HOSTILE,
            "This is neither a GuideLLM report, a vllm bench result nor a run of a vllm bench sweep: "
            "give the JSON file that the load generator wrote.",
        ),
    )


def test_nothing_stays_on_the_disk_and_the_real_warehouse_is_untouched(
    warehouse: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    before = {path: path.stat().st_mtime_ns for path in warehouse.rglob("*")}

    take_in([_report(BASELINE)])

    assert list(tmp_path.iterdir()) == []
    assert {path: path.stat().st_mtime_ns for path in warehouse.rglob("*")} == before


def test_an_uploaded_arm_finds_its_baseline_in_the_warehouse(
    empty_place: Path, lab: Uploaded
) -> None:
    from click.testing import CliRunner

    from draftboard import cli

    words = ["ingest", str(BASELINE.report), *(f"--set={fact}" for fact in BASELINE.stated)]
    assert CliRunner().invoke(cli, [*words, "--warehouse", str(empty_place)]).exit_code == 0
    mine = take_in([_report(DRAFT)])

    together = data_upload.upload(open_shelf(), Filters(), mine)
    alone = data_upload.upload(open_shelf(), None, mine)
    both = data_upload.upload(open_shelf(), None, lab)

    assert together.page is not None
    assert alone.page is not None
    assert both.page is not None
    assert together.page.headline == both.page.headline
    assert not alone.page.titles
    assert len(data.cells(open_shelf(), Filters())) == BASELINE.levels


def test_a_wrong_fact_is_one_sentence() -> None:
    with pytest.raises(InvalidInput, match="does not know the key 'gpuu'"):
        take_in([Report("a.json", b"{}", ("gpuu=3",))])


def test_too_much_is_refused_before_anything_is_read() -> None:
    with pytest.raises(InvalidInput, match=f"larger than {MOST_MB} MB"):
        take_in([Report("large.json", b" " * ((MOST_MB << 20) + 1))])
    with pytest.raises(InvalidInput, match=f"at most {MOST_FILES}"):
        take_in([Report("a.json", b"{}")] * (MOST_FILES + 1))


def test_a_file_that_unpacks_without_end_is_refused() -> None:
    bomb = zstandard.compress(b"[" + b" " * (512 << 20))

    told = take_in([Report("bomb.json.zst", bomb)])

    assert told.held is None
    assert len(told.rejections) == 1


def test_what_takes_too_long_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upload, "_SECONDS", 0.05)

    told = take_in([_report(BASELINE)])

    assert "too much time" in told.rejections[0][1]


def _page(mine: Uploaded | None) -> AppTest:
    def script():  # type: ignore[no-untyped-def]  # its text alone becomes a script
        from dashboard.shelf import open_shelf
        from dashboard.views import uploaded
        from warehouse.filters import Filters

        uploaded.render(open_shelf(), Filters())

    page = AppTest.from_function(script, default_timeout=60)
    if mine is not None:
        page.session_state["uploaded_reports"] = mine
    page.run()
    assert not page.exception, page.exception
    return page


@pytest.mark.usefixtures("warehouse")
def test_the_page_shows_the_answer_and_what_was_refused_as_text(lab: Uploaded) -> None:
    page = _page(lab)

    assert "a draft model with 3 draft tokens" in page.header[0].value
    assert page.get("vega_lite_chart")
    shown = {str(v) for frame in page.dataframe for v in frame.value.to_numpy().ravel()}
    assert HOSTILE in shown
    assert not any(element.allow_html for element in page.markdown)


@pytest.mark.usefixtures("warehouse")
def test_the_page_without_reports_asks_for_them() -> None:
    page = _page(None)

    assert page.header[0].value == "Compare a report of your own"
    assert page.button[0].disabled


def test_files_that_hold_no_result_say_so(warehouse: Any) -> None:
    page = _page(take_in([Report("a.json", b"{}")]))

    assert page.header[0].value == "None of these files holds a result"
    assert page.dataframe
