"""What the What-if page draws: predictions over load and K, and the errors of withheld points."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import nan

import pandas as pd

from answers.predict.values import Asked, Known, Lines, Measured, Step
from answers.predict.words import BAND
from dashboard.answers import Drawing, drawn
from dashboard.answers.draft_drawings import arm_name
from dashboard.charts import Scales, nothing
from dashboard.charts import forecast as charts_forecast
from dashboard.charts.forecast import Predicted
from dashboard.ends import panel_of
from warehouse.catalogue import METRICS

_LEFT_OUT = {"k": "all of one K", "concurrency": "all of one load"}
#: What is drawn: what a prediction says and a measured point holds.
DRAWN: tuple[str, ...] = ("output_throughput", "itl", "ttft")


@dataclass(frozen=True, eq=False)
class Sheet:
    """One arm family on one dataset, one question and one metric; ``note`` (its badges) ends the
    titles."""

    known: Known
    asked: Asked
    metric: str
    note: str

    def arm(self, k: int) -> str:
        """The name of an arm in a legend."""
        return arm_name(self.known.place.family.split(" ")[0], k)


def over_load(sheet: Sheet, lines: Lines) -> Drawing:
    """One metric over the load for the chosen K and the baseline."""
    asked = sheet.asked
    both = [_line(sheet, line, "concurrency") for line in (lines.over_load, lines.baseline) if line]
    rows = pd.concat(both, ignore_index=True).drop_duplicates(["arm", "concurrency"])
    last = rows["concurrency"] == rows["concurrency"].max()
    rows = _apart(rows.assign(end_label=rows["arm"].where(last, ""), end_y=rows["value"]))
    points = [point for point in sheet.known.points if point.k in (0, asked.k)]
    border = sheet.known.offer.load_range
    here = rows[(rows["arm"] == sheet.arm(asked.k)) & (rows["concurrency"] == asked.load)]
    found = Predicted("concurrency", rows, _points(sheet, points, "concurrency"), here, border)
    arm = f"K = {asked.k}" if asked.k else "no drafts"
    return _predicted(sheet, found, f"over load{sheet.note}", arm)


def _apart(rows: pd.DataFrame) -> pd.DataFrame:
    """Names at the ends of lines at least a line apart."""
    scales = Scales((), 0.0, float(rows["value"].max()))
    return panel_of(rows.assign(panel=""), "", scales).drop(columns="panel")


def over_k(sheet: Sheet, lines: Lines) -> Drawing:
    """One metric over K at the chosen load."""
    asked = sheet.asked
    rows = _line(sheet, lines.over_k, "k").assign(end_label="", end_y=0.0)
    points = [point for point in sheet.known.points if point.load == asked.load]
    here = rows[rows["arm"] == sheet.arm(asked.k)]
    border = sheet.known.offer.k_range
    found = Predicted("k", rows, _points(sheet, points, "k"), here, border)
    return _predicted(sheet, found, f"over K{sheet.note}", f"concurrency {asked.load}")


def _predicted(sheet: Sheet, found: Predicted, what: str, where: str) -> Drawing:
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
    return drawn(charts_forecast.predicted(found, metric, (f"{metric.label} {what}", subtitle)))


def _line(sheet: Sheet, line: Sequence[Step], over: str) -> pd.DataFrame:
    """A row per prediction; ``over``: what it is drawn over."""
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


def withheld(sheet: Sheet) -> Drawing:
    """Errors of the predictions of points that were withheld."""
    label = METRICS[sheet.metric].label
    mine = [one for one in sheet.known.withheld if one.metric == sheet.metric]
    if not mine:
        return drawn(nothing(f"Errors of {label}: nothing could be withheld{sheet.note}"))
    marks = [
        (sheet.arm(one.k), one.concurrency, one.error, one.measured, one.predicted,
         _LEFT_OUT[one.left_out], int(one.inside))
        for one in mine
    ]  # fmt: skip
    names = ["arm", "concurrency", "error", "measured", "predicted", "left_out", "solid"]
    worst = max(abs(one.error) for one in mine)
    title = f"Withheld points met within {worst * 100:.1f} %{sheet.note}"
    subtitle = (
        f"{sheet.known.place.dataset}, {label}, mean: predicted / measured − 1; hollow: beyond what "
        "the others cover"
    )
    rows = pd.DataFrame(marks, columns=names)
    return drawn(charts_forecast.withheld(rows, (title, subtitle)))
