"""The dashboard in a real browser beside an empty Streamlit app: servers, sessions, and a clock.

The clock runs in the page: a chart is new when it is drawn after a click, a page is complete at the
last change of its main part.
"""

import contextlib
import os
import socket
import statistics
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

ROOT = Path(__file__).parents[1]
CHROMIUM = Path("/usr/bin/chromium")
ARGUMENTS = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
)  # fmt: skip
START_S, WAIT_MS, QUIET_MS = 60, 120_000, 700
#: Times in ms since the page was asked for; a click starts the clock again.
_CLOCK = """
const CHART = '[data-testid="stVegaLiteChart"]', MAIN = '[data-testid="stMain"]';
const begin = start => { window.seen = {start: start, chart: 0, last: 0, charts: new Set()}; };
const changed = element => {
  if (!element || !element.closest || !element.closest(MAIN)) return;
  const chart = element.closest(CHART);
  seen.last = performance.now() - seen.start;
  if (chart && !seen.charts.size) seen.chart = seen.last;
  if (chart) seen.charts.add(chart);
};
begin(0);
new MutationObserver(changes => {
  for (const change of changes) {
    const node = change.target;
    changed(node.nodeType === 1 ? node : node.parentElement);
  }
}).observe(document, {childList: true, subtree: true, characterData: true});
const clear = CanvasRenderingContext2D.prototype.clearRect;
CanvasRenderingContext2D.prototype.clearRect = function (...box) {
  changed(this.canvas);
  return clear.apply(this, box);
};
for (const kind of ['click', 'keydown']) {
  document.addEventListener(kind, () => begin(performance.now()), true);
}
"""
_DONE = f"""([all, least]) => {{
  const app = document.querySelector('[data-testid="stApp"]');
  const charts = document.querySelectorAll('[data-testid="stVegaLiteChart"]');
  return app && document.querySelector('[data-testid="stMain"] :is(h1, h2)')
    && app.getAttribute('data-test-script-state') === 'notRunning' && seen.last > 0
    && performance.now() - seen.start - seen.last > {QUIET_MS}
    && charts.length >= least && (!all || [...charts].every(chart => chart.querySelector('svg.marks, canvas')));
}}"""


@dataclass(frozen=True)
class Times:
    """ms from the click (or from asking for the page) to the first new chart, 0 without one, and
    to the last change; ``charts``: how many were painted."""

    chart: float
    last: float
    charts: int


def median(found: list[Times]) -> Times:
    """Of each number."""
    kinds = zip(*((one.chart, one.last, one.charts) for one in found), strict=True)
    chart, last, charts = (statistics.median(values) for values in kinds)
    return Times(chart, last, int(charts))


@dataclass(frozen=True)
class Server:
    """A Streamlit process of its own."""

    address: str
    process: psutil.Process

    @property
    def megabytes(self) -> float:
        """Resident memory of the process and its children, MB."""
        family = [self.process, *self.process.children(recursive=True)]
        return float(sum(one.memory_info().rss for one in family)) / 1e6


@contextlib.contextmanager
def serving(script: Path, warehouse: Path) -> Iterator[Server]:
    """``streamlit run`` of a script, until the block ends."""
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    words = [sys.executable, "-m", "streamlit", "run", str(script), f"--server.port={port}"]
    environment = {**os.environ, "DRAFTBOARD_WAREHOUSE": str(warehouse)}
    server = subprocess.Popen(words, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL)
    try:
        _wait(f"http://localhost:{port}/_stcore/health")
        yield Server(f"http://localhost:{port}", psutil.Process(server.pid))
    finally:
        server.terminate()
        server.wait(10)


def _wait(url: str) -> None:
    for _ in range(START_S * 5):
        with contextlib.suppress(OSError):
            urllib.request.urlopen(url, timeout=1).close()
            return
        time.sleep(0.2)
    raise RuntimeError(f"{url} did not answer within {START_S} s.")


@contextlib.contextmanager
def chromium() -> Iterator[Any]:
    """A browser without a window."""
    from playwright.sync_api import sync_playwright  # not for those who run other benchmarks

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=str(CHROMIUM), args=list(ARGUMENTS))
        yield browser
        browser.close()


def opened(browser: Any, url: str, charts: int = 0) -> tuple[Any, Times]:
    """A page in a fresh profile (nothing cached), and how long it took until all of its ``charts``
    (so many at least) were drawn."""
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    context.add_init_script(_CLOCK)
    page = context.new_page()
    page.goto(url)
    return page, settled(page, every=True, charts=charts)


def settled(page: Any, every: bool = False, charts: int = 0) -> Times:
    """Wait until nothing changes any more, and until ``every`` chart is drawn."""
    page.wait_for_function(_DONE, arg=[every, charts], timeout=WAIT_MS)
    found = page.evaluate("() => ({...seen, charts: seen.charts.size})")
    return Times(found["chart"], found["last"], found["charts"])


def chosen(page: Any, label: str, value: str) -> list[Times]:
    """Add a value to a choice of several, and take it away again."""
    box = page.get_by_role("combobox", name=label).first
    box.click()
    page.get_by_role("option", name=value, exact=True).click()
    added = settled(page)
    box.press("Backspace")
    return [added, settled(page)]
