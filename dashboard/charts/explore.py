"""The free chart of the Data page: marks over a number, a time, a text or another amount."""

import colorsys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import altair as alt
import pandas as pd

from answers.explore import ChartPanel, Mark, Marks, Measure, Pick, axis_title, subtitle
from dashboard.charts import Chart
from dashboard.charts.axes import Channel, tip, title
from dashboard.palette import arm_colour
from warehouse.catalogue import METRICS

_FIRST, _LAST = (0.80, 0.42, 0.40), (0.55, 0.35, 0.68)
"""Hue, saturation and lightness of the ends: plum to a light green-blue, the long way round."""


def key_colours(number: int) -> list[str]:
    """Return hex colours of ``number`` values in their order."""
    return [_between(i / max(number - 1, 1)) for i in range(number)]


def _between(share: float) -> str:
    hue, saturation, lightness = (a + (b - a) * share for a, b in zip(_FIRST, _LAST, strict=True))
    red, green, blue = colorsys.hls_to_rgb(hue, lightness, saturation)
    return f"#{round(red * 255):02x}{round(green * 255):02x}{round(blue * 255):02x}"


Kind = Literal["number", "time", "text", "path"]

HEIGHT = 300
#: Names side by side in the legend, and the height of one, px.
_ACROSS, _LINE = 2, 20
#: Name of the selection that a click makes; its fields say which mark it was.
PICKED = "picked"
#: A span this wide is drawn on a log2 axis, as the levels of concurrency are.
_WIDE = 16
_COLUMNS = ("series", "x", "y", "low", "high", "load", "cells", "evidence")


@dataclass(frozen=True)
class Axes:
    """What the panels of one chart share: kind of x, its values, the ends of y, the series and
    whether these are arms; ``x_name``, ``series_name`` and ``number``, the format of a value, are
    for its words."""

    kind: Kind
    ticks: tuple[Any, ...]
    low: float
    high: float
    series: tuple[str, ...]
    arms: bool
    x_name: str
    series_name: str
    number: str


def axes(found: Marks, pick: Pick) -> Axes:
    """Return the scales that all panels share."""
    marks = found.all
    kind = _kind(pick)
    ticks = tuple(sorted({mark.x for mark in marks})) if kind in ("number", "text") else ()
    low, high = min(min(m.low for m in marks), 0.0), max(m.high for m in marks)
    return Axes(
        kind, ticks, low, high * 1.06 or 1.0, tuple(sorted({m.series for m in marks})),
        pick.series.column == "arm_label", axis_title(pick.x), pick.series.label,
        f",.{METRICS[pick.y.metric].decimals}f",
    )  # fmt: skip


def _kind(pick: Pick) -> Kind:
    if isinstance(pick.x, Measure):
        return "path"
    return "text" if pick.x.kind == "several" else pick.x.kind


def panel(one: ChartPanel, pick: Pick, name: str, shared: Axes) -> Chart:
    """Draw one line per series with the extremes of its cells; points can be clicked. ``name``:
    title."""
    rows = mark_rows(one.marks)
    base = alt.Chart(rows).encode(x=_x(shared), y=_y(shared))
    layers = [_extremes(base, shared), _points(base, shared)]
    if shared.kind != "text":
        layers.insert(1, _lines(base, shared))
    heading = title(name)
    heading.subtitle = list(subtitle(one, pick))
    height = HEIGHT + _LINE * -(-len(shared.series) // _ACROSS)
    return alt.layer(*layers, title=heading, height=height)


def mark_rows(marks: Sequence[Mark]) -> pd.DataFrame:
    """Return a row per mark; ``solid`` is 0 for a single cell."""
    rows = pd.DataFrame({name: [getattr(m, name) for m in marks] for name in _COLUMNS})
    return rows.assign(solid=(rows["cells"] > 1).astype(int))


def _extremes(base: Any, shared: Axes) -> Any:
    return base.mark_rule(strokeWidth=2, opacity=0.45).encode(
        color=_colour(shared, _legend(shared)),
        y=alt.Y(field="low", type="quantitative"),
        y2=alt.Y2(field="high"),
    )


def _lines(base: Any, shared: Axes) -> Any:
    along = "load" if shared.kind == "path" else "x"
    return base.mark_line(strokeWidth=2).encode(
        color=_colour(shared, _legend(shared)), order=alt.Order(field=along, type="quantitative")
    )


def _legend(shared: Axes) -> alt.Legend:
    # The layers' own opacity would make its samples pale.
    return alt.Legend(
        title=shared.series_name, orient="bottom", columns=_ACROSS, labelLimit=220, symbolOpacity=1
    )


def _points(base: Any, shared: Axes) -> Any:
    along = "load" if shared.kind == "path" else "x"
    picked = alt.selection_point(name=PICKED, fields=["series", along])
    return (
        base.mark_point(size=60, strokeWidth=2, opacity=1)
        .encode(
            stroke=_colour(shared, None, "stroke"),
            fill=_colour(shared, None, "fill"),
            fillOpacity=alt.FillOpacity(
                field="solid", type="quantitative", scale=None, legend=None
            ),
            strokeOpacity=alt.condition(picked, alt.value(1), alt.value(0.35)),
            tooltip=_tooltip(shared),
        )
        .add_params(picked)
    )


def _tooltip(shared: Axes) -> list[alt.Tooltip]:
    along = {"number": tip("x", shared.x_name, "~r"), "path": tip("x", shared.x_name, shared.number),
             "time": alt.Tooltip(field="x", type="temporal", title=shared.x_name)}  # fmt: skip
    known = [
        tip("series", shared.series_name), along.get(shared.kind, tip("x", shared.x_name)),
        tip("y", "value", shared.number), tip("low", "lowest cell", shared.number),
        tip("high", "highest cell", shared.number), tip("cells", "cells", "d"),
        tip("evidence", "evidence"),
    ]  # fmt: skip
    return [*known, tip("load", "concurrency", "d")] if shared.kind == "path" else known


def _x(shared: Axes) -> alt.X:
    if shared.kind == "text":
        axis = alt.Axis(labelAngle=0, labelLimit=140, grid=False)
        domain = alt.Scale(domain=list(shared.ticks))
        return alt.X(field="x", type="nominal", title=shared.x_name, axis=axis, scale=domain)
    if shared.kind == "time":
        return alt.X(field="x", type="temporal", title=f"{shared.x_name} (UTC)",
                     scale=alt.Scale(type="utc"))  # fmt: skip
    if shared.kind == "path":
        axis = alt.Axis(tickCount=6, grid=False)
        return alt.X(field="x", type="quantitative", title=shared.x_name, axis=axis,
                     scale=alt.Scale(zero=True))  # fmt: skip
    return _number(shared)


def _number(shared: Axes) -> alt.X:
    low, high = float(shared.ticks[0]), float(shared.ticks[-1])
    axis = alt.Axis(values=list(shared.ticks), format="~r", grid=False, labelOverlap="greedy")
    if low > 0 and high / low >= _WIDE:
        scale = alt.Scale(type="log", base=2, domain=[low / 1.12, high * 1.12], nice=False)
    else:
        scale = alt.Scale(zero=False, padding=14, nice=False)
    return alt.X(field="x", type="quantitative", title=shared.x_name, axis=axis, scale=scale)


def _y(shared: Axes) -> alt.Y:
    large = "~s" if shared.high >= 10_000 else ",~r"
    return alt.Y(
        field="y",
        type="quantitative",
        title=None,
        axis=alt.Axis(tickCount=5, format=large),
        scale=alt.Scale(domain=[shared.low, shared.high], nice=False),
    )


def _colour(shared: Axes, legend: Any, channel: Channel = "color") -> Any:
    scale = alt.Scale(domain=list(shared.series), range=_colours(shared))
    kinds = {"color": alt.Color, "stroke": alt.Stroke, "fill": alt.Fill}
    return kinds[channel](field="series", type="nominal", scale=scale, legend=legend)


def _colours(shared: Axes) -> list[str]:
    """Return the colours of the series: an arm's own, and a sequence apart for values of other
    keys."""
    if shared.arms:
        return [arm_colour(name) for name in shared.series]
    return key_colours(len(shared.series))
