"""What the browser tests share: a real server, a real Chromium, and what a reader waits for."""

import base64
import os
import re
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, quote_plus, urlencode, urlsplit

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import (
    Browser,
    ConsoleMessage,
    Locator,
    Page,
    TimeoutError,
    expect,
    sync_playwright,
)

from dashboard.views import VIEWS

ROOT = Path(__file__).parents[3]
CHROMIUM = Path("/usr/bin/chromium")
ARGUMENTS = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
)  # fmt: skip
#: The first page stands at the address itself.
PATHS = ("", *(f"/{view.URL_PATH}" for view in VIEWS[1:]))
#: The recorded lab on the first page, which opens on the GPU.
LAB = "?" + urlencode(
    {"about": "lab-target on AMD EPYC, vllm 0.32.0+cpu  [CPU lab], study laptop-lab"}
)
#: The name of the published study in an address.
PUBLISHED = quote_plus("gpt-oss-120b on NVIDIA H200 141GB  [published, single run]")
START_S = 60
#: A page may be drawn while other processes use the machine.
DRAWN_MS = 90_000
#: How often a menu is opened, and how long its item may take to come.
OPENINGS = 6
OPEN_MS = 10_000
_WRONG = "Traceback (most recent call last)"
expect.set_options(timeout=DRAWN_MS)


@contextmanager
def served(root: Path, log: Path, tree: Path | None = None) -> Iterator[str]:
    """The address of a dashboard on the warehouse at ``root``; a traceback in its log is a failure.

    It is started as a person writes it: the root of the repository is not on its path. ``tree``:
    another copy of the repository, which is put before the installed one.
    """
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    streamlit = str(Path(sys.executable).with_name("streamlit"))
    words = [streamlit, "run", "dashboard/app.py", f"--server.port={port}"]
    environment = {**os.environ, "DRAFTBOARD_WAREHOUSE": str(root)}
    if tree is not None:
        environment["PYTHONPATH"] = str(tree)
    with log.open("wb") as said:
        server = subprocess.Popen(
            words, cwd=tree or ROOT, env=environment, stdout=said, stderr=said
        )
        try:
            answered(f"http://localhost:{port}/healthz")
            yield f"http://localhost:{port}"
        finally:
            server.terminate()
            server.wait(60)
    assert _WRONG not in log.read_text(encoding="utf-8", errors="replace")


def answered(url: str) -> None:
    """Wait until a server answers."""
    for _ in range(START_S * 5):
        try:
            urllib.request.urlopen(url, timeout=1).close()
        except OSError:
            time.sleep(0.2)
        else:
            return
    pytest.fail(f"Nothing answered at {url} within {START_S} s.")


@contextmanager
def chromium(*more: str) -> Iterator[Browser]:
    """One browser, with ``more`` arguments; every context of it is a fresh profile."""
    if not CHROMIUM.exists():
        pytest.fail(f"{CHROMIUM} is missing; install Debian's package: apt-get install chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=str(CHROMIUM), args=[*ARGUMENTS, *more]
        )
        yield browser
        browser.close()


@contextmanager
def fresh(browser: Browser, **settings: Any) -> Iterator[Page]:
    """A page in a profile of its own, 1440 px wide, that allows no error in its console."""
    context = browser.new_context(**{"viewport": {"width": 1440, "height": 900}} | settings)
    context.set_default_timeout(DRAWN_MS)
    page = context.new_page()
    errors: list[str] = []
    page.on("console", lambda message: errors.extend(_errors(message)))
    page.on("pageerror", lambda error: errors.append(str(error)))
    yield page
    context.close()
    assert not errors, errors


def _errors(message: ConsoleMessage) -> list[str]:
    """Streamlit's own client looks for its server below the page's path first: that is no error."""
    url = message.location["url"]
    if message.type != "error" or re.search(r"/[\w-]+/_stcore/(health|host-config)$", url):
        return []
    return [f"{message.text} ({url})"]


def title(page: Page) -> str:
    """The answer of the page: its first heading."""
    heading = page.get_by_role("heading", level=2).first
    expect(heading).to_be_visible(timeout=DRAWN_MS)
    return heading.inner_text()


def ran(page: Page) -> None:
    """Wait until the page's heading stands and its script runs no more."""
    title(page)
    app = page.get_by_test_id("stApp")
    expect(app).to_have_attribute("data-test-script-state", "notRunning", timeout=DRAWN_MS)


def settle(page: Page) -> None:
    """Wait until the page is drawn: its script has run and no placeholder is left."""
    ran(page)
    # Charts, code and tables come after the rest, each with a placeholder until then.
    expect(page.get_by_test_id("stSkeleton")).to_have_count(0, timeout=DRAWN_MS)
    page.wait_for_timeout(400)


def visit(page: Page, address: str) -> None:
    """Open an address, wait, and see that the page came without an error."""
    page.goto(address)
    settle(page)
    no_error(page)


def no_error(page: Page) -> None:
    """Neither a mistake of ours nor a traceback stands on the page."""
    expect(page.get_by_text("cannot be drawn")).to_have_count(0)
    expect(page.get_by_text("Traceback")).to_have_count(0)
    expect(page.get_by_test_id("stException")).to_have_count(0)


#: Texts, the values of controls, and the texts of charts, which are drawn in any order; in what is
#: folded they may be drawn or not.
_SEEN = """one => {
    const values = [...one.querySelectorAll('input, textarea')].map(box => box.value);
    const marks = [...one.querySelectorAll('[data-testid=stVegaLiteChart] svg text')].filter(
        mark => !mark.closest('details:not([open])'));
    const copy = one.cloneNode(true);
    copy.querySelectorAll('[data-testid=stVegaLiteChart], canvas, style').forEach(
        one => one.remove());
    return [copy.textContent, values, marks.map(mark => mark.textContent).sort()];
}"""


def main(page: Page) -> list[Any]:
    """What a reader sees on the page, the frame apart."""
    found: list[Any] = page.get_by_test_id("stMain").evaluate(_SEEN)
    return found


def alike(page: Page, other: Page) -> None:
    """Wait until both pages show the same."""
    for _ in range(80):
        if main(page) == main(other):
            return
        page.wait_for_timeout(250)
    assert main(page) == main(other)


def spaced(text: str) -> str:
    """The text with single blanks, as it is compared."""
    return " ".join(text.split())


def shared(page: Page) -> str:
    """The address that the frame offers for this view, once it holds what the page's own address says, or
    never does."""
    for _ in range(8):
        said = set(parse_qsl(urlsplit(page.url).query))
        if said <= set(parse_qsl(urlsplit(offered := _offered(page)).query)):
            return offered
        page.wait_for_timeout(250)
    return _offered(page)


def _offered(page: Page) -> str:
    page.get_by_role("button", name="Share this view").click()
    offered = page.get_by_test_id("stCode").filter(has_text="http").last
    expect(offered).to_be_visible()
    address = offered.inner_text().strip()
    page.keyboard.press("Escape")
    return address


def choose(page: Page, label: str, option: str) -> None:
    """Choose an option in a box of one value."""
    box = page.get_by_role("combobox", name=label, exact=True).first
    take(box, page.get_by_role("option", name=option, exact=True))


def keep(page: Page, label: str, option: str) -> None:
    """Choose a value of a filter in the frame."""
    box = page.get_by_test_id("stSidebar").get_by_role("combobox", name=label, exact=True)
    take(box, page.get_by_role("option", name=option, exact=True))
    page.keyboard.press("Escape")


def take(menu: Locator, item: Locator) -> None:
    """Open a list or a menu and take an item, as a reader does: what is drawn anew just then closes
    it or moves it out of the window, and one opens it again."""
    for _ in range(OPENINGS):
        menu.evaluate("one => one.scrollIntoView({block: 'center'})")
        menu.click()
        try:
            return item.click(timeout=OPEN_MS)
        except TimeoutError:
            menu.press("Escape")
    pytest.fail(f"What was opened {OPENINGS} times did not stay: {menu}")


def serious(page: Page) -> list[tuple[str, list[str]]]:
    """What axe finds to be serious or critical: the rule and where."""
    found = Axe().run(page).response["violations"]
    return [
        (one["id"], [node["html"][:200] for node in one["nodes"]])
        for one in found
        if one["impact"] in ("serious", "critical")
    ]


def sideways(page: Page) -> int:
    """By how many px the page scrolls sideways."""
    wide = "one => one.scrollWidth - one.clientWidth"
    inner = int(page.get_by_test_id("stMain").evaluate(wide))
    return max(inner, int(page.evaluate(f"({wide})(document.documentElement)")))


def drop(page: Page, files: Sequence[tuple[str, Path]]) -> None:
    """Let files of these names fall on the page, as from a window of the desktop."""
    contents = [[name, base64.b64encode(f.read_bytes()).decode()] for name, f in files]
    carried = page.evaluate_handle(
        """files => {
            const carried = new DataTransfer();
            for (const [name, data] of files) {
                const bytes = Uint8Array.from(atob(data), one => one.charCodeAt(0));
                carried.items.add(new File([bytes], name));
            }
            return carried;
        }""",
        contents,
    )
    page.get_by_test_id("stFileUploaderDropzone").dispatch_event("drop", {"dataTransfer": carried})
