"""The dashboard in a real Chromium: pages open, filters stay in the URL, a reload shows the same."""

import os
import re
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import ConsoleMessage, Page, expect, sync_playwright

from dashboard.links import cell_link
from dashboard.views import VIEWS
from warehouse import queries
from warehouse.filters import Filters
from warehouse.store import Reader

ROOT = Path(__file__).parents[2]
CHROMIUM = Path("/usr/bin/chromium")
ARGUMENTS = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
)  # fmt: skip
START_S = 30
#: The first page stands at the address itself.
PATHS = ("", *(f"/{view.URL_PATH}" for view in VIEWS[1:]))

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def address(filled: Path) -> Iterator[str]:
    """A dashboard process on a free port of this machine."""
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    # The command as a person writes it: the root of the repository is not on its path.
    streamlit = str(Path(sys.executable).with_name("streamlit"))
    words = [streamlit, "run", "dashboard/app.py", f"--server.port={port}"]
    environment = {**os.environ, "DRAFTBOARD_WAREHOUSE": str(filled)}
    server = subprocess.Popen(words, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL)
    try:
        _wait(f"http://localhost:{port}/_stcore/health")
        yield f"http://localhost:{port}"
    finally:
        server.terminate()
        server.wait(10)


def test_the_app_starts_with_plain_streamlit_run(address: str) -> None:
    with urllib.request.urlopen(address, timeout=5) as answer:
        assert answer.status == 200


def _wait(url: str) -> None:
    for _ in range(START_S * 5):
        try:
            urllib.request.urlopen(url, timeout=1).close()
        except OSError:
            time.sleep(0.2)
        else:
            return
    pytest.fail(f"The dashboard did not answer at {url} within {START_S} s.")


@pytest.fixture
def page() -> Iterator[Page]:
    """A fresh browser page that allows no error in the console of a page."""
    if not CHROMIUM.exists():
        pytest.fail(f"{CHROMIUM} is missing; install Debian's package: apt-get install chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=str(CHROMIUM), args=list(ARGUMENTS))
        opened = browser.new_page(viewport={"width": 1440, "height": 900})
        errors: list[str] = []
        opened.on("console", lambda message: errors.extend(_errors(message)))
        opened.on("pageerror", lambda error: errors.append(str(error)))
        yield opened
        browser.close()
    assert not errors


def _errors(message: ConsoleMessage) -> list[str]:
    """Streamlit's own client looks for its server below the page's path first: that is no error."""
    url = message.location["url"]
    if message.type != "error" or re.search(r"/[\w-]+/_stcore/(health|host-config)$", url):
        return []
    return [f"{message.text} ({url})"]


def _title(page: Page) -> str:
    heading = page.get_by_role("heading", level=2).first
    expect(heading).to_be_visible(timeout=20_000)
    return heading.inner_text()


def _settle(page: Page) -> None:
    """Wait until the page is drawn: its heading stands and nothing runs any more."""
    _title(page)
    app = page.get_by_test_id("stApp")
    expect(app).to_have_attribute("data-test-script-state", "notRunning", timeout=20_000)
    page.wait_for_timeout(500)


def test_both_pages_open_and_draw_charts(page: Page, address: str) -> None:
    page.goto(address)
    assert "more output tokens per second" in _title(page)
    expect(page.locator("[data-testid=stVegaLiteChart]").first).to_be_visible(timeout=20_000)

    page.get_by_role("link", name="Runs").click()

    expect(page.get_by_text("What was measured, and can it be trusted?")).to_be_visible()
    expect(page.get_by_text("Traceback")).to_have_count(0)


def test_a_filter_goes_to_the_url_and_a_reload_shows_the_same_view(
    page: Page, address: str
) -> None:
    page.goto(address)
    _title(page)
    page.get_by_label("Dataset", exact=False).first.click()
    page.get_by_role("option", name="structured").click()
    page.keyboard.press("Escape")
    expect(page).to_have_url(re.compile("dataset=structured"))
    heading = page.get_by_role("heading", level=2).first
    expect(heading).not_to_contain_text("code")
    before = _title(page)

    page.reload()

    expect(heading).to_have_text(before, timeout=20_000)
    expect(page).to_have_url(re.compile("dataset=structured"))


def test_a_link_with_a_value_that_is_gone_says_so(page: Page, address: str) -> None:
    page.goto(f"{address}/?dataset=gone")

    expect(page.get_by_text("asks for Dataset gone")).to_be_visible(timeout=20_000)


def test_the_runs_page_keeps_its_filter_over_a_reload(page: Page, address: str) -> None:
    page.goto(f"{address}/runs?dataset=structured")
    summary = page.get_by_text("completed requests;")
    expect(summary).to_be_visible(timeout=20_000)
    before = summary.inner_text()
    assert before.startswith("3 runs, 15 cells")

    page.reload()

    expect(summary).to_have_text(before, timeout=20_000)
    expect(page).to_have_url(re.compile("dataset=structured"))


def test_nothing_scrolls_sideways_on_a_phone(page: Page, address: str) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    for path in PATHS:
        page.goto(address + path)
        _settle(page)
        main = page.locator("[data-testid=stMain]")
        assert main.evaluate("element => element.scrollWidth - element.clientWidth") <= 0


@pytest.mark.parametrize("path", PATHS)
def test_every_page_opens_by_its_address_without_an_error(
    page: Page, address: str, path: str
) -> None:
    page.goto(address + path)
    _settle(page)

    expect(page.get_by_text("cannot be drawn")).to_have_count(0)
    expect(page.get_by_text("Traceback")).to_have_count(0)
    expect(page.locator("[data-testid=stException]")).to_have_count(0)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("path", PATHS)
def test_axe_finds_no_serious_violation(
    page: Page, address: str, path: str, scheme: Literal["light", "dark"]
) -> None:
    page.emulate_media(color_scheme=scheme)
    page.goto(address + path)
    _settle(page)

    found = Axe().run(page).response["violations"]

    serious = [
        (one["id"], [node["html"][:200] for node in one["nodes"]])
        for one in found
        if one["impact"] in ("serious", "critical")
    ]
    assert not serious


def test_the_shared_address_shows_the_same_in_a_fresh_browser(page: Page, address: str) -> None:
    page.goto(f"{address}/trends?dataset=code")
    _settle(page)
    budget = page.get_by_role("textbox", name="How much worse is still fine?")
    budget.fill("itl=3% 7%")
    budget.press("Enter")
    expect(page).to_have_url(re.compile("budget=itl"))
    _settle(page)
    page.get_by_role("button", name="Share this view").click()
    shared = page.locator("[data-testid=stCode]").first
    expect(shared).to_contain_text("budget=itl")

    other = _fresh(page)
    other.goto(shared.inner_text().strip())

    assert _title(other) == _title(page)
    expect(other.get_by_role("textbox", name="How much worse is still fine?")).to_have_value(
        "itl=3% 7%"
    )
    expect(other).to_have_url(re.compile("dataset=code"))


def _fresh(page: Page) -> Page:
    """A page in a profile of its own: nothing is remembered."""
    browser = page.context.browser
    assert browser is not None
    return browser.new_context().new_page()


def test_a_filter_is_kept_from_page_to_page(page: Page, address: str) -> None:
    page.goto(f"{address}/runs?dataset=structured")
    _settle(page)
    # A click within the first second of a link still loses the filter now and then.
    page.wait_for_timeout(1500)

    page.get_by_role("link", name="Trends").click()

    expect(page).to_have_url(re.compile(r"/trends\?.*dataset=structured"), timeout=20_000)
    expect(page.get_by_text("not enough evidence;")).to_be_visible(timeout=20_000)
    expect(page.get_by_role("combobox", name="Series")).to_have_value(re.compile("structured"))


def test_a_cell_is_reached_by_its_link_and_the_address_then_names_it(
    page: Page, address: str, filled: Path
) -> None:
    with Reader(filled) as reader:
        known = queries.cells(reader, Filters(dataset=("structured",))).to_pylist()
    cell = next(row for row in known if row["concurrency"] == 16)

    page.goto(f"{address}/{cell_link(cell['cell_id'])}")

    expect(page.get_by_role("combobox", name="Cell")).to_have_value(
        f"structured, {cell['arm_label']}, concurrency 16", timeout=20_000
    )
    expect(page).to_have_url(re.compile("cell=structured"))
    expect(page).not_to_have_url(re.compile("open="))
