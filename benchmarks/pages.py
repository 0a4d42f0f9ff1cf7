"""Server-side rerun of each page on a large warehouse against an empty page (Streamlit's AppTest).

``AppTest.run`` is the whole rerun of a script without a browser: thread, widgets, queries, charts, and
the messages that a browser would get.
"""

import os
import statistics
from collections.abc import Iterator
from pathlib import Path

from streamlit.testing.v1 import AppTest

from benchmarks.large import QUICK, Size, large_warehouse
from benchmarks.result import Result, median_seconds, progress, seconds

TIMES = 20
EMPTY = "import streamlit as st\nst.set_page_config(layout='wide')\nst.title('empty')\n"
FRAME = """
import streamlit as st
from dashboard import data
from dashboard.filters import sidebar
from dashboard.views import VIEWS
st.set_page_config(layout="wide")
shelf = data.open_shelf()
filters = sidebar(data.filter_options(shelf))
"""
PAGE = FRAME + "VIEWS[{number}].render(shelf, filters)\n"
#: One model on one machine, as a visitor would choose it; the address of the page says so.
CHOSEN = {"model": "gpt-oss-120b", "gpu": "H100", "dataset": "SWE-bench"}


def opened(script: str, chosen: dict[str, str]) -> tuple[AppTest, float]:
    """A page after its first run, and how long that took, s. Raises if the page shows an error."""
    page = AppTest.from_string(script, default_timeout=120)
    for key, value in chosen.items():
        page.query_params[key] = value
    first = seconds(page.run)
    if page.exception or page.error:
        raise RuntimeError(f"The page failed: {[e.value for e in (*page.exception, *page.error)]}")
    return page, first


def rerun(script: str, chosen: dict[str, str]) -> tuple[float, float]:
    """Seconds of the first run and of a later one (median)."""
    page, first = opened(script, chosen)
    return first, median_seconds(page.run, TIMES)


def judged(title: str, first: float, again: float, empty: float) -> Result:
    """One page beside the empty one."""
    measured = f"{again / empty:.1f} x ({1000 * again:.0f} ms against {1000 * empty:.0f} ms; "
    measured += f"first {1000 * first:.0f} ms)"
    return Result(f"rerun of {title}", "<= 5 x an empty page", measured, again <= 5 * empty)


def run(folder: Path, quick: bool) -> Iterator[Result]:
    """Every page, with filters chosen and with none."""
    root = large_warehouse(folder / ("small" if quick else "large"), QUICK if quick else Size())
    os.environ["DRAFTBOARD_WAREHOUSE"] = str(root)
    from dashboard.views import (
        VIEWS,
    )  # Streamlit's import is not for those who run other benchmarks

    empty = statistics.median((rerun(EMPTY, {})[1], rerun(EMPTY, {})[1]))
    frame = rerun(FRAME, CHOSEN)[1]
    yield Result(
        "rerun of the frame alone", "-", f"{frame / empty:.1f} x, {1000 * frame:.0f} ms", None
    )
    for number, view in enumerate(VIEWS):
        progress(f"page {view.TITLE}")
        script = PAGE.format(number=number)
        yield judged(view.TITLE, *rerun(script, CHOSEN), empty)
        yield judged(f"{view.TITLE}, unfiltered", *rerun(script, {}), empty)
