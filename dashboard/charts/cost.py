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


def cost_by_load(
    rows: pd.DataFrame, name: tuple[str, str], scales: Scales, axis: str = "requests at once"
) -> Chart:
    """USD per million output tokens over the load, a line per arm; logarithmic both ways.

    ``rows``: one per arm x load with ``arm``, ``concurrency`` (the load's value), ``load`` (in
    words), ``usd``, ``low`` and ``high`` (95 % interval against the baseline), ``solid`` (0 without
    one), ``taken`` (whether the decision takes the arm there), ``runs`` (1 where it is costed),
    ``end_label`` and ``end_usd`` (at the end of a line).
    """
    x = loads(scales.levels, _ROOM, axis)
    y = alt.Y(
        field="usd",
        type="quantitative",
        title=None,
        scale=alt.Scale(type="log", nice=False, domain=[scales.low, scales.high]),
        axis=alt.Axis(tickCount=4, format="~g"),
    )
    base = alt.Chart(rows).encode(x=x, y=y)
    hue = colour(rows)
    lines = base.mark_line(strokeWidth=2.5).encode(color=hue)
    intervals = base.mark_rule(strokeWidth=2, opacity=0.45).encode(
        color=hue, y=alt.Y(field="low", type="quantitative"), y2=alt.Y2(field="high")
    )
    layers = [lines, intervals, _points(rows, base), _names(rows, x)]
    return alt.layer(*layers, title=title(*name), height=HEIGHT)


def _points(rows: pd.DataFrame, base: Any) -> Any:
    return base.mark_point(strokeWidth=2, opacity=1).encode(
        stroke=colour(rows, "stroke"),
        fill=colour(rows, "fill"),
        fillOpacity=given(alt.FillOpacity, "solid"),
        size=alt.condition("datum.runs == 1", alt.value(230), alt.value(50)),
        tooltip=[
            tip("arm", "arm"),
            tip("load", "load"),
            tip("usd", "USD per million output tokens", ",.3f"),
            tip("low", "95 %, lower end", ",.3f"),
            tip("high", "95 %, upper end", ",.3f"),
            tip("taken", "taken there"),
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
