"""The chart of two textbook models, which stand on no measurement."""

from collections.abc import Iterable

import altair as alt
import pandas as pd

from answers.predict.textbook import END_TO_END, ONE_STREAM, Parameters
from dashboard.charts import Chart
from dashboard.charts.axes import QUIET, amounts, tip, title

HEIGHT = 300
_RATES = tuple(step / 20 for step in range(21))


def textbook(given: Parameters) -> Chart:
    """Draw the speedup of both models over the acceptance rate, their names at their lines; a
    diamond: what is asked."""
    rows, asked = _speedups(given, _RATES), _speedups(given, [given.rate])
    rows = rows.assign(end=rows["model"].where(rows["rate"] == _RATES[-1], ""))
    names = (
        "Textbook models, not measured: speedup",
        f"times as fast as without drafts, higher is better; K = {given.k}",
    )
    x = alt.X(
        field="rate",
        type="quantitative",
        title="acceptance rate",
        axis=alt.Axis(
            format=".0%", values=[0, 0.2, 0.4, 0.6, 0.8, 1], grid=False, titleAnchor="start"
        ),
        scale=alt.Scale(domain=[0, 1.45], nice=False),
    )
    y = amounts("speedup", float(rows["speedup"].max()) * 1.1)
    base = alt.Chart(rows).encode(x=x, y=y)
    even = (
        alt.Chart(alt.InlineData(values=[{"even": 1}]))
        .mark_rule(strokeDash=[4, 3], strokeWidth=1.5, color=QUIET)
        .encode(y=alt.Y(field="even", type="quantitative"))
    )
    dashes = alt.StrokeDash(field="model", type="nominal", legend=None)
    ends = base.mark_text(align="left", dx=8, fontSize=12, fontWeight=600, color=QUIET)
    tips = [
        tip("model", "model"),
        tip("rate", "acceptance rate", ".0%"),
        tip("speedup", "speedup", ".2f"),
    ]
    point = alt.Chart(asked).mark_point(shape="diamond", size=190, strokeWidth=2.5, color=QUIET)
    return alt.layer(
        even,
        base.mark_line(strokeWidth=2, color=QUIET).encode(strokeDash=dashes, tooltip=tips),
        ends.encode(text=alt.Text(field="end", type="nominal")),
        point.encode(x=x, y=y, tooltip=tips),
    ).properties(title=title(*names), height=HEIGHT)


def _speedups(given: Parameters, rates: Iterable[float]) -> pd.DataFrame:
    found = [given.found(rate) for rate in rates]
    rows = [(END_TO_END, one.acceptance_rate, one.end_to_end_gain) for one in found]
    rows += [(ONE_STREAM, one.acceptance_rate, one.single_stream_speedup) for one in found]
    return pd.DataFrame(rows, columns=["model", "rate", "speedup"])
