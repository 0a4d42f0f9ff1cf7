"""The first minute in a real browser: what the demo opens on, what a stranger sees once, what is chosen."""

import re

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.dashboard.browser.seen import LAB, PUBLISHED, fresh, keep, serious, settle, title, visit

pytestmark = pytest.mark.browser
FRONT = "Draftboard says whether speculative decoding pays where you serve"
#: The first screen, px.
SCREEN = 900


def _front(page: Page) -> int:
    return page.get_by_text(FRONT).count()


def test_the_demo_opens_on_the_gpu_with_sentence_and_picture_on_the_first_screen(
    page: Page, address: str
) -> None:
    visit(page, address)

    assert title(page).startswith("code: Open (one launch) at 128 at once: no arm gained there")
    body = page.get_by_test_id("stMain")
    expect(body).to_contain_text("draft_model K=2 on code: more at 1, less at 16, 128")
    expect(body).to_contain_text("crosses between 1 and 16")
    expect(body).to_contain_text("At 1 at once draft_model K=2 gave +9.9")
    expect(body).to_contain_text("measure where you serve")
    expect(body).to_contain_text("draftboard run lab-target-8b.yaml --results results")
    # The front for strangers stands above.
    assert _front(page) == 1
    for at in (0, 1):
        box = page.get_by_test_id("stVegaLiteChart").nth(at).locator("svg").bounding_box()
        assert box is not None
        assert box["y"] + box["height"] <= SCREEN
    page.get_by_role("combobox", name="Model and hardware", exact=True).click()
    offered = page.get_by_role("option").all_inner_texts()
    assert ["H200, vllm" in offered[0], "published" in offered[1], "CPU lab" in offered[2]] == [
        True
    ] * 3


def test_a_stranger_sees_the_front_once_and_nobody_with_a_link_does(
    page: Page, browser: Browser, address: str
) -> None:
    with fresh(browser) as other:
        visit(other, f"{address}/{LAB}")
        assert _front(other) == 0
    visit(page, address)
    assert _front(page) == 1

    with page.expect_response(re.compile("/seen$")):
        page.get_by_role("button", name="Look at the examples").click()

    settle(page)
    assert _front(page) == 0
    assert serious(page) == []
    visit(page, address)
    assert _front(page) == 0


def test_who_comes_with_two_files_finds_the_form_above_the_page(page: Page, address: str) -> None:
    visit(page, address)

    page.get_by_role("button", name="Drop your two files here").click()

    form = page.get_by_test_id("stFileUploaderDropzone")
    expect(form).to_be_visible()
    settle(page)
    box = form.bounding_box()
    assert box is not None
    assert box["y"] + box["height"] < SCREEN / 2


def test_what_is_chosen_stands_above_the_page_and_is_taken_back_there(
    page: Page, address: str
) -> None:
    visit(page, f"{address}/compare")
    frame = page.get_by_test_id("stSidebar")
    # One value can change nothing.
    expect(frame).to_contain_text("Tensor parallel size: 1")
    expect(frame.get_by_role("combobox", name="Tensor parallel size", exact=True)).to_have_count(0)
    keep(page, "Dataset", "structured")
    chip = page.get_by_test_id("stMain").get_by_role("button", name="Dataset: structured")

    chip.click()

    expect(chip).to_have_count(0)
    expect(page).not_to_have_url(re.compile("dataset="))


def test_the_published_study_draws_its_improvements_with_the_errors_marked(
    page: Page, address: str
) -> None:
    visit(page, f"{address}/?about={PUBLISHED}")

    chart = page.get_by_test_id("stVegaLiteChart")
    expect(chart).to_have_count(1)
    expect(chart).to_contain_text("SWE-bench, TP 1")
    expect(chart).to_contain_text("+9.3 % wrong sign: its row gives -9.2 %")
    expect(page.get_by_role("link", name="Its 8 figures")).to_be_visible()
