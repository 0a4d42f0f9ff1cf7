"""A report as one HTML file that needs nothing else: no network, no server, no other file."""

import json
import subprocess
import sys
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from pathlib import Path

import jinja2

from answers.report import ReportFigure, ReportMap, StakeholderReport
from dashboard.charts.compare import View, over_load
from dashboard.charts.decide import heat_map
from dashboard.charts.spec import Drawing, specification
from dashboard.downloads import vega_lite

_TEMPLATE = Path(__file__).with_name("report.html.j2")


def html(report: StakeholderReport) -> str:
    """Return the page. Every text is escaped; the charts and the code that draws them stand inside
    it."""
    environment = jinja2.Environment(
        autoescape=True, trim_blocks=True, undefined=jinja2.StrictUndefined
    )
    charts = [figure for section in report.sections for figure in section.figures]
    return environment.from_string(_TEMPLATE.read_text(encoding="utf-8")).render(
        report=report,
        charts=charts,
        specs=_specs(charts),
        library=library().result() if charts else "",
    )


@cache
def library() -> "Future[str]":
    """Return Vega, Vega-Lite and Vega-Embed as one script, the same for every report.

    It is put together for seconds, during which nothing else of its process runs: so in a process
    of its own. Whoever will want a report asks for it first, and goes on.
    """
    return ThreadPoolExecutor(1).submit(_bundle)


def _bundle() -> str:
    words = [sys.executable, "-c", _BUNDLE]
    return subprocess.run(words, check=True, capture_output=True).stdout.decode()


_BUNDLE = "import sys, vl_convert; sys.stdout.buffer.write(vl_convert.javascript_bundle().encode())"


def _specs(charts: list[ReportFigure]) -> str:
    """Return the charts as JSON that cannot end the script it stands in."""
    text = json.dumps([vega_lite(_drawn(figure)) for figure in charts], separators=(",", ":"))
    return text.replace("<", "\\u003c")


def _drawn(figure: ReportFigure) -> Drawing:
    if isinstance(figure, ReportMap):
        return specification(heat_map(figure.decision))
    view = View(figure.line, (figure.arm,), figure.reference, True, figure.title)
    return specification(over_load(figure.setting, view))
