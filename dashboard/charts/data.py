"""Charts of the page Data: the free chart, marks over a number, a time, a text or another amount; and one
cell in depth, its requests and what the server and its machine did while it was measured."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import altair as alt
import pandas as pd

from answers import explore
from answers.runs.read import CellCurve
from answers.wording import bracketed
from dashboard.charts import (
    QUIET,
    Chart,
    arm_colour,
    coloured,
    given,
    hex_of,
    large,
    shares,
    spans,
    tip,
    title,
)
from warehouse.catalogue import METRICS

Kind = Literal["number", "time", "text", "path"]
#: Hue, saturation and lightness of the ends: plum to a light green-blue, the long way round.
_FIRST, _LAST = (0.80, 0.42, 0.40), (0.55, 0.35, 0.68)
HEIGHT = 300
#: Names side by side in the legend, and the height of one, px.
_ACROSS, _LINE = 2, 20
#: Name of the selection that a click makes; its fields say which mark it was.
PICKED = "picked"
#: A span this wide is drawn on a log2 axis, as the levels of concurrency are.
_WIDE = 16
_COLUMNS = ("series", "x", "y", "low", "high", "load", "cells", "evidence")


def key_colours(number: int) -> list[str]:
    colours = []
    for at in range(number):
        share = at / max(number - 1, 1)
        hue, saturation, lightness = (
            first + (last - first) * share for first, last in zip(_FIRST, _LAST, strict=True)
        )
        colours.append(hex_of(hue, lightness, saturation))
    return colours


@dataclass(frozen=True)
class Axes:
    """What the panels of one chart share: kind of x, its values, the ends of y, the series."""

    kind: Kind
    ticks: tuple[Any, ...]
    low: float
    high: float
    series: tuple[str, ...]


def axes(found: explore.Marks, pick: explore.Pick) -> Axes:
    """Return the scales that all panels share."""
    marks = found.all
    kind: Kind = "path"
    if not isinstance(pick.x, explore.Measure):
        kind = "text" if pick.x.kind == "several" else pick.x.kind
    ticks = tuple(sorted({mark.x for mark in marks})) if kind in ("number", "text") else ()
    low, high = min(min(m.low for m in marks), 0.0), max(m.high for m in marks)
    return Axes(kind, ticks, low, high * 1.06 or 1.0, tuple(sorted({m.series for m in marks})))


def panel(one: explore.ChartPanel, pick: explore.Pick, name: str, shared: Axes) -> Chart:
    """Draw one line per series with the extremes of its cells; points can be clicked. ``name``:
    title."""
    y = alt.Y(
        field="y", type="quantitative", title=None,
        axis=alt.Axis(tickCount=5, format=large(shared.high)),
        scale=alt.Scale(domain=[shared.low, shared.high], nice=False),
    )  # fmt: skip
    x_name, series_name = explore.axis_title(pick.x), pick.series.label
    base = alt.Chart(mark_rows(one.marks)).encode(x=_x(shared, x_name), y=y)
    # An arm's own colours, and a sequence apart for values of other keys.
    names, number = shared.series, f",.{METRICS[pick.y.metric].decimals}f"
    arms = pick.series.column == "arm_label"
    colours = list(map(arm_colour, names)) if arms else key_colours(len(names))
    # The layers' own opacity would make the legend's samples pale.
    legend = alt.Legend(
        title=series_name, orient="bottom", columns=_ACROSS, labelLimit=220, symbolOpacity=1
    )
    colour = coloured("series", names, colours, legend=legend)
    along = "load" if shared.kind == "path" else "x"
    lines = base.mark_line(strokeWidth=2).encode(
        color=colour, order=alt.Order(field=along, type="quantitative")
    )
    over = {"number": tip("x", x_name, "~r"), "path": tip("x", x_name, number),
            "time": alt.Tooltip(field="x", type="temporal", title=x_name)}  # fmt: skip
    tips = [
        tip("series", series_name), over.get(shared.kind, tip("x", x_name)),
        tip("y", "value", number), tip("low", "lowest cell", number),
        tip("high", "highest cell", number), tip("cells", "cells", "d"), tip("evidence", "evidence"),
        *([tip("load", "concurrency", "d")] if shared.kind == "path" else []),
    ]  # fmt: skip
    picked = alt.selection_point(name=PICKED, fields=["series", along])
    points = base.mark_point(size=60, strokeWidth=2, opacity=1).encode(
        stroke=coloured("series", names, colours, "stroke"),
        fill=coloured("series", names, colours, "fill"),
        fillOpacity=given(alt.FillOpacity, "solid"),
        strokeOpacity=alt.condition(picked, alt.value(1), alt.value(0.35)),
        tooltip=tips,
    )
    extremes = spans(base.mark_rule(strokeWidth=2, opacity=0.45), color=colour)
    return alt.layer(
        extremes, *([] if shared.kind == "text" else [lines]), points.add_params(picked),
        title=title(name, list(explore.subtitle(one, pick))), height=HEIGHT + _LINE * -(-len(names) // _ACROSS),
    )  # fmt: skip


def mark_rows(marks: Sequence[explore.Mark]) -> pd.DataFrame:
    rows = pd.DataFrame({name: [getattr(m, name) for m in marks] for name in _COLUMNS})
    return rows.assign(solid=(rows["cells"] > 1).astype(int))


def _x(shared: Axes, name: str) -> alt.X:
    if shared.kind == "text":
        axis = alt.Axis(labelAngle=0, labelLimit=140, grid=False)
        scale = alt.Scale(domain=list(shared.ticks))
        return alt.X(field="x", type="nominal", title=name, axis=axis, scale=scale)
    if shared.kind == "time":
        return alt.X(field="x", type="temporal", title=f"{name} (UTC)", scale=alt.Scale(type="utc"))
    axis, scale = alt.Axis(tickCount=6, grid=False), alt.Scale(zero=True)
    if shared.kind == "number":
        low, high = float(shared.ticks[0]), float(shared.ticks[-1])
        axis = alt.Axis(values=list(shared.ticks), format="~r", grid=False, labelOverlap="greedy")
        scale = alt.Scale(zero=False, padding=14, nice=False)
        if low > 0 and high / low >= _WIDE:
            scale = alt.Scale(type="log", base=2, domain=[low / 1.12, high * 1.12], nice=False)
    return alt.X(field="x", type="quantitative", title=name, axis=axis, scale=scale)


# --- One cell in depth: its requests (how many took at most so long, which drafts were accepted), and what the
# server and its machine did while it was measured, over seconds.


_REQUESTS_HEIGHT, _SERVER_HEIGHT = 220, 200
#: Title -> its lines of ``Server.lines``, and whether they are shares.
CHARTS: dict[str, tuple[tuple[str, ...], bool]] = {
    "Requests in the server": (("running", "waiting"), False),
    "KV cache in use": (("KV cache",), True),
    "Output, tok/s": (("output",), False),
    "Acceptance rate": (("acceptance rate",), True),
    "Acceptance length, tokens/step": (("mean acceptance length",), False),
    "GPU clock, MHz": (("GPU clock",), False),
    "GPU power, W": (("GPU power",), False),
    "GPU temperature, °C": (("GPU temperature",), False),
    "Processor clock, MHz": (("processor clock",), False),
    "Cores that others kept busy": (("cores of others",), False),
    "Processor time stolen": (("stolen",), True),
}


def distribution(curve: CellCurve, colour: str, note: str = "") -> Chart:
    """Draw the empirical distribution of a metric (the name of ``curve``) over the requests.

    ``note`` is the badge of evidence other than a real GPU run.
    """
    metric = METRICS[curve.name]
    rows = pd.DataFrame(curve.points, columns=["value", "share"])
    return (
        alt.Chart(rows)
        .mark_line(interpolate="step-after", strokeWidth=2, color=colour)
        .encode(
            x=alt.X(field="value", type="quantitative", title=metric.unit),
            y=shares("share", "share of requests"),
            tooltip=[tip("value", metric.unit, ",.1f"), tip("share", "share", ".1%")],
        )
        .properties(
            title=title(f"{metric.label}, {metric.unit}{bracketed(note)}"),
            height=_REQUESTS_HEIGHT,
        )
    )


def acceptance_by_position(curve: CellCurve, colour: str, note: str = "") -> Chart:
    """Draw the share of drafts whose token at each position was accepted, a step each; ``name``:
    the source."""
    rows = pd.DataFrame(curve.points, columns=["position", "rate"])
    point = alt.OverlayMarkDef(color=colour, size=55)
    return (
        alt.Chart(rows)
        .mark_line(interpolate="step", strokeWidth=2, color=colour, point=point)
        .encode(
            x=alt.X(
                field="position", type="ordinal", title="draft position",
                axis=alt.Axis(labelAngle=0, format="d"),
            ),
            y=shares("rate", "accepted / drafts"),
            tooltip=[
                alt.Tooltip(field="position", type="ordinal", title="position"),
                tip("rate", "accepted", ".1%"),
            ],
        )
        .properties(
            title=title(f"Acceptance by position, {curve.name}{bracketed(note)}"), height=_REQUESTS_HEIGHT
        )
    )  # fmt: skip


def over_time(curves: Sequence[CellCurve], name: str, colour: str, share: bool) -> Chart:
    """Draw one or several lines over the seconds since the first sample, each with its name at its
    end.

    The first has the arm's colour, others are grey; ``share``: values are ratios of 0-1.
    """
    points = [
        (curve.name, at, value, curve.name if place == len(curve.points) - 1 else "")
        for curve in curves
        for place, (at, value) in enumerate(curve.points)
    ]
    rows = pd.DataFrame(points, columns=["line", "at", "value", "end"])
    names = [curve.name for curve in curves]
    # Room at the right for the names of several lines.
    last = (float(rows["at"].max()) or 1.0) * (1.25 if len(names) > 1 else 1.02)
    base = alt.Chart(rows).encode(
        x=alt.X(field="at", type="quantitative", title="seconds", scale=alt.Scale(domain=[0, last], nice=False),
                axis=alt.Axis(grid=False, tickCount=6, titleAnchor="start")),
        y=alt.Y(field="value", type="quantitative", title=None, scale=alt.Scale(domain=[0, 1]) if share else alt.Scale(zero=True),
                axis=alt.Axis(format=".0%" if share else "~s", tickCount=4)),
        color=coloured("line", names, [colour, *[QUIET] * (len(names) - 1)]),
    )  # fmt: skip
    line = base.mark_line(strokeWidth=1.5, interpolate="step-after").encode(
        tooltip=[
            tip("line", "what"),
            tip("at", "seconds", ",.1f"),
            alt.Tooltip(field="value", type="quantitative", format=".1%" if share else ",.2f"),
        ]
    )
    layers = [line]
    if len(names) > 1:
        layers.append(
            base.mark_text(align="left", dx=6, fontSize=12, fontWeight=600).encode(
                text=alt.Text(field="end", type="nominal")
            )
        )
    return alt.layer(*layers).properties(title=title(name), height=_SERVER_HEIGHT)


def sampled(curve: CellCurve, note: str) -> Chart:
    """Draw one server metric as it was sampled."""
    rows = pd.DataFrame(curve.points, columns=["at", "value"])
    return (
        alt.Chart(rows)
        .mark_line(strokeWidth=1.5, color=QUIET)
        .encode(
            x=alt.X(field="at", type="quantitative", title="seconds since the first sample"),
            # Most are counters that started long before: from zero they would be a flat line.
            y=alt.Y(field="value", type="quantitative", title=None, scale=alt.Scale(zero=False)),
        )
        .properties(title=title(f"{curve.name}{note}"), height=_SERVER_HEIGHT)
    )
