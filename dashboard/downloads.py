"""Files of what a page shows: rows as CSV and Parquet, charts as PNG, SVG and Vega-Lite, and a report as one
HTML file that needs nothing else: no network, no server, no other file.

Charts are rendered in this process, from fonts and code that are installed: no network.
"""

import functools
import io
import json
import re
import subprocess
import sys
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import jinja2
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import streamlit as st

from answers.decide.values import DecideQuestion
from answers.report import ReportFigure, ReportMap, ReportRequest, StakeholderReport, report
from dashboard.charts import Drawing, specification
from dashboard.charts.compare import LineView, over_load
from dashboard.charts.decide import heat_map
from dashboard.components import copied, plain
from dashboard.links import address
from dashboard.shelf import Shelf
from warehouse.json_text import json_text

#: A spreadsheet runs a text that starts so as a formula, also behind what it leaves out or takes for the
#: end of a cell; wide and small forms of the signs are the signs.
_FORMULA = re.compile(r"[\s\x00-\x20\u200b\ufeff;,]*[=+\-@]|[\t\r\n]")
#: A chart in a file has no page that gives it a width.
_WIDTH = 640
#: Width of a chart beside others, and how many stand in a row.
_BESIDE, _ACROSS = 380, 3
#: Twice the resolution of the page, so that it prints well.
_SCALE = 2.0


def csv_bytes(rows: pd.DataFrame) -> bytes:
    """Return the rows as CSV in UTF-8, unrounded; a text that a spreadsheet would run stays
    text."""
    texts = rows.select_dtypes(include=["object", "string"]).columns
    safe = {name: rows[name].map(_inert) for name in texts}
    return rows.assign(**safe).to_csv(index=False).encode()


def _inert(value: object) -> object:
    if not isinstance(value, str) or not _FORMULA.match(unicodedata.normalize("NFKC", value[:64])):
        return value
    return f"'{value}"


def parquet_bytes(rows: pd.DataFrame | pa.Table) -> bytes:
    if isinstance(rows, pd.DataFrame):
        rows = pa.Table.from_pandas(rows, preserve_index=False)
    sink = io.BytesIO()
    pq.write_table(rows, sink)
    return sink.getvalue()


def vega_lite(drawing: Drawing) -> Drawing:
    """Return the chart with its data as plain rows, as any Vega-Lite tool reads it."""
    data = {
        # Already in the bytes that a browser gets.
        name: pa.ipc.open_stream(rows).read_all().to_pylist()
        if isinstance(rows, bytes)
        else [*rows]
        for name, rows in drawing.get("datasets", {}).items()
    }
    return (
        {**({} if "concat" in drawing else {"width": _WIDTH}), "background": "white"}
        | drawing
        | {"datasets": data}
    )


def one_figure(title: str, drawings: Sequence[Drawing]) -> Drawing:
    """Join several charts to one, at most three to a row."""
    parts = [vega_lite(drawing) for drawing in drawings]
    sets = {name: rows for part in parts for name, rows in part["datasets"].items()}
    own = ("$schema", "config", "datasets", "background")
    charts = [
        {"width": _BESIDE} | {k: v for k, v in part.items() if k not in (*own, "width")}
        for part in parts
    ]
    frame = {name: parts[0][name] for name in own if parts and name in parts[0]}
    return {**frame, "title": {"text": title, "anchor": "start", "fontSize": 16, "offset": 14},
            "concat": charts, "columns": min(len(charts), _ACROSS), "datasets": sets}  # fmt: skip


def vega_lite_bytes(drawing: Drawing) -> bytes:
    return json_text(vega_lite(drawing), indent=1).encode()


def png_bytes(drawing: Drawing) -> bytes:
    """Return the chart as a picture, on white."""
    # Imported here, since it is a browser's whole script engine: only a picture costs its memory.
    import vl_convert

    return vl_convert.vegalite_to_png(vega_lite(drawing), scale=_SCALE)


def svg_bytes(drawing: Drawing) -> bytes:
    import vl_convert

    return vl_convert.vegalite_to_svg(vega_lite(drawing)).encode()


# --- The download buttons under what a page shows; a file is made when its button is clicked.


#: Ending of a file -> what its button says, how it is made and what it is.
_CHART_FILES: dict[str, tuple[str, Callable[[Drawing], bytes], str]] = {
    "png": ("PNG", png_bytes, "image/png"),
    "svg": ("SVG", svg_bytes, "image/svg+xml"),
    "vl.json": ("Vega-Lite", vega_lite_bytes, "application/json"),
}


def rows_menu(name: str, rows: Callable[[], pd.DataFrame], whole: pa.Table | None = None) -> None:
    """Draw two buttons: the rows as CSV and as Parquet (``whole``: what Parquet holds, if it can
    hold more than a spreadsheet). ``name`` becomes the file's name and the widgets' keys."""
    with st.container(horizontal=True):
        file_button(f"{name}.csv", "Rows as CSV", lambda: csv_bytes(rows()), "text/csv")
        file_button(
            f"{name}.parquet",
            "Rows as Parquet",
            lambda: parquet_bytes(rows() if whole is None else whole),
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
            for ending, (label, make, kind) in _CHART_FILES.items():
                file_button(
                    f"{name}.{ending}", label, functools.partial(make, drawings[title]), kind
                )


def figure_files(title: str, drawings: Sequence[Drawing], link: Mapping[str, str]) -> None:
    """Offer the figure as one picture and as one Vega-Lite file, and show the address that draws it
    again."""
    name = "-".join(title.lower().replace(":", "").replace(",", "").split())
    with st.container(horizontal=True, vertical_alignment="center"):
        for ending, (label, make, kind) in _CHART_FILES.items():
            file_button(
                f"{name}.{ending}",
                label,
                functools.partial(_joined, make, title, tuple(drawings)),
                kind,
            )
        with st.popover("Link to this figure", icon=":material/link:"):
            st.caption(f"Whoever opens this address on the same results sees {plain(title)}.")
            copied(address(link))


def _joined(make: Callable[[Drawing], bytes], title: str, drawings: Sequence[Drawing]) -> bytes:
    return make(one_figure(title, drawings))


def file_button(file: str, label: str, make: Callable[[], bytes], kind: str) -> None:
    st.download_button(
        label, make, file_name=f"draftboard-{file}", mime=kind, key=file, on_click="ignore"
    )


# --- A report as one HTML file that needs nothing else: no network, no server, no other file.


_BUNDLE = "import sys, vl_convert; sys.stdout.buffer.write(vl_convert.javascript_bundle().encode())"
_TEMPLATE = Path(__file__).with_name("report.html.j2")


def html(report: StakeholderReport) -> str:
    """Return the page. Every text is escaped; the charts and the code that draws them stand inside
    it."""
    environment = jinja2.Environment(
        autoescape=True, trim_blocks=True, undefined=jinja2.StrictUndefined
    )
    charts = [figure for section in report.sections for figure in section.figures]
    drawn = [vega_lite(_drawn(figure)) for figure in charts]
    return environment.from_string(_TEMPLATE.read_text(encoding="utf-8")).render(
        report=report,
        charts=charts,
        # JSON that cannot end the script it stands in.
        specs=json.dumps(drawn, separators=(",", ":")).replace("<", "\\u003c"),
        library=library().result() if charts else "",
    )


@functools.cache
def library() -> "Future[str]":
    """Return Vega, Vega-Lite and Vega-Embed as one script, the same for every report.

    It is put together for seconds, during which nothing else of its process runs: so in a process
    of its own. Whoever will want a report asks for it first, and goes on.
    """

    def bundle() -> str:
        return subprocess.run(
            [sys.executable, "-c", _BUNDLE], check=True, capture_output=True
        ).stdout.decode()

    return ThreadPoolExecutor(1).submit(bundle)


def _drawn(figure: ReportFigure) -> Drawing:
    if isinstance(figure, ReportMap):
        return specification(heat_map(figure.decision))
    view = LineView(figure.line, (figure.arm,), figure.reference, True, figure.title)
    return specification(over_load(figure.setting, view))


def report_button(shelf: Shelf, question: DecideQuestion, subject: str) -> None:
    """Offer the report on a subject, named as its overview."""
    wanted = ReportRequest(question, subject, link=address())
    st.download_button(
        "Report to send on",
        lambda: html(report(shelf.reader, wanted)),
        file_name="draftboard-report.html",
        mime="text/html",
        key="report",
        on_click="ignore",
        icon=":material/download:",
    )
