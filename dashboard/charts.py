"""Charts over concurrency: pure functions from a small frame to an Altair chart.

Channels are explicit objects: shorthand strings are parsed on every rerun and cost twice as much.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import altair as alt
import pandas as pd

from dashboard.palette import arm_colour
from warehouse.catalogue import Metric

#: An alt.Chart or alt.LayerChart: Altair's own annotations are too loose for a strict check.
Chart = Any

HEIGHT = 290
#: Width of a letter of an end label, and of the narrowest plot that a laptop draws, px.
_LETTER, _PLOT = 7.2, 290
#: Zero has no sign.
_SIGNED = "datum.value == 0 ? '0 %' : format(datum.value * 100, '+.0f') + ' %'"
#: Labels take at most this share of a plot's width.
_MOST_LABEL = 0.58


@dataclass(frozen=True)
class Scales:
    """What the panels of one question share, so that they can be compared by eye.

    ``levels`` are the concurrency levels that occur; ``low`` and ``high`` bound the value axis.
    """

    levels: tuple[int, ...]
    low: float
    high: float


def nothing(title: str) -> Chart:
    """A chart's place where nothing is known: the title says what."""
    blank = alt.Chart(alt.InlineData(values=[{"x": 0}])).mark_point(opacity=0)
    return blank.properties(title=_title((title, "no pair has a value")), height=HEIGHT)


def improvement_by_concurrency(rows: pd.DataFrame, title: str, scales: Scales) -> Chart:
    """How much better each arm is than the baseline, one line per arm, zero line drawn.

    ``rows``: one per arm x concurrency with ``arm``, ``concurrency``, ``value`` (ratio, positive
    is better), ``low``, ``high``, ``solid`` (0 for a single repeat), ``end_label``, ``end_y``.
    """
    y = alt.Y(
        field="value",
        type="quantitative",
        title=None,
        axis=alt.Axis(labelExpr=_SIGNED, tickCount=5),
        scale=alt.Scale(domain=[scales.low, scales.high], nice=False),
    )
    zero = (
        alt.Chart(alt.InlineData(values=[{"zero": 0}]))
        .mark_rule(strokeDash=[4, 3], strokeWidth=1.5, color="#8b919a")
        .encode(y=alt.Y(field="zero", type="quantitative"))
    )
    layers = _lines(rows, y, scales, "+.1%")
    return alt.layer(zero, *layers).properties(title=_title((title, "")), height=HEIGHT)


def metric_by_concurrency(
    rows: pd.DataFrame, metric: Metric, title: tuple[str, str], scales: Scales
) -> Chart:
    """One metric over concurrency, one line per arm, the last value written at the line's end.

    ``rows`` as for ``improvement_by_concurrency``, ``value`` in the metric's own unit.
    """
    y = alt.Y(
        field="value",
        type="quantitative",
        title=None,
        axis=alt.Axis(tickCount=5, format="~s" if scales.high >= 10_000 else ",~r"),
        scale=alt.Scale(domain=[scales.low, scales.high], nice=False),
    )
    layers = _lines(rows, y, scales, f",.{metric.decimals}f")
    return alt.layer(*layers).properties(title=_title(title), height=HEIGHT)


def _lines(rows: pd.DataFrame, y: alt.Y, scales: Scales, value_format: str) -> list[Any]:
    colour = _colour(rows)
    base = alt.Chart(rows).encode(x=_levels(scales.levels, rows["end_label"]), y=y)
    tooltip = [
        alt.Tooltip(field="arm", type="nominal", title="arm"),
        alt.Tooltip(field="concurrency", type="quantitative", title="concurrency"),
        alt.Tooltip(field="value", type="quantitative", title="value", format=value_format),
        alt.Tooltip(field="repeats", type="quantitative", title="repeats"),
    ]
    band = base.mark_rule(strokeWidth=2, opacity=0.45).encode(
        color=colour,
        y=alt.Y(field="low", type="quantitative"),
        y2=alt.Y2(field="high"),
    )
    points = base.mark_point(size=55, strokeWidth=2, opacity=1).encode(
        stroke=_colour(rows, "stroke"),
        fill=_colour(rows, "fill"),
        fillOpacity=alt.FillOpacity(field="solid", type="quantitative", scale=None, legend=None),
        tooltip=tooltip,
    )
    return [band, base.mark_line(strokeWidth=2).encode(color=colour), points, _ends(rows, scales)]


def _ends(rows: pd.DataFrame, scales: Scales) -> Chart:
    """Direct labels: the arm and its last value, at the right end of its line."""
    ends = rows[rows["end_label"] != ""]
    return (
        alt.Chart(ends)
        .mark_text(align="left", baseline="middle", dx=9, fontSize=12, fontWeight=600)
        .encode(
            x=_levels(scales.levels, rows["end_label"]),
            y=alt.Y(field="end_y", type="quantitative"),
            text=alt.Text(field="end_label", type="nominal"),
            color=_colour(rows),
        )
    )


def _levels(levels: Sequence[int], labels: pd.Series) -> alt.X:
    """A log2 axis with the real levels as ticks, and room at its right for the end labels."""
    low, high = float(min(levels)), float(max(levels))
    share = min((_LETTER * labels.str.len().max() + 12) / _PLOT, _MOST_LABEL)
    room = max(high / low, 2.0) ** (share / (1 - share))
    return alt.X(
        field="concurrency",
        type="quantitative",
        title="concurrency",
        scale=alt.Scale(type="log", base=2, domain=[low / 1.12, high * room], nice=False),
        axis=alt.Axis(
            values=list(levels),
            format="d",
            grid=False,
            domain=False,
            titleAnchor="start",
            labelOverlap="greedy",
        ),
    )


Channel = Literal["color", "stroke", "fill"]


def _colour(rows: pd.DataFrame, channel: Channel = "color") -> Any:
    arms = sorted(rows["arm"].unique())
    scale = alt.Scale(domain=arms, range=[arm_colour(arm) for arm in arms])
    kinds = {"color": alt.Color, "stroke": alt.Stroke, "fill": alt.Fill}
    return kinds[channel](field="arm", type="nominal", scale=scale, legend=None)


def _title(text: tuple[str, str]) -> alt.TitleParams:
    title, subtitle = text
    return alt.TitleParams(
        text=title,
        subtitle=subtitle or alt.Undefined,
        anchor="start",
        fontSize=14,
        # Vega's own subtitle is black: invisible on a dark ground.
        subtitleColor="#8b919a",
        subtitleFontSize=12,
        fontWeight=600,
        offset=10,
    )
