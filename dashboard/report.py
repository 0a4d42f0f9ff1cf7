"""A report as one HTML file that needs nothing else: no network, no server, no other file."""

import json
from pathlib import Path

import jinja2
import vl_convert

from dashboard.downloads import vega_lite
from dashboard.report_parts import Figure, Report

_TEMPLATE = Path(__file__).with_name("report.html.j2")


def html(report: Report) -> str:
    """The page. Every text is escaped; the charts and the code that draws them stand inside it."""
    environment = jinja2.Environment(
        autoescape=True, trim_blocks=True, undefined=jinja2.StrictUndefined
    )
    charts = [figure for section in report.sections for figure in section.figures]
    return environment.from_string(_TEMPLATE.read_text(encoding="utf-8")).render(
        report=report,
        charts=charts,
        specs=_specs(charts),
        library=_library() if charts else "",
    )


def _library() -> str:
    """Vega, Vega-Lite and Vega-Embed as one script."""
    text: str = vl_convert.javascript_bundle()  # type: ignore[call-arg]  # its stub forgets a default
    return text


def _specs(charts: list[Figure]) -> str:
    """The charts as JSON that cannot end the script it stands in."""
    text = json.dumps([vega_lite(figure.drawing) for figure in charts], separators=(",", ":"))
    return text.replace("<", "\\u003c")
