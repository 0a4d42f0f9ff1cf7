"""What the server did while a cell was measured: small charts over seconds."""

import altair as alt
import pandas as pd

from dashboard.charts import Chart
from dashboard.charts.axes import QUIET
from dashboard.charts.axes import title as heading

HEIGHT = 230


def over_time(rows: pd.DataFrame, title: str, colour: str, share: bool) -> Chart:
    """One or several lines over ``at`` (seconds since the first sample).

    ``rows``: ``line``, ``at``, ``value``, ``end`` (the line's name at its last point, else empty).
    The first line has the arm's colour, others are grey; ``share``: values are ratios of 0-1.
    """
    names = list(rows["line"].unique())
    colours = [colour, *[QUIET] * (len(names) - 1)]
    scale = alt.Scale(domain=names, range=colours)
    base = alt.Chart(rows).encode(
        x=alt.X(field="at", type="quantitative", title="seconds", scale=_room(rows, len(names)),
                axis=alt.Axis(grid=False, tickCount=6, titleAnchor="start")),
        y=alt.Y(field="value", type="quantitative", title=None, scale=_scale(share),
                axis=alt.Axis(format=".0%" if share else "~s", tickCount=4)),
        color=alt.Color(field="line", type="nominal", scale=scale, legend=None),
    )  # fmt: skip
    line = base.mark_line(strokeWidth=1.5, interpolate="step-after").encode(
        tooltip=[
            alt.Tooltip(field="line", type="nominal", title="what"),
            alt.Tooltip(field="at", type="quantitative", title="seconds", format=",.1f"),
            alt.Tooltip(field="value", type="quantitative", format=".1%" if share else ",.2f"),
        ]
    )
    layers = [line]
    if len(names) > 1:
        text = base.mark_text(align="left", dx=6, fontSize=12, fontWeight=600)
        layers.append(text.encode(text=alt.Text(field="end", type="nominal")))
    return alt.layer(*layers).properties(title=heading(title), height=HEIGHT)


def _scale(share: bool) -> alt.Scale:
    return alt.Scale(domain=[0, 1]) if share else alt.Scale(zero=True)


def _room(rows: pd.DataFrame, lines: int) -> alt.Scale:
    """Place at the right for the names of several lines."""
    last = float(rows["at"].max()) or 1.0
    return alt.Scale(domain=[0, last * (1.25 if lines > 1 else 1.02)], nice=False)
