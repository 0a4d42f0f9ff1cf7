"""The free chart of the Explore page: marks over a number, a time, a text or another amount."""

from dataclasses import dataclass
from typing import Any, Literal

import altair as alt
import pandas as pd

from dashboard.charts import Chart
from dashboard.charts.axes import Channel, tip, title
from dashboard.palette import arm_colour
from dashboard.palette_keys import key_colours

Kind = Literal["number", "time", "text", "path"]

HEIGHT = 300
#: Names side by side in the legend, and the height of one, px.
_ACROSS, _LINE = 2, 20
#: Name of the selection that a click makes; its fields say which mark it was.
PICKED = "picked"
#: A span this wide is drawn on a log2 axis, as the levels of concurrency are.
_WIDE = 16


@dataclass(frozen=True)
class Axes:
    """What the panels of one chart share: kind of x, its values, the ends of y, the series and
    whether these are arms."""

    kind: Kind
    ticks: tuple[Any, ...]
    low: float
    high: float
    series: tuple[str, ...]
    arms: bool


@dataclass(frozen=True)
class Words:
    """What stands around a chart; ``value`` is the format of a number in a tooltip."""

    title: str
    subtitle: str
    x: str
    series: str
    value: str


def axes(rows: pd.DataFrame, kind: Kind, arms: bool) -> Axes:
    """One scale for all panels. ``rows``: x, low, high, series; amounts start at zero."""
    ticks = tuple(sorted(rows["x"].unique())) if kind in ("number", "text") else ()
    low, high = min(float(rows["low"].min()), 0.0), float(rows["high"].max())
    series = tuple(sorted(rows["series"].unique()))
    return Axes(kind, ticks, low, high * 1.06 or 1.0, series, arms)


def marks(rows: pd.DataFrame, words: Words, shared: Axes) -> Chart:
    """One line per series with the extremes of its cells; points can be clicked.

    ``rows``: one per mark: series, x, y, low, high, cells, solid (0 for a single cell), evidence
    and, where x is an amount, load.
    """
    base = alt.Chart(rows).encode(x=_x(words, shared), y=_y(shared))
    layers = [_extremes(base, words, shared), _points(base, words, shared)]
    if shared.kind != "text":
        layers.insert(1, _lines(base, words, shared))
    height = HEIGHT + _LINE * -(-len(shared.series) // _ACROSS)
    return alt.layer(*layers, title=title(words.title, words.subtitle), height=height)


def _extremes(base: Any, words: Words, shared: Axes) -> Any:
    return base.mark_rule(strokeWidth=2, opacity=0.45).encode(
        color=_colour(shared, _legend(words)),
        y=alt.Y(field="low", type="quantitative"),
        y2=alt.Y2(field="high"),
    )


def _lines(base: Any, words: Words, shared: Axes) -> Any:
    along = "load" if shared.kind == "path" else "x"
    return base.mark_line(strokeWidth=2).encode(
        color=_colour(shared, _legend(words)), order=alt.Order(field=along, type="quantitative")
    )


def _legend(words: Words) -> alt.Legend:
    # The layers' own opacity would make its samples pale.
    return alt.Legend(
        title=words.series, orient="bottom", columns=_ACROSS, labelLimit=220, symbolOpacity=1
    )


def _points(base: Any, words: Words, shared: Axes) -> Any:
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
            tooltip=_tooltip(words, shared),
        )
        .add_params(picked)
    )


def _tooltip(words: Words, shared: Axes) -> list[alt.Tooltip]:
    along = {"number": tip("x", words.x, "~r"), "path": tip("x", words.x, words.value),
             "time": alt.Tooltip(field="x", type="temporal", title=words.x)}  # fmt: skip
    known = [
        tip("series", words.series), along.get(shared.kind, tip("x", words.x)),
        tip("y", "value", words.value), tip("low", "lowest cell", words.value),
        tip("high", "highest cell", words.value), tip("cells", "cells", "d"),
        tip("evidence", "evidence"),
    ]  # fmt: skip
    return [*known, tip("load", "concurrency", "d")] if shared.kind == "path" else known


def _x(words: Words, shared: Axes) -> alt.X:
    if shared.kind == "text":
        axis = alt.Axis(labelAngle=0, labelLimit=140, grid=False)
        domain = alt.Scale(domain=list(shared.ticks))
        return alt.X(field="x", type="nominal", title=words.x, axis=axis, scale=domain)
    if shared.kind == "time":
        return alt.X(field="x", type="temporal", title=f"{words.x} (UTC)",
                     scale=alt.Scale(type="utc"))  # fmt: skip
    if shared.kind == "path":
        axis = alt.Axis(tickCount=6, grid=False)
        return alt.X(field="x", type="quantitative", title=words.x, axis=axis,
                     scale=alt.Scale(zero=True))  # fmt: skip
    return _number(words, shared)


def _number(words: Words, shared: Axes) -> alt.X:
    low, high = float(shared.ticks[0]), float(shared.ticks[-1])
    axis = alt.Axis(values=list(shared.ticks), format="~r", grid=False, labelOverlap="greedy")
    if low > 0 and high / low >= _WIDE:
        scale = alt.Scale(type="log", base=2, domain=[low / 1.12, high * 1.12], nice=False)
    else:
        scale = alt.Scale(zero=False, padding=14, nice=False)
    return alt.X(field="x", type="quantitative", title=words.x, axis=axis, scale=scale)


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
    """An arm has its colour everywhere; the values of other keys have a sequence of their own."""
    if shared.arms:
        return [arm_colour(name) for name in shared.series]
    return key_colours(len(shared.series))
