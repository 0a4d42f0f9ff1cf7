"""Charts of predictions: measured points, the predicted line with its band, where measuring ends."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import nan

import altair as alt
import pandas as pd

from answers.predict.values import Asked, Known, Lines, Measured, Step
from answers.predict.words import BAND
from dashboard.charts import Chart
from dashboard.charts.axes import QUIET, amounts, colour, loads, tip, title
from dashboard.charts.ends import end_names, ends_apart
from warehouse.catalogue import METRICS, Metric

HEIGHT = 300
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

    known: Known
    asked: Asked
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


def over_load(sheet: Sheet, lines: Lines) -> Chart:
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


def over_k(sheet: Sheet, lines: Lines) -> Chart:
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


def _line(sheet: Sheet, line: Sequence[Step], over: str) -> pd.DataFrame:
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


def _points(sheet: Sheet, points: Sequence[Measured], over: str) -> pd.DataFrame:
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
