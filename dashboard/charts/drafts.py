"""Charts of the number of draft tokens: gain by load and K, value over K, what the draft achieves."""

from typing import Any, Literal

import altair as alt
import pandas as pd

from dashboard.charts import Chart
from dashboard.charts.axes import QUIET, amounts, colour, loads, tip, title
from dashboard.palette import BETTER, EVEN, ON_THESE, WORSE
from warehouse.catalogue import METRICS

HEIGHT = 260
_ROW = 44
_HEAD = 96
#: Gains from here on have the full colour.
_FULL = 0.5
#: Share of a cell that its outline leaves inside.
_INSIDE = {"width": {"band": 0.88}, "height": {"band": 0.78}}
#: Vega knows no hatching: strokes of text stand for it.
_HATCH = "╱ ╱ ╱ ╱"
Axis = Literal["k", "concurrency"]
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


def _k_axis(rows: pd.DataFrame) -> alt.X:
    ks = sorted(int(k) for k in rows["k"].unique())
    return alt.X(
        field="k",
        type="quantitative",
        title="draft tokens K",
        scale=alt.Scale(domain=[min(ks) - 0.4, max(ks) + 0.4], nice=False),
        axis=alt.Axis(
            values=ks,
            format="d",
            grid=False,
            domain=False,
            titleAnchor="start",
            labelExpr="datum.value == 0 ? 'none' : datum.label",
        ),
    )


def acceptance_by_position(rows: pd.DataFrame, shown: str, names: tuple[str, str]) -> Chart:
    """Steps over the draft position, a line per K and load, from 0 to 1.

    ``rows``: ``arm``, ``k``, ``concurrency``, ``position`` (from 1), and ``shown``: ``rate`` (of
    all drafts) or ``conditional`` (of those whose earlier tokens were accepted).
    """
    # Position 1 is there with every K; the last one is where the longest line ends.
    base = alt.Chart(rows).encode(
        x=alt.X(
            field="position", type="ordinal", title="draft position",
            axis=alt.Axis(labelAngle=0, grid=False, titleAnchor="start"),
        ),
        y=amounts(shown, 1.0, share=True),
        color=colour(rows),
        detail=alt.Detail(field="concurrency", type="nominal"),
    )  # fmt: skip
    tips = [
        tip("arm", "arm"),
        tip("concurrency", "concurrency", "d"),
        tip("position", "position", "d"),
        tip(shown, "accepted", ".1%"),
    ]
    lines = base.mark_line(interpolate="step", strokeWidth=2, opacity=0.7)
    points = base.mark_point(filled=True, size=45, opacity=0.9).encode(tooltip=tips)
    return alt.layer(lines, points).properties(title=title(*names), height=HEIGHT)


def acceptance_over(rows: pd.DataFrame, over: Axis, shown: str, names: tuple[str, str]) -> Chart:
    """Acceptance rate or mean acceptance length over K or over the load.

    ``rows``: ``arm``, ``k``, ``concurrency``, ``rate`` (0-1), ``mean_length`` (tokens per step),
    ``repeats``, ``end_label`` and ``end_y`` (the arm's name at the end of its line, else empty).
    """
    share = shown == "rate"
    high = 1.0 if share else float(rows[shown].max()) * 1.1
    x = _k_axis(rows) if over == "k" else loads(sorted(rows["concurrency"].unique()), 2.2)
    base = alt.Chart(rows).encode(x=x, y=amounts(shown, high, share))
    known = METRICS["acceptance_rate" if share else "mean_acceptance_length"]
    tips = [
        tip("arm", "arm"),
        tip("concurrency", "concurrency", "d"),
        tip(shown, known.label, ".1%" if share else ".2f"),
        tip("repeats", "repeats", "d"),
    ]
    points = base.mark_point(filled=True, size=60, opacity=0.9).encode(
        color=colour(rows), tooltip=tips
    )
    layers = [_joined(base, rows, over), points]
    if over == "concurrency":
        layers.append(
            base.mark_text(align="left", dx=9, fontSize=12, fontWeight=600).encode(
                y=alt.Y(field="end_y", type="quantitative"),
                text=alt.Text(field="end_label", type="nominal"),
                color=colour(rows),
            )
        )
    return alt.layer(*layers).properties(title=title(*names), height=HEIGHT)


def _joined(base: Chart, rows: pd.DataFrame, over: Axis) -> Chart:
    """The points of one K over the loads, or of one load over K: that line is no arm's."""
    if over == "concurrency":
        return base.mark_line(strokeWidth=2).encode(color=colour(rows))
    detail = alt.Detail(field="concurrency", type="nominal")
    return base.mark_line(strokeWidth=1.5, color=QUIET, opacity=0.6).encode(detail=detail)
