"""Every page on a large warehouse against an empty one: on the server, and in a browser.

On the server: Streamlit's AppTest runs the script in its runner, every element built, hashed and
parsed, in this process; no network and no browser is in it. The empty page is a script with nothing
but a title, without the frame of the dashboard. In a browser: a real server each for the dashboard
and for an empty app, Chromium, a clock inside the page (``benchmarks.browser``). Everything is warm
but what says cold: another reader has asked for the same before.
"""

import os
import statistics
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from benchmarks import browser
from benchmarks.browser import Server, Times
from benchmarks.large import QUICK, Size, large_warehouse
from benchmarks.result import Result, progress, seconds

TIMES = 31
#: Median of so many in the browser.
CLICKS, LOADS = 5, 5
SESSIONS = 20
#: One model on one machine, as a visitor would choose it, and within that one setting.
CHOSEN = {"model": ["gpt-oss-120b"], "gpu": ["H100"], "dataset": ["SWE-bench"]}
ONE = CHOSEN | {"tensor_parallel_size": ["1"], "engine_version": ["0.31.0"]}


def empty_page() -> None:
    """What every page is compared with. Its text alone becomes a script."""
    import streamlit as st

    st.set_page_config(layout="wide")
    st.title("empty")


def full_page(number: int | None, chosen: dict[str, list[str]]) -> None:
    """The frame and one page, or the frame alone. Its text alone becomes a script."""
    import streamlit as st

    from dashboard.filters import filter_options, sidebar
    from dashboard.shelf import open_shelf
    from dashboard.views import VIEWS

    st.set_page_config(layout="wide")
    for name, values in chosen.items():
        st.session_state[name] = values
    shelf = open_shelf()
    filters = sidebar(filter_options(shelf))
    if number is not None:
        VIEWS[number].render(shelf, filters)


def rerun(script: Any, *arguments: Any) -> tuple[float, float, int]:
    """Seconds of the first run and of a later one (median), and how many charts there are."""
    from streamlit.testing.v1 import AppTest  # not for those who run other benchmarks

    # AppTest puts the script in the place of __main__, which worker processes would then import.
    own = sys.modules["__main__"]
    page = AppTest.from_function(script, args=arguments, default_timeout=120)
    first = seconds(page.run)
    if page.exception:
        raise RuntimeError(f"The page failed: {page.exception[0].message}")
    again = statistics.median(seconds(page.run) for _ in range(TIMES))
    sys.modules["__main__"] = own
    return first, again, len(page.get("vega_lite_chart"))


def judged(title: str, measured: tuple[float, float, int], empty: float) -> Iterator[Result]:
    """A page's first view, and a later one beside the empty page's."""
    first, again, charts = measured
    yield Result(f"first view of {title}, cold", "<= 1.5 s", f"{first:.2f} s", first <= 1.5)
    told = f"{again / empty:.1f} x ({1000 * again:.1f} ms against {1000 * empty:.1f} ms; {charts} charts)"
    reached = again <= 0.06 or again <= 6 * empty
    yield Result(f"rerun of {title}", "<= 60 ms or <= 6 x an empty page", told, reached)


def run(folder: Path, quick: bool) -> Iterator[Result]:
    """On the server every page, with filters chosen and with none; then in the browser."""
    root = large_warehouse(folder / ("small" if quick else "large"), QUICK if quick else Size())
    os.environ["DRAFTBOARD_WAREHOUSE"] = str(root)
    yield from _on_the_server()
    if browser.CHROMIUM.exists():
        yield from _in_a_browser(root)


def _on_the_server() -> Iterator[Result]:
    from dashboard.views import VIEWS

    empty = rerun(empty_page)[1]
    frame = rerun(full_page, None, CHOSEN)[1]
    note = f"{frame / empty:.1f} x, {1000 * frame:.1f} ms"
    yield Result("rerun of the frame alone", "-", note, None)
    for number, view in enumerate(VIEWS):
        progress(f"page {view.TITLE}")
        yield from judged(f"{view.TITLE}, one setting", rerun(full_page, number, ONE), empty)
        yield from judged(f"{view.TITLE}, one dataset", rerun(full_page, number, CHOSEN), empty)
        yield from judged(f"{view.TITLE}, unfiltered", rerun(full_page, number, {}), empty)


def _in_a_browser(root: Path) -> Iterator[Result]:
    with (
        browser.chromium() as chromium,
        browser.serving(Path(__file__).with_name("empty_app.py"), root) as empty,
        browser.serving(browser.ROOT / "dashboard" / "app.py", root) as dashboard,
    ):
        yield from _first_loads(chromium, empty, dashboard)
        yield from _clicks(chromium, empty, dashboard)
        yield _memory(chromium, dashboard)


def _first_loads(chromium: Any, empty: Server, dashboard: Server) -> Iterator[Result]:
    progress("first load")
    _load(chromium, empty.address)
    bare = browser.median([_load(chromium, empty.address) for _ in range(LOADS)])
    cold = _load(chromium, dashboard.address, charts=1)
    warm = browser.median([_load(chromium, dashboard.address, charts=1) for _ in range(LOADS)])
    most = 1.5 * bare.last + 300
    told = f"{warm.last:.0f} ms, the first chart after {warm.chart:.0f} ms, {warm.charts} charts"
    yield Result(
        "first load of the first page", f"<= 1.5 x an empty app + 300 ms = {most:.0f} ms", told,
        warm.last <= most,
    )  # fmt: skip
    yield Result(
        "the same, first visitor of a fresh server", "-",
        f"{cold.last:.0f} ms, the first chart after {cold.chart:.0f} ms", None,
    )  # fmt: skip


def _load(chromium: Any, url: str, charts: int = 0) -> Times:
    page, times = browser.opened(chromium, url, charts)
    page.context.close()
    return times


def _clicks(chromium: Any, empty: Server, dashboard: Server) -> Iterator[Result]:
    from dashboard.views import VIEWS

    bare = _clicked(chromium, empty.address)
    yield Result("click on an empty page", "-", f"{bare.last:.0f} ms", None)
    chosen = urlencode({name: values[0] for name, values in CHOSEN.items()})
    for view in VIEWS:
        progress(f"click on {view.TITLE}")
        path = "" if view is VIEWS[0] else f"/{view.URL_PATH}"
        found = _clicked(chromium, f"{dashboard.address}{path}?{chosen}")
        # Without a chart what is new is the last word or table.
        new = found.chart if found.charts else found.last
        told = f"{new / bare.last:.1f} x ({new:.0f} ms; complete after {found.last:.0f} ms, "
        told += f"{found.charts} charts)"
        yield Result(
            f"click to new chart on {view.TITLE}", "<= 2.5 x an empty page's", told,
            new <= 2.5 * bare.last,
        )  # fmt: skip


def _clicked(chromium: Any, url: str) -> Times:
    """Another dataset is chosen, and taken away again."""
    page, _ = browser.opened(chromium, url)
    browser.chosen(page, "Dataset", "humaneval")
    times = [time for _ in range(CLICKS) for time in browser.chosen(page, "Dataset", "humaneval")]
    page.context.close()
    return browser.median(times)


def _memory(chromium: Any, dashboard: Server) -> Result:
    """Every page twice, in sessions of their own, with filters and without."""
    from dashboard.views import VIEWS

    progress("sessions")
    before, open_pages = dashboard.megabytes, []
    for number in range(SESSIONS):
        view = VIEWS[number % len(VIEWS)]
        chosen = "" if number < len(VIEWS) else f"?{urlencode({'dataset': 'math'})}"
        url = f"{dashboard.address}/{'' if view is VIEWS[0] else view.URL_PATH}{chosen}"
        open_pages.append(browser.opened(chromium, url)[0])
    after = dashboard.megabytes
    for page in open_pages:
        page.context.close()
    told = f"{after:.0f} MB ({before:.0f} MB before)"
    return Result(f"memory of the server, {SESSIONS} sessions", "<= 400 MB", told, after <= 400)
