"""Charts of one cell's requests: distributions, acceptance by position, the server over time."""

import altair as alt
import pandas as pd

from dashboard.charts import Chart
from dashboard.charts.axes import QUIET
from dashboard.charts.axes import title as heading
from warehouse.catalogue import Metric

HEIGHT = 260


def distribution(rows: pd.DataFrame, metric: Metric, colour: str, note: str = "") -> Chart:
    """Empirical distribution: ``value`` in the metric's unit, ``share`` of requests at most so.

    ``note`` is the badge of evidence other than a real GPU run.
    """
    name = f"{metric.label}, {metric.unit}" + (f"  [{note}]" if note else "")
    return (
        alt.Chart(rows)
        .mark_line(interpolate="step-after", strokeWidth=2, color=colour)
        .encode(
            x=alt.X(field="value", type="quantitative", title=metric.unit),
            y=alt.Y(
                field="share",
                type="quantitative",
                title="share of requests",
                axis=alt.Axis(format=".0%", tickCount=5),
                scale=alt.Scale(domain=[0, 1]),
            ),
            tooltip=[
                alt.Tooltip(field="value", type="quantitative", title=metric.unit, format=",.1f"),
                alt.Tooltip(field="share", type="quantitative", title="share", format=".1%"),
            ],
        )
        .properties(title=heading(name), height=HEIGHT)
    )


def acceptance_by_position(rows: pd.DataFrame, title: str, colour: str) -> Chart:
    """Share of drafts whose token at ``position`` was accepted (``rate``, 0-1), a step each.

    Positions come counted from 0, as servers do, and are drawn from 1, as everywhere else.
    """
    return (
        alt.Chart(rows.assign(position=rows["position"] + 1))
        .mark_line(
            interpolate="step",
            strokeWidth=2,
            color=colour,
            point=alt.OverlayMarkDef(color=colour, size=55),
        )
        .encode(
            x=alt.X(
                field="position",
                type="ordinal",
                title="draft position",
                axis=alt.Axis(labelAngle=0),
            ),
            y=alt.Y(
                field="rate",
                type="quantitative",
                title="accepted / drafts",
                axis=alt.Axis(format=".0%", tickCount=5),
                scale=alt.Scale(domain=[0, 1]),
            ),
            tooltip=[
                alt.Tooltip(field="position", type="ordinal", title="position"),
                alt.Tooltip(field="rate", type="quantitative", title="accepted", format=".1%"),
            ],
        )
        .properties(title=heading(title), height=HEIGHT)
    )


def server_over_time(rows: pd.DataFrame, name: str) -> Chart:
    """One server metric over the run; ``at`` in seconds since the first sample."""
    return (
        alt.Chart(rows)
        .mark_line(strokeWidth=1.5, color=QUIET)
        .encode(
            x=alt.X(field="at", type="quantitative", title="seconds since the first sample"),
            # Most are counters that started long before: from zero they would be a flat line.
            y=alt.Y(field="value", type="quantitative", title=None, scale=alt.Scale(zero=False)),
        )
        .properties(title=heading(name), height=HEIGHT)
    )
