"""A report as one HTML file that needs nothing else: no network, no server, no other file."""

import json
import subprocess
import sys
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from pathlib import Path

import jinja2
import streamlit as st

from answers.decide.values import DecideQuestion
from answers.report import ReportFigure, ReportMap, ReportRequest, StakeholderReport, report
from dashboard import links
from dashboard.charts import Drawing, specification
from dashboard.charts.compare import LineView, over_load
from dashboard.charts.decide import heat_map
from dashboard.downloads import vega_lite
from dashboard.shelf import Shelf

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


@cache
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
    wanted = ReportRequest(question, subject, link=links.address())
    st.download_button(
        "Report",
        lambda: html(report(shelf.reader, wanted)),
        file_name="draftboard-report.html",
        mime="text/html",
        key="report",
        on_click="ignore",
        icon=":material/download:",
    )
