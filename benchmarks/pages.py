"""Server-side rerun of each page on a large warehouse against an empty page.

Both are run by Streamlit's AppTest: the script in its runner, every element built, hashed and
parsed, in this process. No network and no browser is in it: the server sends messages in batches
with a pause between, so what a websocket measures of a short script is mostly that pause.
The empty page is a script with nothing but a title, without the frame of the dashboard. The target
is for a page of six charts; pages with many more are measured beside it without a target.
"""

import os
import statistics
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.large import QUICK, Size, large_warehouse
from benchmarks.result import Result, progress, seconds

TIMES = 31
#: One answer and six metrics.
MOST_CHARTS = 7
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

    from dashboard import data
    from dashboard.filters import sidebar
    from dashboard.shelf import open_shelf
    from dashboard.views import VIEWS

    st.set_page_config(layout="wide")
    for name, values in chosen.items():
        st.session_state[name] = values
    shelf = open_shelf()
    filters = sidebar(data.filter_options(shelf))
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


def judged(title: str, measured: tuple[float, float, int], empty: float) -> Result:
    """One page beside the empty one."""
    first, again, charts = measured
    told = f"{again / empty:.1f} x ({1000 * again:.1f} ms against {1000 * empty:.1f} ms; "
    told += f"first {1000 * first:.0f} ms; {charts} charts)"
    if charts > MOST_CHARTS:
        return Result(f"rerun of {title}", "-", told, None)
    return Result(f"rerun of {title}", "<= 5 x an empty page", told, again <= 5 * empty)


def run(folder: Path, quick: bool) -> Iterator[Result]:
    """Every page, with filters chosen and with none."""
    root = large_warehouse(folder / ("small" if quick else "large"), QUICK if quick else Size())
    os.environ["DRAFTBOARD_WAREHOUSE"] = str(root)
    from dashboard.views import VIEWS

    empty = rerun(empty_page)[1]
    frame = rerun(full_page, None, CHOSEN)[1]
    note = f"{frame / empty:.1f} x, {1000 * frame:.1f} ms"
    yield Result("rerun of the frame alone", "-", note, None)
    for number, view in enumerate(VIEWS):
        progress(f"page {view.TITLE}")
        yield judged(f"{view.TITLE}, one setting", rerun(full_page, number, ONE), empty)
        yield judged(f"{view.TITLE}, one dataset", rerun(full_page, number, CHOSEN), empty)
        yield judged(f"{view.TITLE}, unfiltered", rerun(full_page, number, {}), empty)
