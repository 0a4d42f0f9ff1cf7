"""Published figures beside what their own rows give, and beside our own measurements."""

import altair as alt
import pandas as pd

from dashboard.charts import Chart
from dashboard.charts.axes import QUIET, colour, tip, title
from dashboard.charts.pareto import given

#: Height of one figure, px.
_ROW = 46
#: Title, legend, axis and its name: what a chart needs beside its rows, px.
_AROUND = 150
PUBLISHED, RECOMPUTED, MEASURED = "published", "its own row gives", "measured here"
_SHAPES = {PUBLISHED: "square", RECOMPUTED: "diamond", MEASURED: "circle"}


def claimed(rows: pd.DataFrame, name: tuple[str, str]) -> Chart:
    """Each figure in a row of its own, improvements in percent, positive is better.

    ``rows``: one per mark with ``place`` (the figure, in order ``order``), ``kind`` (one of the
    three above), ``value``, ``low`` and ``high`` (%, what rounding or the repeats allow), ``arm``
    (measured marks; ``baseline`` for the others, which have no arm's colour), ``solid`` (0: hollow,
    a single repeat or a printed figure), ``told``, and
    ``label`` (once per figure).
    """
    places = rows.drop_duplicates("place")["place"].tolist()
    y = alt.Y(field="place", type="nominal", sort=places, axis=None)
    x = alt.X(
        field="value",
        type="quantitative",
        title="improvement, % (positive is better)",
        axis=alt.Axis(tickCount=6),
        scale=alt.Scale(zero=True, nice=True),
    )
    base = alt.Chart(rows).encode(x=x, y=y)
    zero = (
        alt.Chart(alt.InlineData(values=[{"zero": 0}]))
        .mark_rule(strokeDash=[4, 3], strokeWidth=1.5, color=QUIET)
        .encode(x=alt.X(field="zero", type="quantitative"))
    )
    ranges = base.mark_rule(strokeWidth=4, opacity=0.35).encode(
        x=alt.X(field="low", type="quantitative"), x2=alt.X2(field="high"), color=colour(rows)
    )
    points = base.mark_point(size=90, strokeWidth=2, opacity=1).encode(
        stroke=colour(rows, "stroke"),
        fill=colour(rows, "fill"),
        fillOpacity=given(alt.FillOpacity, "solid"),
        shape=alt.Shape(
            field="kind",
            type="nominal",
            title=None,
            legend=alt.Legend(orient="top", symbolStrokeColor=QUIET),
            scale=alt.Scale(domain=list(_SHAPES), range=list(_SHAPES.values())),
        ),
        tooltip=[
            tip("label", "figure"),
            tip("kind", "this mark"),
            tip("value", "%", "+.1f"),
            tip("low", "lowest, %", "+.1f"),
            tip("high", "highest, %", "+.1f"),
            tip("told", "why"),
        ],
    )
    names = (
        alt.Chart(rows[rows["label"] != ""])
        .mark_text(align="left", dy=-15, fontSize=12, color=QUIET)
        .encode(x=alt.value(0), y=y, text=alt.Text(field="label", type="nominal"))
    )
    height = _ROW * len(places) + _AROUND
    return alt.layer(zero, ranges, points, names).properties(title=title(*name), height=height)
