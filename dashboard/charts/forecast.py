"""Charts of predictions: measured points, the predicted line with its band, where measuring ends."""

from dataclasses import dataclass

import altair as alt
import pandas as pd

from dashboard.charts import Chart
from dashboard.charts.axes import QUIET, amounts, colour, loads, tip, title
from warehouse.catalogue import Metric

HEIGHT = 300
#: Factor of the last load that names of arms take.
_ROOM = 4.5
_SIGNED = "datum.value == 0 ? '0 %' : format(datum.value * 100, '+.0f') + ' %'"


@dataclass(frozen=True)
class Predicted:
    """Frames over ``x`` (``concurrency`` or ``k``), values in the metric's unit.

    ``line``: x, arm, value, low, high (NaN: error unknown), inside (whether nothing
    of the question lies beyond what was measured), end_label and end_y (the arm's name at the end of its line, else empty);
    ``points``: x, arm, value, repeats; ``asked``: as ``line``, the question alone; ``border``: the
    lowest and highest x that was measured."""

    x: str
    line: pd.DataFrame
    points: pd.DataFrame
    asked: pd.DataFrame
    border: tuple[float, float]


def predicted(found: Predicted, metric: Metric, names: tuple[str, str]) -> Chart:
    """Line dashed beyond what was measured, solid within; points measured; a diamond: the question.

    Over K the line joins several arms, so it has no arm's colour.
    """
    high = max(found.line["value"].max(), found.line["high"].max(), _highest(found.points))
    x, y = _axis(found), amounts("value", float(high) * 1.08 or 1.0)
    tone = colour(found.line) if found.x == "concurrency" else alt.value(QUIET)
    line = alt.Chart(found.line).encode(x=x, y=y)
    within = alt.Chart(found.line[found.line["inside"]]).encode(x=x, y=y)
    layers = [
        line.mark_area(opacity=0.18).encode(
            y=alt.Y(field="low", type="quantitative"), y2=alt.Y2(field="high"), **_toned(tone, True)
        ),
        line.mark_line(strokeWidth=1.5, strokeDash=[4, 4]).encode(**_toned(tone)),
        within.mark_line(strokeWidth=2).encode(**_toned(tone)),
        _ends(found, x),
        _border(found, x),
        _measured(found, metric, x, y),
        _question(found, metric, x, y),
    ]
    return alt.layer(*layers).properties(title=title(*names), height=HEIGHT)


def _highest(points: pd.DataFrame) -> float:
    return 0.0 if points.empty else float(points["value"].max())


def _ends(found: Predicted, x: alt.X) -> Chart:
    rows = found.line[found.line["end_label"] != ""]
    return (
        alt.Chart(rows)
        .mark_text(align="left", baseline="middle", dx=8, fontSize=12, fontWeight=600)
        .encode(
            x=x,
            y=alt.Y(field="end_y", type="quantitative"),
            text=alt.Text(field="end_label", type="nominal"),
            color=colour(rows),
        )
    )


def _toned(tone: object, fill: bool = False) -> dict[str, object]:
    """One area or line per arm, whatever its colour."""
    return {"color": tone} | ({"fill": tone} if fill else {})


def _axis(found: Predicted) -> alt.X:
    levels = sorted(found.line[found.x].unique())
    if found.x == "concurrency":
        return loads(levels, _ROOM)
    ks = [int(k) for k in levels]
    label = "datum.value == 0 ? 'none' : datum.label"
    return alt.X(
        field="k",
        type="quantitative",
        title="draft tokens K",
        scale=alt.Scale(domain=[min(ks) - 0.3, max(ks) + 0.3], nice=False),
        axis=alt.Axis(
            values=ks, format="d", grid=False, domain=False, titleAnchor="start", labelExpr=label
        ),
    )


def _border(found: Predicted, x: alt.X) -> Chart:
    rows = pd.DataFrame({found.x: sorted(set(found.border))})
    return (
        alt.Chart(rows)
        .mark_rule(strokeDash=[2, 3], strokeWidth=1.5, color=QUIET)
        .encode(x=x, tooltip=[tip(found.x, "measured from or up to", ",d")])
    )


def _measured(found: Predicted, metric: Metric, x: alt.X, y: alt.Y) -> Chart:
    number = f",.{metric.decimals}f"
    return (
        alt.Chart(found.points)
        .mark_point(filled=True, size=75, opacity=1)
        .encode(
            x=x,
            y=y,
            color=colour(found.points),
            tooltip=[
                tip("arm", "measured"),
                tip(found.x, "K" if found.x == "k" else "concurrency", "d"),
                tip("value", metric.unit, number),
                tip("repeats", "repeats", "d"),
            ],
        )
    )


def _question(found: Predicted, metric: Metric, x: alt.X, y: alt.Y) -> Chart:
    number = f",.{metric.decimals}f"
    return (
        alt.Chart(found.asked)
        .mark_point(shape="diamond", size=190, strokeWidth=2.5, opacity=1)
        .encode(
            x=x,
            y=y,
            stroke=colour(found.asked, "stroke"),
            tooltip=[
                tip("arm", "predicted"),
                tip("value", metric.unit, number),
                tip("low", "from", number),
                tip("high", "to", number),
            ],
        )
    )


def withheld(rows: pd.DataFrame, names: tuple[str, str]) -> Chart:
    """Predicted over measured, minus 1, of each point that was withheld; zero is exact.

    ``rows``: ``arm``, ``concurrency``, ``error`` (ratio), ``measured``, ``predicted``, ``left_out``
    (text), ``solid`` (1: the rest surrounds it, 0: the model had to extrapolate).
    """
    reach = max(float(rows["error"].abs().max()) * 1.15, 0.02)
    y = alt.Y(
        field="error",
        type="quantitative",
        title=None,
        axis=alt.Axis(labelExpr=_SIGNED, tickCount=5),
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


def textbook(rows: pd.DataFrame, asked: pd.DataFrame, names: tuple[str, str]) -> Chart:
    """The speedup of two models over the acceptance rate, the models' names at their lines.

    ``rows``: ``model``, ``rate`` (0-1), ``speedup``, ``end`` (the name at the last point, else
    empty); ``asked``: the question alone.
    """
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
