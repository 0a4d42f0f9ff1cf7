"""What pages show, made of typed answers: words, tables and drawings."""

from typing import Any

from dashboard import charts
from dashboard.charts.spec import specification

#: More panels than this are neither read nor drawn quickly.
MOST_PANELS = 12
Drawing = dict[str, Any]


def drawn(chart: charts.Chart) -> Drawing:
    """A chart as Vega-Lite, its data already in the bytes that a browser gets."""
    return specification(chart)
