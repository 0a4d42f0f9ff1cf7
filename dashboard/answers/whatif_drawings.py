"""What the What-if page draws: predictions over load and K, and the errors of withheld points."""

from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from analysis.prediction.whatif import Model, Prediction
from dashboard.answers import Drawing, drawn
from dashboard.answers.draft_drawings import arm_name
from dashboard.answers.whatif import Given, factors, outside
from dashboard.charts import Scales, nothing
from dashboard.charts import forecast as charts_forecast
from dashboard.charts.forecast import Predicted
from dashboard.ends import panel_of
from warehouse.catalogue import METRICS

_LEFT_OUT = {"k": "all of one K", "concurrency": "all of one load"}


@dataclass(frozen=True)
class Sheet:
    """One arm family on one dataset, ready to be drawn: ``method`` names its arms, ``note`` (its
    badges) ends its titles."""

    model: Model
    errors: pd.DataFrame
    dataset: str
    method: str
    note: str


Line = Sequence[Prediction]


def over_load(sheet: Sheet, given: Given, lines: tuple[Line, Line], metric: str) -> Drawing:
    """One metric over the load for the chosen K and the baseline. ``lines``: predictions of both."""
    model = sheet.model
    border = model.ranges["concurrency"]
    chosen = [line for line in lines if line]
    rows = pd.concat(
        [_line(sheet, line, metric, "concurrency") for line in chosen], ignore_index=True
    ).drop_duplicates(["arm", "concurrency"])
    last = rows["concurrency"] == rows["concurrency"].max()
    rows = _apart(rows.assign(end_label=rows["arm"].where(last, ""), end_y=rows["value"]))
    points = model.points[model.points["k"].isin([0, given.k])]
    found = Predicted(
        "concurrency", rows, _points(sheet, points, metric, "concurrency"),
        _asked(rows, given, sheet), border,
    )  # fmt: skip
    arm = f"K = {given.k}" if given.k else "no drafts"
    return _predicted(found, metric, (f"over load{sheet.note}", f"{sheet.dataset}, {arm}"), given)


def _apart(rows: pd.DataFrame) -> pd.DataFrame:
    """Names at the ends of lines at least a line apart."""
    scales = Scales((), 0.0, float(rows["value"].max()))
    return panel_of(rows.assign(panel=""), "", scales).drop(columns="panel")


def over_k(sheet: Sheet, given: Given, line: Line, metric: str) -> Drawing:
    """One metric over K at the chosen load. ``line``: predictions by K."""
    model = sheet.model
    border = model.ranges["k"]
    rows = _line(sheet, line, metric, "k").assign(end_label="", end_y=0.0)
    points = model.points[model.points["concurrency"] == given.load]
    found = Predicted(
        "k", rows, _points(sheet, points, metric, "k"), _asked(rows, given, sheet), border
    )
    where = f"{sheet.dataset}, concurrency {given.load}"
    return _predicted(found, metric, (f"over K{sheet.note}", where), given)


def _predicted(found: Predicted, name: str, told: tuple[str, str], given: Given) -> Drawing:
    metric, (what, where) = METRICS[name], told
    subtitle = f"{where}; {metric.unit}, mean, {metric.better} is better; points: measured"
    if not given.as_measured:
        subtitle += ", with the measured acceptance and lengths"
    if found.line["low"].isna().any():
        subtitle += "; no band: error unknown"
    return drawn(charts_forecast.predicted(found, metric, (f"{metric.label} {what}", subtitle)))


def _line(sheet: Sheet, line: Line, metric: str, name: str) -> pd.DataFrame:
    """A row per prediction; ``name``: what it is drawn over."""
    rows = []
    for found in line:
        asked, value = found.question, float(getattr(found, metric))
        beyond = outside(sheet.model, asked)
        band = factors(sheet.errors, metric, beyond)
        at = getattr(asked, name)
        rows.append(
            {
                name: at, "arm": arm_name(sheet.method, asked.k), "value": value,
                "low": value * band[0] if band else float("nan"),
                "high": value * band[1] if band else float("nan"),
                "inside": not beyond and not (name == "k" and at == 0),
            }
        )  # fmt: skip
    return pd.DataFrame(rows)


def _points(sheet: Sheet, points: pd.DataFrame, metric: str, over: str) -> pd.DataFrame:
    arms = [arm_name(sheet.method, int(k)) for k in points["k"]]
    return pd.DataFrame(
        {
            over: points[over].astype(int), "arm": arms, "value": points[metric],
            "repeats": points["repeats"],
        }
    )  # fmt: skip


def _asked(rows: pd.DataFrame, given: Given, sheet: Sheet) -> pd.DataFrame:
    """The row of the question."""
    mine = rows["arm"] == arm_name(sheet.method, given.k)
    if "concurrency" in rows:
        mine &= rows["concurrency"] == given.load
    return rows[mine]


def withheld(sheet: Sheet, metric: str) -> Drawing:
    """Errors of the predictions of points that were withheld."""
    known = METRICS[metric]
    rows = sheet.errors[sheet.errors["metric"] == metric]
    if rows.empty:
        return drawn(nothing(f"Errors of {known.label}: nothing could be withheld{sheet.note}"))
    marks = rows.assign(
        arm=[arm_name(sheet.method, int(k)) for k in rows["k"]],
        left_out=rows["left_out"].map(_LEFT_OUT),
        solid=rows["inside"].astype(int),
    )
    names = ["arm", "concurrency", "error", "measured", "predicted", "left_out", "solid"]
    worst = float(rows["error"].abs().max())
    title = f"Withheld points met within {worst * 100:.1f} %{sheet.note}"
    subtitle = (
        f"{sheet.dataset}, {known.label}, mean: predicted / measured − 1; hollow: beyond what the "
        "others cover"
    )
    return drawn(charts_forecast.withheld(marks[names], (title, subtitle)))
