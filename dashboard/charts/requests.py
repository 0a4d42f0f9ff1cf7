"""Charts of one cell's requests: how many took at most so long, and which drafts were accepted."""

from typing import Any

import altair as alt
import pandas as pd

from answers.runs.read import CellCurve
from answers.wording import bracketed
from dashboard.charts import Chart
from dashboard.charts.axes import title as heading
from warehouse.catalogue import METRICS

HEIGHT = 220


def distribution(curve: CellCurve, colour: str, note: str = "") -> Chart:
    """Draw the empirical distribution of a metric (the name of ``curve``) over the requests.

    ``note`` is the badge of evidence other than a real GPU run.
    """
    metric = METRICS[curve.name]
    rows = pd.DataFrame(curve.points, columns=["value", "share"])
    return (
        alt.Chart(rows)
        .mark_line(interpolate="step-after", strokeWidth=2, color=colour)
        .encode(
            x=alt.X(field="value", type="quantitative", title=metric.unit),
            y=_share("share", "share of requests"),
            tooltip=[
                alt.Tooltip(field="value", type="quantitative", title=metric.unit, format=",.1f"),
                alt.Tooltip(field="share", type="quantitative", title="share", format=".1%"),
            ],
        )
        .properties(title=heading(f"{metric.label}, {metric.unit}{bracketed(note)}"), height=HEIGHT)
    )


def acceptance_by_position(curve: CellCurve, colour: str, note: str = "") -> Chart:
    """Draw the share of drafts whose token at each position was accepted, a step each; ``name``:
    the source."""
    rows = pd.DataFrame(curve.points, columns=["position", "rate"])
    point = alt.OverlayMarkDef(color=colour, size=55)
    return (
        alt.Chart(rows)
        .mark_line(interpolate="step", strokeWidth=2, color=colour, point=point)
        .encode(
            x=alt.X(
                field="position", type="ordinal", title="draft position",
                axis=alt.Axis(labelAngle=0, format="d"),
            ),
            y=_share("rate", "accepted / drafts"),
            tooltip=[
                alt.Tooltip(field="position", type="ordinal", title="position"),
                alt.Tooltip(field="rate", type="quantitative", title="accepted", format=".1%"),
            ],
        )
        .properties(
            title=heading(f"Acceptance by position, {curve.name}{bracketed(note)}"), height=HEIGHT
        )
    )  # fmt: skip


def _share(field: str, title: str) -> Any:
    return alt.Y(
        field=field, type="quantitative", title=title, axis=alt.Axis(format=".0%", tickCount=5),
        scale=alt.Scale(domain=[0, 1]),
    )  # fmt: skip
