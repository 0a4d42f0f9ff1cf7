"""Charts over nights and between releases: pure functions from a small frame to an Altair chart."""

from typing import Any

import altair as alt
import pandas as pd

from dashboard.charts import Chart
from dashboard.charts.axes import QUIET
from dashboard.charts.axes import title as heading
from dashboard.palette import arm_colour
from warehouse.catalogue import Metric

HEIGHT = 320
_ROW = 26
#: Where notes are marked, in px below the top of the chart.
_TOP = 8
_HALF_DAY = 12 * 3600 * 1000


def run_chart(
    rows: pd.DataFrame, metric: Metric, arm: str, title: str, notes: pd.DataFrame | None = None
) -> Chart:
    """One series over nights: noise band, level, points, and a tick where something changed.

    ``notes``: one row per night that people wrote a note on, with ``at``, ``night`` and ``said``.

    ``rows``: one per night with ``at`` (ms since 1970, UTC), ``night``, ``value``, ``level``, ``low``, ``high``
    (NaN: no noise known), ``part``, ``repeats``, ``solid`` (0 for a single repeat), ``changed``
    (empty: as the night before).
    """
    base = alt.Chart(rows).encode(x=_nights(rows))
    layers = [
        *_levels(base, metric),
        *_changes(rows, metric),
        base.mark_line(strokeWidth=1.5, color=arm_colour(arm)).encode(y=_value("value", metric)),
        base.mark_point(
            size=60, strokeWidth=2, opacity=1, fill=arm_colour(arm), stroke=arm_colour(arm)
        ).encode(
            y=_value("value", metric),
            fillOpacity=alt.FillOpacity(field="solid", type="quantitative", scale=None),
            tooltip=_tooltip(metric),
        ),
        *_noted(rows, notes),
    ]
    return alt.layer(*layers).properties(title=heading(title), height=HEIGHT)


def _levels(base: Any, metric: Metric) -> list[Any]:
    """The noise around each level and the level itself."""
    part = alt.Detail(field="part", type="nominal")
    band = base.mark_area(opacity=0.16, color=QUIET).encode(
        y=_value("low", metric), y2=alt.Y2(field="high"), detail=part
    )
    line = base.mark_line(strokeWidth=1.5, strokeDash=[5, 4], color=QUIET)
    return [band, line.encode(y=_value("level", metric), detail=part)]


def _changes(rows: pd.DataFrame, metric: Metric) -> list[Any]:
    """A thin line where the configuration changed, and a bold one where the level moved."""
    changed = rows[rows["changed"] != ""]
    moved = rows[rows["part"].diff() == 1]
    drawn = []
    for found, width, dash in ((changed, 1.0, [2, 3]), (moved, 2.5, [1, 0])):
        if not found.empty:
            rule = alt.Chart(found).mark_rule(strokeWidth=width, strokeDash=dash, color=QUIET)
            drawn.append(rule.encode(x=_nights(rows), tooltip=_tooltip(metric)))
    return drawn


def _noted(rows: pd.DataFrame, notes: pd.DataFrame | None) -> list[Any]:
    """A triangle at the top of each night that people wrote a note on; pointing at it shows it."""
    if notes is None or notes.empty:
        return []
    mark = alt.Chart(notes).mark_point(
        shape="triangle-down", filled=True, size=110, opacity=1, color=QUIET
    )
    said = [
        alt.Tooltip(field="night", type="nominal"),
        alt.Tooltip(field="said", type="nominal", title="noted"),
    ]
    return [mark.encode(x=_nights(rows), y=alt.value(_TOP), tooltip=said)]


def forest(rows: pd.DataFrame, title: str) -> Chart:
    """The change of each series between two releases, with its interval, around a zero line.

    ``rows``: one per series with ``series``, ``arm``, ``value``, ``low``, ``high`` (ratios,
    positive is better), ``status``.
    """
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


def _nights(rows: pd.DataFrame) -> alt.X:
    """Moments as plain numbers: a single night has a place too, and nothing is parsed."""
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
