"""Charts of predictions: measured points, the predicted line with its band, where measuring ends."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import nan

import altair as alt
import pandas as pd

from answers.predict.values import (
    BAND,
    END_TO_END,
    ONE_STREAM,
    FittedPlace,
    ForecastLines,
    ForecastQuestion,
    ForecastStep,
    MeasuredPoint,
    TextbookParameters,
)
from dashboard.charts import SIGNED, Chart, nothing
from dashboard.charts.axes import QUIET, amounts, colour, end_names, ends_apart, loads, tip, title
from warehouse.catalogue import METRICS, Metric

#: Room at the right for the names of arms, as a factor of the last load.
_ROOM = 4.5
#: What is drawn: what a prediction says and a measured point holds.
DRAWN: tuple[str, ...] = ("output_throughput", "itl", "ttft")


def arm_name(family: str, k: int) -> str:
    """Name an arm as the catalogue does, so that it gets its colour."""
    return f"{family.split(' ')[0]} K={k}" if k else "baseline"


@dataclass(frozen=True, eq=False)
class Sheet:
    """One arm family on one dataset, one question and one metric; ``note`` (its badges) ends the
    titles."""

    known: FittedPlace
    asked: ForecastQuestion
    metric: str
    note: str

    def arm(self, k: int) -> str:
        """Return the name of an arm in a legend."""
        return arm_name(self.known.place.family, k)


@dataclass(frozen=True)
class _Predicted:
    """What a chart of predictions draws: frames over ``x`` (``concurrency`` or ``k``), values in
    the metric's unit.

    ``line``: x, arm, value, low, high (NaN: error unknown), inside (whether nothing of the question
    lies beyond what was measured), end_label and end_y (the arm's name at the end of its line, else
    empty); ``points``: x, arm, value, repeats; ``asked``: as ``line``, the question alone;
    ``border``: the lowest and highest x that was measured.
    """

    x: str
    line: pd.DataFrame
    points: pd.DataFrame
    asked: pd.DataFrame
    border: tuple[float, float]


def over_load(sheet: Sheet, lines: ForecastLines) -> Chart:
    """Draw one metric over the load for the chosen K and the baseline."""
    asked = sheet.asked
    both = [_line(sheet, line, "concurrency") for line in (lines.over_load, lines.baseline) if line]
    rows = pd.concat(both, ignore_index=True).drop_duplicates(["arm", "concurrency"])
    last = rows["concurrency"] == rows["concurrency"].max()
    rows = _apart(rows.assign(end_label=rows["arm"].where(last, ""), end_y=rows["value"]))
    points = [point for point in sheet.known.points if point.k in (0, asked.k)]
    border = sheet.known.offer.load_range
    here = rows[(rows["arm"] == sheet.arm(asked.k)) & (rows["concurrency"] == asked.load)]
    found = _Predicted("concurrency", rows, _points(sheet, points, "concurrency"), here, border)
    arm = f"K = {asked.k}" if asked.k else "no drafts"
    return _told(sheet, found, f"over load{sheet.note}", arm)


def _apart(rows: pd.DataFrame) -> pd.DataFrame:
    """Move the names at the ends of lines at least a line apart."""
    return ends_apart(rows, float(rows["value"].max()))


def over_k(sheet: Sheet, lines: ForecastLines) -> Chart:
    """Draw one metric over K at the chosen load."""
    asked = sheet.asked
    rows = _line(sheet, lines.over_k, "k").assign(end_label="", end_y=0.0)
    points = [point for point in sheet.known.points if point.load == asked.load]
    here = rows[rows["arm"] == sheet.arm(asked.k)]
    border = sheet.known.offer.k_range
    found = _Predicted("k", rows, _points(sheet, points, "k"), here, border)
    return _told(sheet, found, f"over K{sheet.note}", f"concurrency {asked.load}")


def _told(sheet: Sheet, found: _Predicted, what: str, where: str) -> Chart:
    metric, known = METRICS[sheet.metric], found.line["low"].notna()
    subtitle = (
        f"{sheet.known.place.dataset}, {where}; {metric.unit}, mean, {metric.better} is better; "
        "points: measured"
    )
    if not sheet.asked.as_measured:
        subtitle += ", with the measured acceptance and lengths"
    if known.any():
        subtitle += f"; shaded: {BAND}"
    if not known.all():
        subtitle += "; no band: error unknown"
    return _drawn(found, metric, (f"{metric.label} {what}", subtitle))


def _line(sheet: Sheet, line: Sequence[ForecastStep], over: str) -> pd.DataFrame:
    """Return a row per prediction; ``over``: the axis that it is drawn over."""
    rows = []
    for step in line:
        figure, at = step.of(sheet.metric), step.k if over == "k" else step.load
        rows.append(
            {
                over: at, "arm": sheet.arm(step.k), "value": figure.predicted,
                "low": nan if figure.low is None else figure.low,
                "high": nan if figure.high is None else figure.high,
                "inside": not step.beyond and not (over == "k" and at == 0),
            }
        )  # fmt: skip
    return pd.DataFrame(rows)


def _points(sheet: Sheet, points: Sequence[MeasuredPoint], over: str) -> pd.DataFrame:
    rows = [
        (p.k if over == "k" else p.load, sheet.arm(p.k), getattr(p, sheet.metric), p.repeats)
        for p in points
    ]
    return pd.DataFrame(rows, columns=[over, "arm", "value", "repeats"])


def _drawn(found: _Predicted, metric: Metric, names: tuple[str, str]) -> Chart:
    """Draw predictions, dashed beyond what was measured and solid within, the measured points, and
    a diamond for the question.

    Over K the line joins several arms, so it has no arm's colour.
    """
    high = max(
        found.line["value"].max(),
        found.line["high"].max(),
        0.0 if found.points.empty else float(found.points["value"].max()),
    )
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
        end_names(found.line, x, dx=8),
        _border(found, x),
        _measured(found, metric, x, y),
        _question(found, metric, x, y),
    ]
    return alt.layer(*layers).properties(title=title(*names), height=HEIGHT)


def _toned(tone: object, fill: bool = False) -> dict[str, object]:
    """Return the colour of an area or line as channels; ``fill``: of an area, whose colour is its
    fill."""
    return {"color": tone} | ({"fill": tone} if fill else {})


def _axis(found: _Predicted) -> alt.X:
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


def _border(found: _Predicted, x: alt.X) -> Chart:
    rows = pd.DataFrame({found.x: sorted(set(found.border))})
    return (
        alt.Chart(rows)
        .mark_rule(strokeDash=[2, 3], strokeWidth=1.5, color=QUIET)
        .encode(x=x, tooltip=[tip(found.x, "measured from or up to", ",d")])
    )


def _measured(found: _Predicted, metric: Metric, x: alt.X, y: alt.Y) -> Chart:
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


def _question(found: _Predicted, metric: Metric, x: alt.X, y: alt.Y) -> Chart:
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


# --- The chart of how far predictions of measured points were off, each made without that point.


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
    return _drawn_points(rows, names)


def _drawn_points(rows: pd.DataFrame, names: tuple[str, str]) -> Chart:
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


# --- The chart of two textbook models, which stand on no measurement.


_RATES = tuple(step / 20 for step in range(21))


def textbook(given: TextbookParameters) -> Chart:
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


def _speedups(given: TextbookParameters, rates: Iterable[float]) -> pd.DataFrame:
    found = [given.found(rate) for rate in rates]
    rows = [(END_TO_END, one.acceptance_rate, one.end_to_end_gain) for one in found]
    rows += [(ONE_STREAM, one.acceptance_rate, one.single_stream_speedup) for one in found]
    return pd.DataFrame(rows, columns=["model", "rate", "speedup"])
