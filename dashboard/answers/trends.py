"""The tables and charts of the Trends page: how the trend and one of its series are shown."""

from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd
from streamlit import column_config as col

from analysis.nightly.nights import Series
from analysis.nightly.run_chart import Point, points
from analysis.tables import number
from answers.trend.answer import Line, Trend, names
from answers.wording import badge
from dashboard.answers import Drawing, drawn
from dashboard.answers.notes import Placed, by_night, marks
from dashboard.charts import trends as charts_trends
from dashboard.components import Shown, shown
from dashboard.depth import bracketed
from dashboard.links import cell_link
from warehouse.catalogue import METRICS

#: Series that can be chosen at once; the others are behind filters.
MOST_SERIES = 200
TABLE_COLUMNS = {
    name: col.TextColumn(name, alignment="right") for name in ("change", "95 % interval", "budget")
}
NIGHT_COLUMNS = {
    "value": col.TextColumn("value", alignment="right"),
    "cell": col.LinkColumn("first cell", display_text="open"),
}


@dataclass(frozen=True)
class Overview:
    """``trend``: all that is judged; ``places``: metric -> its series' names -> their place there."""

    trend: Trend
    places: dict[str, dict[str, int]]
    table: Shown


def overview(found: Trend) -> Overview:
    """The trend with its table, and its series by metric and name."""
    places: dict[str, dict[str, int]] = {}
    told = names([line.assessed.series for line in found.lines])
    for place, (name, line) in enumerate(zip(told, found.lines, strict=True)):
        places.setdefault(line.metric, {})[name] = place
    return Overview(found, places, _table(found.lines))


def _table(lines: Sequence[Line]) -> Shown:
    rows = [
        {
            "verdict": line.status,
            "series": line.name,
            "metric": line.metric,
            "change": line.change,
            "95 % interval": line.interval,
            "budget": f"{line.budget:.1%}",
            "since": line.since or "",
            "against": line.against,
            "drift": line.drift.said if line.drift else "",
            "nights": line.nights,
            "evidence": _evidence(line.assessed.series) or "GPU",
            "why": line.why,
        }
        for line in lines
    ]
    return shown(pd.DataFrame(rows))


def file_rows(found: Trend) -> pd.DataFrame:
    """Every series unrounded, for a file: what it is, how it is judged, since when."""
    told = [
        {
            **line.assessed.series.about, "metric": line.assessed.series.metric,
            "statistic": line.assessed.series.statistic, "verdict": line.status,
            "improvement": line.improvement, "low": line.low, "high": line.high,
            "budget": line.budget, "since": line.since, "against": line.against,
            "drift_per_night": line.drift.per_night if line.drift else None,
            "nights": line.nights, "why": line.why,
        }
        for line in found.lines
    ]  # fmt: skip
    return pd.DataFrame(told)


def run_chart(line: Line, notes: Sequence[Placed] = ()) -> Drawing:
    """The series over its nights, and where people wrote ``notes``."""
    series = line.assessed.series
    metric = METRICS[series.metric]
    title = f"{line.metric}, {metric.unit}{badge_of(series)}"
    return drawn(
        charts_trends.run_chart(
            chart_rows(points(line.assessed)), metric, str(series.about.get("arm_label")), title,
            marks(notes, line.assessed),
        )
    )  # fmt: skip


def chart_rows(found: Sequence[Point]) -> pd.DataFrame:
    """One row per night as ``charts.trends.run_chart`` takes it."""
    rows = [
        {
            # Vega takes a number for a moment, and a text for nothing.
            "at": point.at.timestamp() * 1000, "night": point.night, "value": point.value,
            "repeats": point.repeats, "part": point.part, "level": point.level, "low": point.low,
            "high": point.high, "solid": int(point.repeats > 1),
            "changed": "; ".join(change.sentence for change in point.changed),
        }
        for point in found
    ]  # fmt: skip
    return pd.DataFrame(rows).astype({"low": float, "high": float})


def badge_of(series: Series) -> str:
    """What kind of evidence a series is, as the end of a title; empty for a GPU's."""
    return bracketed(_evidence(series))


def _evidence(series: Series) -> str:
    return badge(series.about.get("evidence"))


def changes(line: Line) -> Shown:
    """What changed in the configuration with each night: night, setting, before, after."""
    rows = [
        {
            "night": point.night,
            "setting": change.field,
            "before": _said(change.before),
            "after": _said(change.after),
        }
        for point in points(line.assessed)
        for change in point.changed
    ]
    return shown(pd.DataFrame(rows[::-1], columns=["night", "setting", "before", "after"]))


def _said(value: object) -> str:
    return "not stated" if value is None else str(value)


def nights(line: Line, notes: Sequence[Placed] = ()) -> Shown:
    """Every point with its first cell, newest first, and what people noted on it."""
    metric = METRICS[line.assessed.series.metric]
    said = by_night(notes)
    rows = [
        {
            "night": point.night,
            "value": f"{number(point.value, metric.decimals)} {metric.unit}",
            "repeats": point.repeats,
            "noise from": number(point.low, metric.decimals),
            "to": number(point.high, metric.decimals),
            **({"notes": said.get(point.night[:10], "")} if said else {}),
            "cell": cell_link(str(point.cell_id)),
        }
        for point in points(line.assessed)
    ]
    return shown(pd.DataFrame(rows[::-1]))


def days(line: Line) -> list[str]:
    """The nights of a series without their versions, newest first."""
    return list(dict.fromkeys(night.day for night in reversed(line.assessed.series.nights)))
