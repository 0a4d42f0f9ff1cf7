"""Charts of loads: which of them meet an SLO, and what a GPU yields against what a user sees."""

from collections.abc import Sequence
from typing import Any

import altair as alt
import pandas as pd

from answers.cost.capacity import ArmCapacity, TradePoint
from answers.cost.words import MET, why
from answers.wording import bracketed, known
from dashboard.charts import Chart
from dashboard.charts.axes import NARROW, QUIET, colour, end_names, ends_apart, loads, tip, title

HEIGHT = 360
#: Height of one arm in the strips, px.
_STRIP = 46
#: Title, axis and its name: what a chart needs beside its rows, px.
_AROUND = 105
#: Opacity of a point that another one beats in both.
_FAINT = 0.3
#: A path's name at its end; longer ones would leave the chart.
_LONGEST = 34
#: How far apart names of paths stand, as a share of what a small chart needs.
_LINE = 0.7
#: Whether the name of a path stands at the right edge: on a phone it would run into the axis, and
#: above the front is nothing.
_RIGHT = f"{NARROW} && scale('x', datum.user) < width / 2"
#: The name of the selection, and of the column that tells one point from another.
CHOSEN, POINT = "chosen", "point"
_SHAPES = {True: "circle", False: "cross", None: "triangle-up"}


def slo_strips(arms: Sequence[ArmCapacity]) -> Chart:
    """Draw each arm's loads in a row of its own: a bar over those up to the largest that meets the
    SLO.

    ``arms``: of one setting, their loads on one axis.
    """
    rows = pd.DataFrame([row for arm in arms for row in _strip(arm)])
    badges = bracketed(*sorted({badge for arm in arms for badge in arm.place.badges}))
    name = f"{arms[0].place.setting}{badges}"
    axis = "requests a second" if arms[0].loads[0].level.load.is_rate else "requests at once"
    x = loads(sorted(rows["concurrency"].unique()), name=axis)
    y = alt.Y(field="arm", type="nominal", axis=None, scale=alt.Scale(paddingOuter=0.3))
    base = alt.Chart(rows).encode(x=x, y=y)
    hue = colour(rows)
    bar = (
        alt.Chart(rows.dropna(subset=["largest"]))
        .mark_rule(strokeWidth=9, opacity=0.3, strokeCap="round")
        .encode(x=x, x2=alt.X2(field="largest"), y=y, color=hue)
    )
    points = base.mark_point(size=75, strokeWidth=2, opacity=1).encode(
        shape=alt.Shape(
            field="state",
            type="nominal",
            legend=None,
            scale=alt.Scale(domain=list(MET.values()), range=list(_SHAPES.values())),
        ),
        stroke=colour(rows, "stroke"),
        fill=colour(rows, "fill"),
        fillOpacity=given(alt.FillOpacity, "solid"),
        tooltip=[
            tip("arm", "arm"),
            tip("load", "load"),
            tip("state", "this load"),
            tip("told", "why"),
            tip("repeats", "repeats that meet it"),
        ],
    )
    names = (
        alt.Chart(rows[rows["label"] != ""])
        .mark_text(align="left", dy=-15, dx=-4, fontSize=12, fontWeight=600)
        .encode(x=x, y=y, text=alt.Text(field="label", type="nominal"), color=hue)
    )
    height = _STRIP * rows["arm"].nunique() + _AROUND
    # A layer without a mark would be a picture without a name to a screen reader.
    bars = [bar] if rows["largest"].notna().any() else []
    told = "filled: meets the SLO; cross: misses it"
    return alt.layer(*bars, points, names, title=title(name, told), height=height)


def _strip(arm: ArmCapacity) -> list[dict[str, Any]]:
    levels, largest = [at.level for at in arm.loads], arm.reach.largest
    far = "no load" if largest is None else f"up to {largest.short}"
    return [
        {
            "arm": arm.place.arm, "concurrency": level.load.value, "load": level.load.text,
            "state": MET[level.met], "solid": int(level.met is True),
            "told": why(level) or "all bounds hold",
            "repeats": f"{level.meeting} of {level.repeats}",
            "label": f"{arm.place.arm}: {far}" if level is levels[0] else "",
            "largest": largest.value if largest is not None and level is levels[0] else None,
        }
        for level in levels
    ]  # fmt: skip


def pareto(group: Sequence[TradePoint]) -> Chart:
    """Draw output tokens/s per GPU over tokens/s per user, each arm a path through its loads.

    ``group``: points that compete. Those that another one beats in both are faint.
    """
    rows = _points_of(group)
    place = group[0].place
    about = ", ".join(map(known, (place.model, place.dataset, place.on.gpu)))
    badges = bracketed(*sorted({b for p in group for b in p.place.badges}))
    name = (
        _front(group),
        f"{about}{badges} · numbers: loads; faint: beaten in both; hollow: one repeat",
    )
    x = _rate(alt.X, "user", "tokens per second that one user sees")
    y = _rate(alt.Y, "gpu", "output tokens per second per GPU")
    base = alt.Chart(rows).encode(x=x, y=y)
    front = (
        alt.Chart(rows[rows["front"] == 1])
        .mark_line(color=QUIET, strokeWidth=7, opacity=0.25, strokeJoin="round")
        .encode(x=x, y=y, order=alt.Order(field="user", type="quantitative"))
    )
    paths = base.mark_line(strokeWidth=1.5, opacity=0.5).encode(
        color=colour(rows),
        detail=alt.Detail(field="path", type="nominal"),
        order=alt.Order(field="concurrency", type="quantitative"),
    )
    numbers = base.mark_text(dy=-13, fontSize=11, color=QUIET).encode(
        text=alt.Text(field="load", type="nominal")
    )
    # At the highest load, where the paths lie furthest apart.
    aside = alt.expr(f"{_RIGHT} ? width - scale('x', datum.user) : -11")
    names = end_names(rows, x, align="right", dx=aside)
    layers = [front, paths, numbers, _points(rows, base), names]
    return alt.layer(*layers, title=title(*name), height=HEIGHT)


def _points_of(group: Sequence[TradePoint]) -> pd.DataFrame:
    """Return a row per point. The name of a path that has a point on the front, and the baseline's,
    stand at the path's highest load, at least a line apart."""
    named = {p.path for p in group if p.dominated_by is None or p.place.label == "baseline"}
    order = {
        path: max(p.load.order for p in group if p.path == path)
        for path in dict.fromkeys(point.path for point in group)
    }
    rows = pd.DataFrame(
        [
            {
                "point": p.name, "arm": p.place.label, "path": p.path, "user": p.user, "gpu": p.gpu,
                "concurrency": p.load.order[1], "load_short": p.load.short,
                "load": p.load.short if p.dominated_by is None else "", "repeats": p.repeats,
                "strong": 1.0 if p.dominated_by is None else _FAINT, "solid": int(p.repeats > 1),
                "front": int(p.dominated_by is None),
                "dominated_by": p.dominated_by or "none: on the front",
                "end_label": p.path[:_LONGEST]
                if p.path in named and p.load.order == order[p.path] else "",
                "value": p.gpu,
            }
            for p in group
        ]
    )  # fmt: skip
    return ends_apart(rows, float(rows["gpu"].max()) * _LINE).drop(columns="value")


def _front(group: Sequence[TradePoint]) -> str:
    """Say which arms have points on the front, most points first."""
    on = [point for point in group if point.dominated_by is None]
    paths = pd.Series([point.path for point in on]).value_counts()
    names = [f"{path} ({times})" for path, times in paths.items()]
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    there = {point.place.label for point in on}
    nowhere = "baseline" in {point.place.label for point in group} - there
    return (
        f"On the front: {', '.join(names[:3])}{more}{'; the baseline nowhere' if nowhere else ''}"
    )


def _points(rows: pd.DataFrame, base: Any) -> Any:
    chosen = alt.selection_point(name=CHOSEN, fields=[POINT], on="click", empty=False)
    points = base.mark_point(strokeWidth=2).encode(
        stroke=colour(rows, "stroke"),
        fill=colour(rows, "fill"),
        fillOpacity=given(alt.FillOpacity, "solid"),
        opacity=given(alt.Opacity, "strong"),
        size=alt.condition(chosen, alt.value(260), alt.value(75)),
        tooltip=[
            tip("path", "arm"),
            tip("load_short", "load"),
            tip("user", "tok/s per user", ",.1f"),
            tip("gpu", "tok/s per GPU", ",.1f"),
            tip("dominated_by", "dominated by"),
            tip("repeats", "repeats", "d"),
        ],
    )
    return points.add_params(chosen)


def _rate(channel: Any, field: str, title: str) -> Any:
    return channel(
        field=field,
        type="quantitative",
        title=title,
        axis=alt.Axis(tickCount=5, format=",~r"),
        scale=alt.Scale(zero=True, nice=True),
    )


def given(channel: Any, field: str) -> Any:
    """Return a channel whose values stand in the rows as they are, e.g. an opacity from 0 to 1."""
    return channel(field=field, type="quantitative", scale=None, legend=None)
