"""Charts of loads: which of them meet an SLO, and what a GPU yields against what a user sees."""

from typing import Any

import altair as alt
import pandas as pd

from dashboard.charts import Chart
from dashboard.charts.axes import QUIET, colour, loads, tip, title

HEIGHT = 430
#: Height of one arm in the strips, px.
_STRIP = 46
#: Title, axis and its name: what a chart needs beside its rows, px.
_AROUND = 105
#: The name of the selection, and of the column that tells one point from another.
CHOSEN, POINT = "chosen", "point"
#: What a level does with an SLO -> the shape that says so.
MEETS, MISSES, UNMEASURED = "meets it", "misses it", "not measured"
_SHAPES = {MEETS: "circle", MISSES: "cross", UNMEASURED: "triangle-up"}


def slo_strips(rows: pd.DataFrame, name: tuple[str, str], axis: str = "requests at once") -> Chart:
    """Each arm's loads in a row of its own: a bar over those up to the largest that meets the SLO.

    ``rows``: one per arm x load with ``arm``, ``concurrency`` (the load's value), ``load`` (in
    words), ``state`` (one of the three above), ``solid`` (1 where it meets), ``told`` (why not), ``repeats`` (how many meet it),
    ``label`` (at the lowest level only: the arm and how far it goes), and ``largest``, the end of
    the bar, on the row where it begins (NaN elsewhere).
    """
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
            scale=alt.Scale(domain=list(_SHAPES), range=list(_SHAPES.values())),
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
    return alt.layer(*bars, points, names, title=title(*name), height=height)


def pareto(rows: pd.DataFrame, name: tuple[str, str]) -> Chart:
    """Output tokens/s per GPU over tokens/s per user, each arm a path through its loads.

    ``rows``: one per point with ``point`` (its name), ``arm`` (colour), ``path``, ``user`` and
    ``gpu`` (tokens/s), ``concurrency`` (the place of its load), ``load`` (its name, empty for a
    dominated point), ``load_short`` (its name),
    ``repeats``, ``strong`` (opacity), ``solid`` (0 for a single repeat), ``front`` (1 on it),
    ``dominated_by``, ``label`` (at one end of a path) and ``label_y``, its height.
    """
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
    layers = [front, paths, numbers, _points(rows, base), _path_names(rows, x)]
    return alt.layer(*layers, title=title(*name), height=HEIGHT)


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


def _path_names(rows: pd.DataFrame, x: alt.X) -> Any:
    """Names at the end of the highest load, where the paths lie furthest apart."""
    return (
        alt.Chart(rows[rows["label"] != ""])
        .mark_text(align="right", dx=-11, fontSize=12, fontWeight=600)
        .encode(
            x=x,
            y=alt.Y(field="label_y", type="quantitative"),
            text=alt.Text(field="label", type="nominal"),
            color=colour(rows),
        )
    )


def given(channel: Any, field: str) -> Any:
    """A channel whose values stand in the rows as they are, e.g. an opacity from 0 to 1."""
    return channel(field=field, type="quantitative", scale=None, legend=None)


def _rate(channel: Any, field: str, title: str) -> Any:
    return channel(
        field=field,
        type="quantitative",
        title=title,
        axis=alt.Axis(tickCount=5, format=",~r"),
        scale=alt.Scale(zero=True, nice=True),
    )
