"""Charts over concurrency: pure functions from a small frame to an Altair chart.

Channels are explicit objects: shorthand strings are parsed on every rerun and cost twice as much.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt
import pandas as pd

from dashboard.charts.axes import QUIET, colour, loads, named_loads, tip
from dashboard.charts.axes import title as heading
from warehouse.catalogue import Metric

#: An alt.Chart or alt.LayerChart: Altair's own annotations are too loose for a strict check.
Chart = Any

HEIGHT = 290
#: Width of a letter of an end label, and of the narrowest plot that a laptop draws, px.
_LETTER, _PLOT = 7.2, 290
#: Zero has no sign.
SIGNED = "datum.value == 0 ? '0 %' : format(datum.value * 100, '+.0f') + ' %'"
#: Labels take at most this share of a plot's width.
_MOST_LABEL = 0.58


@dataclass(frozen=True)
class Scales:
    """What the panels of one question share, so that they can be compared by eye.

    ``levels`` are the concurrency levels that occur; ``low`` and ``high`` bound the value axis.
    ``names``: of loads that are no such levels; these stand at the places 1, 2 … on the axis.
    """

    levels: tuple[int, ...]
    low: float
    high: float
    names: tuple[str, ...] = ()


def nothing(title: str) -> Chart:
    """Return an empty chart for what is not known: its title says what."""
    blank = alt.Chart(alt.InlineData(values=[{"x": 0}])).mark_point(opacity=0)
    return blank.properties(title=heading(title, "no pair has a value"), height=HEIGHT)


def improvement_by_concurrency(
    rows: pd.DataFrame,
    title: tuple[str, str],
    scales: Scales,
) -> Chart:
    """Draw how much better each arm is than the baseline, one line per arm, zero line drawn.

    ``rows``: one per arm x concurrency with ``arm``, ``concurrency``, ``value`` (ratio, positive is
    better), ``low``, ``high``, ``interval`` (both in words), ``solid`` (0 for a single repeat),
    ``repeats``, ``cell``, ``end_label``, ``end_y``, and ``load`` where it has a name.
    """
    y = alt.Y(
        field="value",
        type="quantitative",
        title=None,
        axis=alt.Axis(labelExpr=SIGNED, tickCount=5),
        scale=alt.Scale(domain=[scales.low, scales.high], nice=False),
    )
    x = _levels(scales, rows["end_label"])
    layers = [_zero(scales.levels, x), *_lines(rows, (x, y), "+.1%")]
    return alt.layer(*layers, title=heading(*title), height=HEIGHT)


def _zero(levels: Sequence[int], x: alt.X) -> Chart:
    """Draw the line of no difference, over the loads alone: beside them stand names."""
    ends = [{"zero": 0, "concurrency": at} for at in (min(levels) / 1.12, max(levels) * 1.04)]
    return (
        alt.Chart(alt.InlineData(values=ends))
        .mark_line(strokeDash=[4, 3], strokeWidth=1.5, color=QUIET)
        .encode(x=x, y=alt.Y(field="zero", type="quantitative"))
    )


def metric_by_concurrency(
    rows: pd.DataFrame, metric: Metric, title: tuple[str, str], scales: Scales
) -> Chart:
    """Draw one metric over concurrency, one line per arm, the last value written at the line's end.

    ``rows`` as for ``improvement_by_concurrency``, ``value`` in the metric's own unit.
    """
    y = alt.Y(
        field="value",
        type="quantitative",
        title=None,
        axis=alt.Axis(tickCount=5, format="~s" if scales.high >= 10_000 else ",~r"),
        scale=alt.Scale(domain=[scales.low, scales.high], nice=False),
    )
    x = _levels(scales, rows["end_label"])
    layers = _lines(rows, (x, y), f",.{metric.decimals}f")
    return alt.layer(*layers, title=heading(*title), height=HEIGHT)


def _lines(rows: pd.DataFrame, axes: tuple[alt.X, alt.Y], value_format: str) -> list[Any]:
    hue = colour(rows)
    base = alt.Chart(rows).encode(x=axes[0], y=axes[1])
    tooltip = [
        tip("arm", "arm"), _load_tip(rows), tip("value", "value", value_format),
        tip("interval", "interval"), tip("repeats", "repeats", "d"), tip("cell", "cell"),
    ]  # fmt: skip
    low, high = alt.Y(field="low", type="quantitative"), alt.Y2(field="high")
    band = base.mark_area(opacity=0.16).encode(color=hue, y=low, y2=high)
    bars = base.mark_rule(strokeWidth=2, opacity=0.45).encode(color=hue, y=low, y2=high)
    points = base.mark_point(size=55, strokeWidth=2, opacity=1).encode(
        stroke=colour(rows, "stroke"),
        fill=colour(rows, "fill"),
        fillOpacity=alt.FillOpacity(field="solid", type="quantitative", scale=None, legend=None),
        tooltip=tooltip,
    )
    line = base.mark_line(strokeWidth=2).encode(color=hue)
    # A layer without a mark is an empty picture to who listens to the page.
    intervals = [band, bars] if rows["low"].notna().any() else []
    return [*intervals, line, points, _ends(rows, axes[0])]


def _load_tip(rows: pd.DataFrame) -> alt.Tooltip:
    """Return a line of a tooltip with the load in words, where the rows have them."""
    return tip("load", "load") if "load" in rows else tip("concurrency", "concurrency", "d")


def _ends(rows: pd.DataFrame, x: alt.X) -> Chart:
    """Draw the arm and its last value at the right end of its line, in place of a legend."""
    ends = rows[rows["end_label"] != ""]
    return (
        alt.Chart(ends)
        .mark_text(align="left", baseline="middle", dx=9, fontSize=12, fontWeight=600)
        .encode(
            x=x,
            y=alt.Y(field="end_y", type="quantitative"),
            text=alt.Text(field="end_label", type="nominal"),
            color=colour(rows),
        )
    )


def _levels(scales: Scales, labels: pd.Series) -> alt.X:
    """Return the axis of loads with room at its right for the end labels."""
    share = min((_LETTER * labels.str.len().max() + 12) / _PLOT, _MOST_LABEL)
    part = share / (1 - share)
    if scales.names:
        return named_loads(scales.names, max(len(scales.names) - 1, 1) * part)
    low, high = float(min(scales.levels)), float(max(scales.levels))
    return loads(scales.levels, max(high / low, 2.0) ** part)
