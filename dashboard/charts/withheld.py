"""The chart of how far predictions of measured points were off, each made without that point."""

import altair as alt
import pandas as pd

from dashboard.charts import SIGNED, Chart, nothing
from dashboard.charts.axes import QUIET, colour, loads, tip, title
from dashboard.charts.forecast import Sheet
from warehouse.catalogue import METRICS

HEIGHT = 300
_LEFT_OUT = {"k": "all of one K", "concurrency": "all of one load"}


def withheld(sheet: Sheet) -> Chart:
    """Draw predicted over measured, minus 1, of each point that was withheld; zero is exact.
    Filled: other points surround it; hollow: the model had to extrapolate."""
    label = METRICS[sheet.metric].label
    mine = [one for one in sheet.known.withheld if one.metric == sheet.metric]
    if not mine:
        return nothing(f"Errors of {label}: nothing could be withheld{sheet.note}")
    rows = pd.DataFrame(
        [
            {
                "arm": sheet.arm(one.k), "concurrency": one.concurrency, "error": one.error,
                "measured": one.measured, "predicted": one.predicted,
                "left_out": _LEFT_OUT[one.left_out], "solid": int(one.inside),
            }
            for one in mine
        ]
    )  # fmt: skip
    worst = float(rows["error"].abs().max())
    names = (
        f"Withheld points met within {worst * 100:.1f} %{sheet.note}",
        f"{sheet.known.place.dataset}, {label}, mean: predicted / measured − 1; hollow: beyond what "
        "the others cover",
    )
    return _drawn(rows, names)


def _drawn(rows: pd.DataFrame, names: tuple[str, str]) -> Chart:
    reach = max(float(rows["error"].abs().max()) * 1.15, 0.02)
    y = alt.Y(
        field="error",
        type="quantitative",
        title=None,
        axis=alt.Axis(labelExpr=SIGNED, tickCount=5),
        scale=alt.Scale(domain=[-reach, reach], nice=False),
    )
    zero = (
        alt.Chart(alt.InlineData(values=[{"zero": 0}]))
        .mark_rule(strokeDash=[4, 3], strokeWidth=1.5, color=QUIET)
        .encode(y=alt.Y(field="zero", type="quantitative"))
    )
    points = (
        alt.Chart(rows)
        .mark_point(size=60, strokeWidth=2, opacity=0.9)
        .encode(
            x=loads(sorted(rows["concurrency"].unique())),
            y=y,
            stroke=colour(rows, "stroke"),
            fill=colour(rows, "fill"),
            fillOpacity=alt.FillOpacity(
                field="solid", type="quantitative", scale=None, legend=None
            ),
            shape=alt.Shape(
                field="left_out",
                type="nominal",
                legend=alt.Legend(
                    title="withheld",
                    orient="bottom",
                    symbolFillColor=QUIET,
                    symbolStrokeColor=QUIET,
                ),
            ),
            tooltip=[
                tip("arm", "arm"),
                tip("concurrency", "concurrency", "d"),
                tip("left_out", "withheld"),
                tip("measured", "measured", ",.1f"),
                tip("predicted", "predicted", ",.1f"),
                tip("error", "error", "+.1%"),
            ],
        )
    )
    return alt.layer(zero, points).properties(title=title(*names), height=HEIGHT)
