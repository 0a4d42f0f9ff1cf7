"""Charts of money: what a million tokens costs over the load, and figures beside each other."""

from typing import Any

import altair as alt
import pandas as pd

from dashboard.charts import Chart, Scales
from dashboard.charts.axes import colour, loads, tip, title
from dashboard.charts.pareto import given

HEIGHT = 310
#: Room at the right for the names of the lines, as a factor of the log axis.
_ROOM = 7.0


def cost_by_concurrency(rows: pd.DataFrame, name: tuple[str, str], scales: Scales) -> Chart:
    """USD per million output tokens over concurrency, a line per arm; logarithmic both ways.

    ``rows``: one per arm x concurrency with ``arm``, ``concurrency``, ``usd``, ``low`` and ``high``
    (extremes of the repeats), ``repeats``, ``solid`` (0 for a single repeat), ``allowed`` (1 where
    the load may be chosen: those lines are solid, the others dotted), ``told`` (why not), ``runs``
    (1 where the arm is costed), ``end_label`` and ``end_usd`` (at the end of a line).
    """
    x = loads(scales.levels, _ROOM)
    y = alt.Y(
        field="usd",
        type="quantitative",
        title=None,
        scale=alt.Scale(type="log", nice=False, domain=[scales.low, scales.high]),
        axis=alt.Axis(tickCount=4, format="~g"),
    )
    base = alt.Chart(rows).encode(x=x, y=y)
    hue = colour(rows)
    dotted = base.mark_line(strokeWidth=1.5, strokeDash=[2, 4]).encode(color=hue)
    solid = alt.Chart(rows[rows["allowed"] == 1]).mark_line(strokeWidth=2.5)
    extremes = base.mark_rule(strokeWidth=2, opacity=0.45).encode(
        color=hue, y=alt.Y(field="low", type="quantitative"), y2=alt.Y2(field="high")
    )
    layers = [
        dotted,
        solid.encode(x=x, y=y, color=hue),
        extremes,
        _points(rows, base),
        _names(rows, x),
    ]
    return alt.layer(*layers, title=title(*name), height=HEIGHT)


def _points(rows: pd.DataFrame, base: Any) -> Any:
    return base.mark_point(strokeWidth=2, opacity=1).encode(
        stroke=colour(rows, "stroke"),
        fill=colour(rows, "fill"),
        fillOpacity=given(alt.FillOpacity, "solid"),
        size=alt.condition("datum.runs == 1", alt.value(230), alt.value(50)),
        tooltip=[
            tip("arm", "arm"),
            tip("concurrency", "concurrency", "d"),
            tip("usd", "USD per million output tokens", ",.3f"),
            tip("low", "lowest of the repeats", ",.3f"),
            tip("high", "highest of the repeats", ",.3f"),
            tip("repeats", "repeats", "d"),
            tip("told", "this load"),
        ],
    )


def _names(rows: pd.DataFrame, x: alt.X) -> Any:
    return (
        alt.Chart(rows[rows["end_label"] != ""])
        .mark_text(align="left", dx=10, fontSize=12, fontWeight=600)
        .encode(
            x=x,
            y=alt.Y(field="end_usd", type="quantitative"),
            text=alt.Text(field="end_label", type="nominal"),
            color=colour(rows),
        )
    )
