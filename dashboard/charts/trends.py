"""Charts over nights and between releases."""

import os
from collections.abc import Sequence
from typing import Any

import altair as alt
import pandas as pd

from analysis.nightly.nights import NOON
from analysis.nightly.regressions import ReleaseEffect
from answers.runs.notes import UNKNOWN_NIGHT, PlacedNote, by_night
from answers.trend.answer import TrendLine, names
from answers.wording import badge, bracketed
from dashboard.charts import Chart
from dashboard.charts.axes import QUIET
from dashboard.charts.axes import title as heading
from dashboard.palette import arm_colour
from warehouse.catalogue import Metric

HEIGHT = 320
#: Rows of a forest that can be read without scrolling far.
MOST_ROWS = 40
_ROW = 26
#: Where notes are marked, in px below the top of the chart.
_TOP = 8
_HALF_DAY = NOON / pd.Timedelta(milliseconds=1)


def run_chart(line: TrendLine, notes: Sequence[PlacedNote] = ()) -> Chart:
    """Draw one series over nights: noise band, levels, the reference, points, and ticks where
    something changed, where the level moved, and where people wrote ``notes``."""
    metric = line.assessed.series.measure
    rows = run_rows(line)
    base = alt.Chart(rows).encode(x=_nights(rows))
    colour = arm_colour(line.arm)
    layers = [
        *_levels(base, metric),
        *_reference(rows, line, metric),
        *_changes(rows, metric),
        base.mark_line(strokeWidth=1.5, color=colour).encode(y=_value("value", metric)),
        base.mark_point(size=60, strokeWidth=2, opacity=1, fill=colour, stroke=colour).encode(
            y=_value("value", metric),
            fillOpacity=alt.FillOpacity(field="solid", type="quantitative", scale=None),
            tooltip=_tooltip(metric),
        ),
        *_noted(rows, _marks(rows, notes)),
    ]
    title = f"{line.metric}, {metric.unit}{bracketed(badge(line.evidence))}"
    return alt.layer(*layers).properties(title=heading(title, line.name), height=HEIGHT)


def run_rows(line: TrendLine) -> pd.DataFrame:
    """Return one row per night: ``at`` (ms since 1970, UTC), ``night``, ``value``, ``level``,
    ``low``, ``high`` (NaN: no noise known), ``part``, ``repeats``, ``solid`` (0 for a single
    repeat), ``changed`` (empty: as the night before)."""
    rows = [
        {
            # Vega reads a time from a number, not from a text.
            "at": point.at.timestamp() * 1000, "night": point.night, "value": point.value,
            "repeats": point.repeats, "part": point.part, "level": point.level, "low": point.low,
            "high": point.high, "solid": int(point.repeats > 1),
            "changed": "; ".join(change.sentence for change in point.changed),
        }
        for point in line.points
    ]  # fmt: skip
    return pd.DataFrame(rows).astype({"low": float, "high": float})


def _marks(rows: pd.DataFrame, notes: Sequence[PlacedNote]) -> pd.DataFrame:
    """Return one row per night of the chart's time of which something was said: ``at``, ``night``,
    ``said``. A night that has no point, or no longer, stands at its midnight."""
    points = dict(zip(rows["night"].str[:10][::-1], rows["at"][::-1], strict=True))
    told = [
        {
            "at": points.get(
                name, float(pd.Timestamp(name, tz="UTC").timestamp() * 1000 + 2 * _HALF_DAY)
            ),
            "night": name,
            "said": text,
        }
        for name, text in by_night(notes)
        if name != UNKNOWN_NIGHT
    ]
    known = pd.DataFrame(told, columns=["at", "night", "said"])
    first, last = rows["at"].min() - _HALF_DAY, rows["at"].max() + _HALF_DAY
    return known[known["at"].astype(float).between(first, last)]


def _reference(rows: pd.DataFrame, line: TrendLine, metric: Metric) -> list[Any]:
    """Draw the level that the last nights are compared with, from its first night to the last
    one."""
    if line.assessed.against is None:
        return []
    first = rows.iloc[line.assessed.against[0]]
    ends = pd.DataFrame(
        {"at": [first["at"], rows["at"].max()], "level": first["level"], "told": ["reference", ""]}
    )
    drawn = alt.Chart(ends).encode(x=_nights(rows), y=_value("level", metric))
    text = drawn.mark_text(align="left", dy=-8, fontSize=12, color=QUIET)
    return [
        drawn.mark_line(strokeWidth=1.5, color=QUIET),
        text.encode(text=alt.Text(field="told", type="nominal")),
    ]


def _levels(base: Any, metric: Metric) -> list[Any]:
    """Draw the noise around each level and the level itself."""
    part = alt.Detail(field="part", type="nominal")
    band = base.mark_area(opacity=0.16, color=QUIET).encode(
        y=_value("low", metric), y2=alt.Y2(field="high"), detail=part
    )
    line = base.mark_line(strokeWidth=1.5, strokeDash=[5, 4], color=QUIET)
    return [band, line.encode(y=_value("level", metric), detail=part)]


def _changes(rows: pd.DataFrame, metric: Metric) -> list[Any]:
    """Draw a thin line where the configuration changed, and a bold one where the level moved."""
    changed = rows[rows["changed"] != ""]
    moved = rows[rows["part"].diff() == 1]
    drawn = []
    for found, width, dash in ((changed, 1.0, [2, 3]), (moved, 2.5, [1, 0])):
        if not found.empty:
            rule = alt.Chart(found).mark_rule(strokeWidth=width, strokeDash=dash, color=QUIET)
            drawn.append(rule.encode(x=_nights(rows), tooltip=_tooltip(metric)))
    return drawn


def _noted(rows: pd.DataFrame, notes: pd.DataFrame) -> list[Any]:
    """Draw a triangle at the top of each night that people wrote a note on; pointing at it shows
    it."""
    if notes.empty:
        return []
    mark = alt.Chart(notes).mark_point(
        shape="triangle-down", filled=True, size=110, opacity=1, color=QUIET
    )
    said = [
        alt.Tooltip(field="night", type="nominal"),
        alt.Tooltip(field="said", type="nominal", title="noted"),
    ]
    return [mark.encode(x=_nights(rows), y=alt.value(_TOP), tooltip=said)]


def forest(effects: Sequence[ReleaseEffect]) -> Chart:
    """Draw the change of each series of one metric between two releases, with its interval."""
    rows = forest_rows(effects)
    badges = sorted({bracketed(badge(effect.series.about.get("evidence"))) for effect in effects})
    title = f"{effects[0].series.line}{''.join(badges)}"
    arms = sorted(rows["arm"].unique())
    scale = alt.Scale(domain=arms, range=[arm_colour(arm) for arm in arms])
    colour = alt.Color(field="arm", type="nominal", scale=scale, legend=None)
    x = alt.X(
        field="value", type="quantitative", title="change, positive is better",
        axis=alt.Axis(format="+.0%", tickCount=5, titleAnchor="start"),
    )  # fmt: skip
    y = alt.Y(
        field="series", type="nominal", title=None, sort=list(rows["series"]),
        axis=alt.Axis(labelLimit=230, labelOverlap=False),
    )  # fmt: skip
    base = alt.Chart(rows).encode(y=y, color=colour)
    interval = base.mark_rule(strokeWidth=3, opacity=0.5).encode(
        x=alt.X(field="low", type="quantitative"), x2=alt.X2(field="high")
    )
    points = base.mark_point(size=70, filled=True, opacity=1).encode(
        x=x,
        tooltip=[
            alt.Tooltip(field="series", type="nominal"),
            alt.Tooltip(field="value", type="quantitative", title="change", format="+.1%"),
            alt.Tooltip(field="low", type="quantitative", title="95 % from", format="+.1%"),
            alt.Tooltip(field="high", type="quantitative", title="to", format="+.1%"),
            alt.Tooltip(field="status", type="nominal"),
        ],
    )
    zero = (
        alt.Chart(alt.InlineData(values=[{"zero": 0}]))
        .mark_rule(strokeDash=[4, 3], strokeWidth=1.5, color=QUIET)
        .encode(x=alt.X(field="zero", type="quantitative"))
    )
    high = _ROW * len(rows) + 90
    return alt.layer(zero, interval, points).properties(title=heading(title), height=high)


def forest_rows(effects: Sequence[ReleaseEffect]) -> pd.DataFrame:
    """Return a row per series: ``series``, ``arm``, ``value``, ``low``, ``high`` (ratios, positive
    is better), ``status``."""
    return pd.DataFrame(
        {
            "series": _short(effects),
            "arm": [str(effect.series.about.get("arm_label")) for effect in effects],
            "value": [effect.improvement for effect in effects],
            "low": [effect.low for effect in effects],
            "high": [effect.high for effect in effects],
            "status": [effect.word for effect in effects],
        }
    )


def _short(effects: Sequence[ReleaseEffect]) -> list[str]:
    """Return the names without the words that all of them begin with; they have to fit beside a
    chart."""
    told = [name.split(", ") for name in names([effect.series for effect in effects])]
    alike = len(os.path.commonprefix(told)) if len(told) > 1 else 0
    return [", ".join(words[alike:]) for words in told]


def _nights(rows: pd.DataFrame) -> alt.X:
    """Return the axis of nights as plain numbers: then a single night has a place too, and nothing
    is parsed."""
    ends = [rows["at"].min() - _HALF_DAY, rows["at"].max() + _HALF_DAY]
    return alt.X(
        field="at",
        type="quantitative",
        title="night (UTC)",
        scale=alt.Scale(domain=ends, nice=False),
        axis=alt.Axis(
            values=list(rows["at"].unique()),
            # Noon to noon is one night, named by the day on which it began.
            labelExpr=f"utcFormat(datum.value - {_HALF_DAY}, '%d %b')",
            grid=False,
            labelOverlap="greedy",
            labelSeparation=12,
            titleAnchor="start",
        ),
    )


def _value(field: str, metric: Metric) -> alt.Y:
    # What matters here are steps of a few percent: the axis is cut, and the caption says so.
    return alt.Y(
        field=field, type="quantitative", title=metric.unit,
        scale=alt.Scale(zero=False), axis=alt.Axis(tickCount=5, format=",~r"),
    )  # fmt: skip


def _tooltip(metric: Metric) -> list[alt.Tooltip]:
    number = f",.{metric.decimals}f"
    return [
        alt.Tooltip(field="night", type="nominal"),
        alt.Tooltip(field="value", type="quantitative", title=metric.unit, format=number),
        alt.Tooltip(field="low", type="quantitative", title="noise from", format=number),
        alt.Tooltip(field="high", type="quantitative", title="to", format=number),
        alt.Tooltip(field="repeats", type="quantitative"),
        alt.Tooltip(field="changed", type="nominal", title="changed"),
    ]
