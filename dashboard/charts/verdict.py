"""What changes in total, a dumbbell a line: from the baseline at zero to the speculative arm."""

import altair as alt
import pandas as pd

from dashboard.charts import SIGNED, Chart
from dashboard.charts.axes import QUIET, colour, tip
from dashboard.charts.axes import title as heading

#: As high as the rows of the table beside it.
_ROW = 35


def changes(rows: pd.DataFrame, title: str, subtitle: str) -> Chart:
    """``rows``: a row per line in its order: line (its name), arm, value, low, high (ratios,
    positive is better, None for unknown), interval (in words)."""
    y = alt.Y(
        field="line",
        type="nominal",
        sort=list(rows["line"]),
        title=None,
        axis=alt.Axis(labelLimit=220, domain=False, ticks=False),
    )
    x = alt.X(
        field="value",
        type="quantitative",
        title=None,
        axis=alt.Axis(labelExpr=SIGNED, tickCount=5),
    )
    base = alt.Chart(rows).encode(y=y)
    zero = base.transform_calculate(zero="0")
    start = alt.X(field="zero", type="quantitative")
    bars = zero.mark_rule(strokeWidth=2, color=QUIET).encode(x=start, x2=alt.X2(field="value"))
    ends = zero.mark_point(size=55, strokeWidth=2, color=QUIET, opacity=1).encode(x=start)
    spans = base.mark_rule(strokeWidth=7, opacity=0.3).encode(
        x=alt.X(field="low", type="quantitative"), x2=alt.X2(field="high"), color=colour(rows)
    )
    points = base.mark_point(size=70, filled=True, opacity=1).encode(
        x=x,
        color=colour(rows),
        tooltip=[
            tip("line", "metric"),
            tip("value", "change", "+.1%"),
            tip("interval", "interval"),
        ],
    )
    known = [spans] if rows["low"].notna().any() else []
    whole = alt.layer(bars, *known, ends, points)
    return whole.properties(title=heading(title, subtitle), height=alt.Step(_ROW))
