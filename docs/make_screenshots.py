"""Screenshots of every page, light and dark: ``python docs/make_screenshots.py [FOLDER]``.

Needs Chromium. Shown are the recorded runs of ``examples/``, or the warehouse that
DRAFTBOARD_WAREHOUSE names. Without a FOLDER it makes the pictures of the documentation; with one it
draws whole pages, on a phone as well, to be looked at.
"""

import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlencode

from PIL import Image
from playwright.sync_api import Browser, Page, sync_playwright

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from dashboard.views import VIEWS  # noqa: E402  # after its place is known

CHROMIUM = "/usr/bin/chromium"
SETTLED_MS, DRAWN_MS = 2500, 60_000
WIDE, PHONE = 1440, 390
#: px: a picture of the documentation ends here; one to be looked at hardly ever.
DOCUMENTED, WHOLE = 1500, 12_000
COLOURS = 192
#: The recorded lab, where a page opens on the GPU; and that page itself as its first screen.
ASKED = {
    "decide": {"about": "lab-target-costly on AMD EPYC, vllm 0.32.0+cpu  [CPU lab]"},
}
FIRST, FIRST_SCREEN = "decide-h200-light.png", (1440, 900)
FIRST_ASKED = {"about": "lab-target-8b on NVIDIA H200, vllm 0.26.0"}


@contextmanager
def warehouse() -> Iterator[str]:
    """The warehouse that is shown: the named one, else a temporary one of the examples."""
    named = os.environ.get("DRAFTBOARD_WAREHOUSE")
    if named:
        yield named
        return
    with tempfile.TemporaryDirectory() as folder:
        words = ["ingest", str(ROOT / "examples"), "--warehouse", f"{folder}/warehouse"]
        subprocess.run([sys.executable, "-m", "draftboard", *words], cwd=ROOT, check=True)
        yield f"{folder}/warehouse"


@contextmanager
def dashboard(root: str) -> Iterator[str]:
    """The address of a dashboard on a free port of this machine."""
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    words = [sys.executable, "-m", "streamlit", "run", "dashboard/app.py", f"--server.port={port}"]
    environment = {**os.environ, "DRAFTBOARD_WAREHOUSE": root}
    server = subprocess.Popen(words, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL)
    try:
        wait(f"http://localhost:{port}/healthz")
        yield f"http://localhost:{port}"
    finally:
        server.terminate()
        server.wait(10)


def wait(url: str) -> None:
    """Returns when the server answers; raises after half a minute."""
    for _ in range(150):
        try:
            urllib.request.urlopen(url, timeout=1).close()
        except OSError:
            time.sleep(0.2)
        else:
            return
    raise SystemExit(f"Nothing answers at {url}.")


def drawn(page: Page) -> None:
    """Returns when a page has its heading and nothing runs any more."""
    page.get_by_role("heading", level=2).first.wait_for(timeout=DRAWN_MS)
    page.locator("[data-test-script-state=notRunning]").first.wait_for(timeout=DRAWN_MS)
    page.wait_for_timeout(SETTLED_MS)


def picture(browser: Browser, url: str, scheme: str, size: tuple[int, int], file: Path) -> None:
    """One page from its top, at most ``size`` (px) wide and high."""
    dark = scheme == "dark"
    page = browser.new_page(
        viewport={"width": size[0], "height": 900}, color_scheme="dark" if dark else "light"
    )
    page.goto(url)
    drawn(page)
    # A page scrolls within its frame: a window as high as its content shows all of it.
    high = int(page.get_by_test_id("stMain").evaluate("one => one.scrollHeight"))
    page.set_viewport_size({"width": size[0], "height": max(min(high, size[1]), 900)})
    page.wait_for_timeout(SETTLED_MS)
    page.screenshot(path=file)
    page.close()
    smaller(file)


def smaller(file: Path) -> None:
    """Few colours: a page is text and lines, and a third of the bytes is enough."""
    with Image.open(file) as picture_in_full:
        few = picture_in_full.convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE)
    few.save(file, optimize=True)


def address_of(view: str) -> str:
    """Path and question of a page; the first one stands at the address itself."""
    path = "" if view == VIEWS[0].URL_PATH else view
    recorded = "DRAFTBOARD_WAREHOUSE" not in os.environ
    asked = urlencode(ASKED.get(view, {}) if recorded else {})
    return f"/{path}?{asked}" if asked else f"/{path}"


def main() -> None:
    """Draw every picture."""
    looking = len(sys.argv) > 1
    folder = Path(sys.argv[1]) if looking else ROOT / "docs" / "screenshots"
    folder.mkdir(parents=True, exist_ok=True)
    sizes = [(WIDE, WHOLE), (PHONE, WHOLE)] if looking else [(WIDE, DOCUMENTED)]
    with warehouse() as root, dashboard(root) as address, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        for view in VIEWS:
            for scheme in ("light", "dark"):
                for size in sizes:
                    end = f"-{size[0]}" if looking else ""
                    file = folder / f"{view.URL_PATH}-{scheme}{end}.png"
                    picture(browser, address + address_of(view.URL_PATH), scheme, size, file)
        if not looking:
            url = f"{address}/?{urlencode(FIRST_ASKED)}"
            picture(browser, url, "light", FIRST_SCREEN, folder / FIRST)
        browser.close()


if __name__ == "__main__":
    main()
