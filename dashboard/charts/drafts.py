"""The heat map of the gain by load and number of draft tokens."""

from typing import Any

import altair as alt
import pandas as pd

from dashboard.charts import Chart
from dashboard.charts.axes import tip, title
from dashboard.palette import BETTER, EVEN, ON_THESE, WORSE

_ROW = 44
_HEAD = 96
#: Gains from here on have the full colour.
_FULL = 0.5
#: Share of a cell that its outline leaves inside.
_INSIDE = {"width": {"band": 0.88}, "height": {"band": 0.78}}
#: Vega knows no hatching: strokes of text stand for it.
_HATCH = "╱ ╱ ╱ ╱"
#: The name of the selection in a heat map, and of the column that tells one square from another.
CHOSEN, SQUARE = "chosen", "square"


def gain_by_load(rows: pd.DataFrame, names: tuple[str, str]) -> Chart:
    """Heat map of the gain over the baseline: loads across, K down; the K to take is outlined.

    ``rows``: one per load and K with ``concurrency``, ``k``, ``load`` and ``draft`` (their text),
    ``gain`` (ratio, positive is better, NaN: unknown), ``text``, ``taken``, ``unsettled`` (bool),
    ``interval``, ``value``, ``repeats``, ``square`` (its name). ``names``: title, subtitle.
    """
    base = alt.Chart(rows).encode(x=_across(rows), y=_down(rows))
    numbers = base.mark_text(fontSize=13, fontWeight=600, color=ON_THESE).encode(text=_text())
    marked = [
        ("unsettled", _hatching(base)),
        ("taken", _outline(base, "taken", {"strokeWidth": 2.5})),
    ]
    # A layer without a mark is an empty picture to who listens to the page.
    layers = [_ground(base), numbers, *(layer for field, layer in marked if rows[field].any())]
    height = _HEAD + _ROW * rows["draft"].nunique()
    return alt.layer(*layers).properties(title=title(*names), height=height)


def _ground(base: Chart) -> Chart:
    shade = alt.Color(
        field="gain",
        type="quantitative",
        legend=None,
        scale=alt.Scale(
            domain=[-_FULL, 0, _FULL],
            range=[WORSE, EVEN, BETTER],
            interpolate="rgb",
            clamp=True,
        ),
    )
    tips = [
        tip("load", "load"),
        tip("draft", "arm"),
        tip("interval", "expected improvement"),
        tip("value", "in"),
        tip("repeats", "launches", "d"),
    ]
    clicked = alt.selection_point(name=CHOSEN, fields=[SQUARE], on="click", empty=False)
    ground = base.mark_rect(invalid="show", cursor="pointer").encode(color=shade, tooltip=tips)
    return ground.add_params(clicked)


def _hatching(base: Chart) -> Chart:
    unsettled = alt.FieldEqualPredicate(field="unsettled", equal=True)
    return (
        base.transform_filter(unsettled)
        .mark_text(text=_HATCH, fontSize=26, opacity=0.35, color=ON_THESE)
        .encode()
    )


def _outline(base: Chart, field: str, line: dict[str, Any]) -> Chart:
    chosen = alt.FieldEqualPredicate(field=field, equal=True)
    return base.transform_filter(chosen).mark_rect(
        fillOpacity=0, filled=False, stroke=ON_THESE, **_INSIDE, **line
    )


def _text() -> alt.Text:
    return alt.Text(field="text", type="nominal")


def _across(rows: pd.DataFrame) -> alt.X:
    order = list(rows.sort_values("concurrency")["load"].unique())
    axis = alt.Axis(labelAngle=0, grid=False, domain=False, ticks=False, titleAnchor="start")
    return alt.X(field="load", type="ordinal", sort=order, title="load", axis=axis)


def _down(rows: pd.DataFrame) -> alt.Y:
    """The largest K on top: as on an axis."""
    order = list(rows.sort_values("k", ascending=False)["draft"].unique())
    axis = alt.Axis(grid=False, domain=False, ticks=False)
    return alt.Y(field="draft", type="ordinal", sort=order, title=None, axis=axis)
