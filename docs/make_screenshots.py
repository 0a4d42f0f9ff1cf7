"""Screenshots of both pages, light and dark: ``python docs/make_screenshots.py [FOLDER]``.

Needs a warehouse (DRAFTBOARD_WAREHOUSE, else data/warehouse) and Chromium. With a FOLDER it draws
whole pages at 1440 and 390 px, to be looked at; without one the four pictures of the documentation.
"""

import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

ROOT = Path(__file__).parents[1]
CHROMIUM = "/usr/bin/chromium"
SETTLED_MS = 2500
#: A whole page scrolls within its frame: a window this high shows all of it.
WHOLE = {1440: 2600, 390: 6500}


@contextmanager
def dashboard() -> Iterator[str]:
    """A dashboard on a free port of this machine."""
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    words = [sys.executable, "-m", "streamlit", "run", "dashboard/app.py", f"--server.port={port}"]
    server = subprocess.Popen(words, cwd=ROOT, stdout=subprocess.DEVNULL)
    try:
        wait(f"http://localhost:{port}/_stcore/health")
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


def picture(browser: Browser, url: str, scheme: str, size: tuple[int, int], file: Path) -> None:
    """One window of a page."""
    page = browser.new_page(
        viewport={"width": size[0], "height": size[1]},
        color_scheme="dark" if scheme == "dark" else "light",
    )
    page.goto(url)
    page.locator(
        "[data-testid=stVegaLiteChart] svg, [data-testid=stVegaLiteChart] canvas"
    ).first.wait_for()
    page.wait_for_timeout(SETTLED_MS)
    page.screenshot(path=file)
    page.close()


def main() -> None:
    """Draw every picture."""
    whole = len(sys.argv) > 1
    folder = Path(sys.argv[1]) if whole else ROOT / "docs" / "screenshots"
    folder.mkdir(parents=True, exist_ok=True)
    sizes = list(WHOLE.items()) if whole else [(1440, 900)]
    with dashboard() as address, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        for name, path in (("compare", ""), ("runs", "/runs")):
            for scheme in ("light", "dark"):
                for size in sizes:
                    end = f"-{size[0]}" if whole else ""
                    file = folder / f"{name}-{scheme}{end}.png"
                    picture(browser, address + path, scheme, size, file)
        browser.close()


if __name__ == "__main__":
    main()
