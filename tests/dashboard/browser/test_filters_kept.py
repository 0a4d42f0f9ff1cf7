"""Filters in a real browser: they stand in the address and follow the reader from page to page."""

import re
import threading
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, Route, expect

from dashboard.links import cell_link
from tests.dashboard.browser.seen import fresh, keep, ran, settle, shared, title, visit
from warehouse import queries
from warehouse.filters import Filters
from warehouse.store import Reader

pytestmark = pytest.mark.browser
#: The code of the controls that the frame's filters are made of.
CONTROLS_CODE = re.compile(r"/Multiselect\.[^/]*\.js$")


def _filter(page: Page) -> str:
    """What the frame shows as the chosen datasets."""
    box = page.get_by_test_id("stSidebar").get_by_test_id("stMultiSelect")
    return box.filter(has_text="Dataset").first.inner_text()


def test_a_filter_goes_to_the_address_and_a_reload_shows_the_same(page: Page, address: str) -> None:
    visit(page, address)
    opened = title(page)
    keep(page, "Dataset", "structured")
    expect(page).to_have_url(re.compile("dataset=structured"))
    settle(page)
    heading = page.get_by_role("heading", level=2).first
    expect(heading).not_to_have_text(opened)
    before = title(page)

    page.reload()

    settle(page)
    expect(heading).to_have_text(before)
    expect(page).to_have_url(re.compile("dataset=structured"))


def test_a_link_with_a_value_that_is_gone_says_so(page: Page, address: str) -> None:
    page.goto(f"{address}/?dataset=gone")

    expect(page.get_by_text("asks for Dataset gone")).to_be_visible()


def test_a_filter_is_kept_from_page_to_page(page: Page, address: str) -> None:
    visit(page, f"{address}/trends?dataset=structured")

    page.get_by_role("link", name="Data").click()

    expect(page).to_have_url(re.compile(r"/data\?.*dataset=structured"))
    settle(page)
    expect(page.get_by_role("combobox", name="Cell", exact=True)).to_have_value(
        re.compile("structured")
    )


@pytest.mark.parametrize(
    ("former", "there", "title"),
    [
        ("runs?dataset=structured", r"/data\?.*dataset=structured", "measured in"),
        ("explore?x1=Arm", r"/data\?.*x1=Arm", "over arm"),
        ("explore?part=SQL&sql=select+1+as+one", r"/data\?.*sql=", "in SQL"),
        ("claims", r"/data\?part=Published", "published figures"),
        ("nights", r"/trends\?last_nights=true", " worse"),
        ("verdict?dataset=structured", r"/\?.*dataset=structured", "Open (one launch) at 128"),
        ("decide", r"localhost:\d+/$", "Open (one launch) at 128"),
    ],
)
def test_a_former_address_leads_to_its_new_place(
    page: Page, address: str, former: str, there: str, title: str
) -> None:
    visit(page, f"{address}/{former}")

    expect(page).to_have_url(re.compile(there))
    expect(page.get_by_role("heading", level=2).first).to_contain_text(title)


def test_a_click_before_the_filters_are_drawn_does_not_lose_them(page: Page, address: str) -> None:
    """The browser takes along only what belongs to controls that it has drawn already."""
    clicked = threading.Event()
    waiting: list[Route] = []
    page.route(
        CONTROLS_CODE,
        lambda route: route.continue_() if clicked.is_set() else waiting.append(route),
    )
    page.goto(f"{address}/data?dataset=structured")
    # The placeholders of the controls stay for as long as their code is held back.
    ran(page)
    expect(page.get_by_test_id("stSidebar").get_by_test_id("stSkeleton")).not_to_have_count(0)
    assert waiting

    page.get_by_role("link", name="Trends").click()
    expect(page).to_have_url(re.compile("/trends"))
    clicked.set()
    for route in waiting:
        route.continue_()

    expect(page).to_have_url(re.compile(r"/trends\?.*dataset=structured"))
    settle(page)
    assert "structured" in _filter(page)
    # The browser knows the filter again: the next click keeps it, too.
    page.get_by_role("link", name="Compare").click()
    expect(page).to_have_url(re.compile(r"/compare\?.*dataset=structured"))
    settle(page)
    assert "structured" in _filter(page)


def test_going_back_shows_the_page_as_it_was_without_the_later_filter(
    page: Page, address: str
) -> None:
    visit(page, f"{address}/compare")
    page.get_by_role("link", name="Trends").click()
    expect(page).to_have_url(re.compile("/trends"))
    settle(page)
    keep(page, "Dataset", "structured")
    expect(page).to_have_url(re.compile("dataset=structured"))
    settle(page)

    page.go_back()

    expect(page).to_have_url(re.compile("/compare$"))
    settle(page)
    assert "structured" not in _filter(page)


def test_on_a_phone_whose_frame_is_folded_a_filter_is_kept(browser: Browser, address: str) -> None:
    with fresh(browser, viewport={"width": 390, "height": 844}) as page:
        visit(page, f"{address}/?dataset=structured")

        page.get_by_test_id("stExpandSidebarButton").click()
        page.get_by_role("link", name="Cost & capacity").click()

        expect(page).to_have_url(re.compile(r"/cost\?.*dataset=structured"))
        settle(page)
        assert "dataset=structured" in page.url


def test_a_cell_is_reached_by_its_link_and_the_address_then_names_it(
    page: Page, address: str, recorded: Path
) -> None:
    with Reader(recorded) as reader:
        known = queries.cells(reader, Filters(dataset=("structured",))).to_pylist()
    cell = next(row for row in known if row["concurrency"] == 16)

    visit(page, f"{address}/{cell_link(cell['cell_id'])}")

    name = re.escape(f"structured, {cell['arm_label']}, 16 at once")
    expect(page.get_by_role("combobox", name="Cell", exact=True)).to_have_value(re.compile(name))
    expect(page).to_have_url(re.compile("cell=structured"))
    expect(page).not_to_have_url(re.compile("open="))
    assert "open=" not in shared(page)
