"""The download buttons under what a page shows; a file is made when its button is clicked."""

import functools
from collections.abc import Callable, Mapping

import pandas as pd
import pyarrow as pa
import streamlit as st

from dashboard import downloads
from dashboard.charts.spec import Drawing

#: Ending of a file -> how it is made and what it is.
_CHART_FILES: dict[str, tuple[Callable[[Drawing], bytes], str]] = {
    "png": (downloads.png_bytes, "image/png"),
    "svg": (downloads.svg_bytes, "image/svg+xml"),
    "vl.json": (downloads.vega_lite_bytes, "application/json"),
}
_CHART_LABELS = {"png": "PNG", "svg": "SVG", "vl.json": "Vega-Lite"}


def rows_menu(name: str, rows: Callable[[], pd.DataFrame], whole: pa.Table | None = None) -> None:
    """Draw two buttons: the rows as CSV and as Parquet (``whole``: what Parquet holds, if it can
    hold more than a spreadsheet). ``name`` becomes the file's name and the widgets' keys."""
    with st.container(horizontal=True):
        file_button(f"{name}.csv", "Rows as CSV", lambda: downloads.csv_bytes(rows()), "text/csv")
        file_button(
            f"{name}.parquet",
            "Rows as Parquet",
            lambda: downloads.parquet_bytes(rows() if whole is None else whole),
            "application/vnd.apache.parquet",
        )


def charts_menu(name: str, drawings: Mapping[str, Drawing]) -> None:
    """Draw a menu that offers one chart as PNG, SVG and Vega-Lite; ``drawings``: title -> chart."""
    titles = list(drawings)
    if not titles:
        return
    with st.popover("Charts as files"):
        # One chart at a time: three buttons for each of many charts would slow every rerun.
        title = st.selectbox("Chart", titles, key=f"{name}-chart") if len(titles) > 1 else titles[0]
        with st.container(horizontal=True):
            for ending, (make, kind) in _CHART_FILES.items():
                file_button(f"{name}.{ending}", _CHART_LABELS[ending],
                        functools.partial(make, drawings[title]), kind)  # fmt: skip


def file_button(file: str, label: str, make: Callable[[], bytes], kind: str) -> None:
    """Draw a button for one file, made when it is clicked."""
    st.download_button(
        label, make, file_name=f"draftboard-{file}", mime=kind, key=file, on_click="ignore"
    )
