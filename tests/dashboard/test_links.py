"""Links: what a link asks for is shown, what is gone is said, an error is one sentence."""

import logging
from collections.abc import Callable
from datetime import date
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from dashboard import links
from dashboard.filters import LABELS
from warehouse.contract import Facts
from warehouse.errors import InvalidInput

APP = Path(__file__).parents[2] / "dashboard" / "frame.py"


def _app(**asked: str | list[str]) -> AppTest:
    page = AppTest.from_file(APP, default_timeout=60)
    for name, value in asked.items():
        page.query_params[name] = value
    page.run()
    assert not page.exception, page.exception
    return page


def _warnings(page: AppTest) -> list[str]:
    return [element.value.replace("\\", "") for element in page.warning]


@pytest.mark.usefixtures("warehouse")
def test_a_link_chooses_what_its_sender_chose() -> None:
    page = _app(dataset=["code", "structured"])

    assert page.multiselect(key="dataset").value == ["code", "structured"]
    assert not page.warning


@pytest.mark.usefixtures("warehouse")
def test_values_that_are_gone_are_named_and_the_others_stay() -> None:
    page = _app(dataset=["code", "<b>gone</b>"], gpu="A100")

    assert page.multiselect(key="dataset").value == ["code"]
    assert _warnings(page) == [
        "The link asks for Dataset <b>gone</b>, which does not exist here.",
        "The link asks for GPU A100, which does not exist here.",
    ]


@pytest.mark.usefixtures("warehouse")
def test_a_link_to_what_is_gone_shows_no_verdict_until_its_reader_says_so() -> None:
    page = _app(dataset=["code", "gone"])
    assert not page.header
    assert not page.run().header

    _proceed(page)

    assert page.header
    assert not page.warning
    assert page.multiselect(key="dataset").value == ["code"]


def _proceed(page: AppTest) -> None:
    next(b for b in page.button if b.label == "Show the page without it").click().run()


def _controls() -> None:
    import streamlit as st

    from dashboard import links

    asked = links.parameters()
    if links.report_gone(asked, {}, "this view"):
        return
    st.selectbox("Metric", ["ttft", "itl"], key="metric", bind="query-params")
    st.number_input("K", 1, 9, 3, key="k", bind="query-params")
    st.header("A verdict")
    links.read_whole(asked, {})


def _asked(**asked: str) -> AppTest:
    page = AppTest.from_function(_controls)
    for name, value in asked.items():
        page.query_params[name] = value
    return page.run()


def test_a_control_of_a_page_that_cannot_be_set_so_is_named_too() -> None:
    page = _asked(metric="beauty", k="5")

    assert _warnings(page) == ["The link asks for metric beauty, which does not exist here."]
    assert not page.header
    _proceed(page)
    assert page.header
    assert page.selectbox(key="metric").value == "ttft"
    assert page.number_input(key="k").value == 5


def test_a_default_and_a_number_written_otherwise_are_no_loss() -> None:
    assert not _asked(metric="ttft", k="5.0").warning


@pytest.mark.usefixtures("warehouse")
def test_the_warning_goes_when_the_reader_moves_on() -> None:
    page = _app(dataset="gone")
    page.run()
    assert page.warning

    page.multiselect(key="dataset").set_value(["code"]).run()

    assert not page.warning
    assert page.header


@pytest.mark.parametrize(
    ("asked", "left", "told"),
    [
        ({"arm": ["a", "b"]}, {"arm": ["a"]}, ["Arm b"]),
        ({"k": ["5"]}, {"k": ["5.0"]}, ["k 5"]),
        ({"unbound": ["x"]}, {"unbound": ["x"]}, []),
        ({links.CELL: ["x"]}, {}, []),
        ({"page_size": ["9"]}, {}, ["page size 9"]),
    ],
)
def test_what_is_gone(
    asked: dict[str, list[str]], left: dict[str, list[str]], told: list[str]
) -> None:
    assert links.gone(asked, left, LABELS) == told


def test_a_cell_is_linked_by_its_identity() -> None:
    assert links.cell_link("a&b") == "data?open=a%26b"


def _broken(error):  # type: ignore[no-untyped-def]  # its text alone becomes a script
    from dashboard.frame import guarded

    def draw() -> None:
        raise error

    guarded(draw)


def test_a_mistake_of_the_reader_is_one_sentence() -> None:
    error = InvalidInput("The file <x> is empty.")

    page = AppTest.from_function(_broken, args=(error,)).run()

    assert not page.exception
    assert page.error[0].value.replace("\\", "") == "The file <x> is empty."


def test_a_mistake_of_ours_is_one_sentence_and_its_traceback_goes_to_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.ERROR):
        page = AppTest.from_function(_broken, args=(KeyError("secret name"),)).run()

    assert not page.exception
    assert "cannot be drawn (KeyError)" in page.error[0].value.replace("\\", "")
    assert "secret name" not in page.error[0].value
    assert "secret name" in caplog.text


def test_the_study_is_a_filter(
    empty_place: Path, fill_cells: Callable[..., None], make_facts: Callable[..., object]
) -> None:
    fill_cells(empty_place, "one", [make_facts(study="spring"), make_facts(study="autumn")])

    page = _app(study="spring")

    assert page.multiselect(key="study").options == ["autumn", "spring"]
    assert page.multiselect(key="study").value == ["spring"]


@pytest.mark.usefixtures("warehouse")
def test_days_in_a_link_bound_when_cells_started() -> None:
    page = _app(since="2026-11-02", until="2026-11-02")

    assert page.date_input(key="since").value == date(2026, 11, 2)
    assert not page.warning
    assert "Remove one in the sidebar" in _app(since="2026-11-03").info[0].value
    assert "Remove one in the sidebar" in _app(until="2026-11-01").info[0].value


@pytest.mark.usefixtures("warehouse")
def test_a_day_that_is_none_is_named() -> None:
    page = _app(since="yesterday")

    assert _warnings(page) == [
        "The link asks for Started from (UTC) yesterday, which does not exist here."
    ]


def test_the_subject_of_a_verdict_can_be_kept_on_every_page(
    empty_place: Path, fill_cells: Callable[..., None], make_facts: Callable[..., Facts]
) -> None:
    draft = {"spec_method": "draft_model", "num_speculative_tokens": 3}
    for model in ("lab/tiny-target", "lab/other"):
        arms = ({"spec_method": "none"}, draft)
        known = [make_facts(model=model, concurrency=4, **arm) for arm in arms]
        fill_cells(empty_place, model.partition("/")[2], known)
    page = _app()

    page.button(key="only").click().run()

    # Subjects stand in the order of the results' paths.
    assert page.multiselect(key="model").value == ["lab/other"]
    assert page.multiselect(key="gpu").value == ["H200"]
    assert page.multiselect(key="engine_version").value == ["0.25.1"]
    assert "only" not in [button.key for button in page.button]


def _boxes(options):  # type: ignore[no-untyped-def]  # its text alone becomes a script
    import streamlit as st

    from dashboard.links import follow_first

    known = st.session_state.get("known", options)
    follow_first("arm", known)
    st.selectbox("Arm", known, key="arm", bind="query-params")


@pytest.mark.parametrize(("chosen", "then"), [(None, "c"), ("b", "b")])
def test_a_box_that_nobody_set_follows_its_first_option(chosen: str | None, then: str) -> None:
    page = AppTest.from_function(_boxes, args=(["a", "b", "c"],)).run()
    if chosen:
        page.selectbox(key="arm").set_value(chosen).run()

    page.session_state["known"] = ["c", "b", "a"]
    page.run()

    assert page.selectbox(key="arm").value == then
