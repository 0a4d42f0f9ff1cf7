"""Charts over nights and between releases."""

import os
from collections.abc import Sequence

import altair as alt
import pandas as pd

from analysis.nightly.nights import NOON
from analysis.nightly.regressions import ReleaseEffect
from answers.runs.notes import UNKNOWN_NIGHT, PlacedNote, by_night
from answers.trend.answer import TrendLine, names
from answers.wording import badge, bracketed
from dashboard.charts import QUIET, Chart, arm_colour, colour, even, spans, tip, title
from warehouse.catalogue import Metric

HEIGHT = 320
#: Rows of a forest that can be read without scrolling far.
MOST_ROWS = 40
_ROW = 26
#: Where notes are marked, in px below the top of the chart.
_TOP = 8
_HALF_DAY = NOON / pd.Timedelta(milliseconds=1)


def run_chart(line: TrendLine, notes: Sequence[PlacedNote] = ()) -> Chart:
    """Draw one series over nights: noise band, levels, the reference, points, and ticks where
    something changed, where the level moved, and where people wrote ``notes``."""
    metric = line.assessed.series.measure
    rows = run_rows(line)
    x = _nights(rows)
    base = alt.Chart(rows).encode(x=x)
    hue = arm_colour(line.arm)
    number = f",.{metric.decimals}f"
    tips = [
        alt.Tooltip(field="night", type="nominal"),
        tip("value", metric.unit, number), tip("low", "noise from", number),
        tip("high", "to", number), alt.Tooltip(field="repeats", type="quantitative"),
        tip("changed", "changed"),
    ]  # fmt: skip
    # The noise around each level and the level itself.
    part = alt.Detail(field="part", type="nominal")
    layers = [
        base.mark_area(opacity=0.16, color=QUIET).encode(
            y=_value("low", metric), y2=alt.Y2(field="high"), detail=part
        ),
        base.mark_line(strokeWidth=1.5, strokeDash=[5, 4], color=QUIET).encode(
            y=_value("level", metric), detail=part
        ),
    ]
    if line.assessed.against is not None:
        # What the last nights are compared with, from its first night to the last one.
        first = rows.iloc[line.assessed.against[0]]
        ends = pd.DataFrame({"at": [first["at"], rows["at"].max()], "level": first["level"],
                             "told": ["reference", ""]})  # fmt: skip
        drawn = alt.Chart(ends).encode(x=x, y=_value("level", metric))
        layers += [
            drawn.mark_line(strokeWidth=1.5, color=QUIET),
            drawn.mark_text(align="left", dy=-8, fontSize=12, color=QUIET).encode(
                text=alt.Text(field="told", type="nominal")
            ),
        ]
    # A thin line where the configuration changed, and a bold one where the level moved.
    changed, moved = rows[rows["changed"] != ""], rows[rows["part"].diff() == 1]
    for nights, width, dash in ((changed, 1.0, [2, 3]), (moved, 2.5, [1, 0])):
        if not nights.empty:
            layers.append(
                alt.Chart(nights)
                .mark_rule(strokeWidth=width, strokeDash=dash, color=QUIET)
                .encode(x=x, tooltip=tips)
            )
    layers += [
        base.mark_line(strokeWidth=1.5, color=hue).encode(y=_value("value", metric)),
        base.mark_point(size=60, strokeWidth=2, opacity=1, fill=hue, stroke=hue).encode(
            y=_value("value", metric),
            fillOpacity=alt.FillOpacity(field="solid", type="quantitative", scale=None),
            tooltip=tips,
        ),
    ]
    noted = _marks(rows, notes)
    if not noted.empty:
        # A triangle at the top of each night that people wrote a note on; pointing at it shows it.
        mark = alt.Chart(noted).mark_point(
            shape="triangle-down", filled=True, size=110, opacity=1, color=QUIET
        )
        tips = [alt.Tooltip(field="night", type="nominal"), tip("said", "noted")]
        layers.append(mark.encode(x=x, y=alt.value(_TOP), tooltip=tips))
    return alt.layer(*layers).properties(
        title=title(f"{line.metric}, {metric.unit}{bracketed(badge(line.evidence))}", line.name),
        height=HEIGHT,
    )


def run_rows(line: TrendLine) -> pd.DataFrame:
    """Return one row per night: ``at`` (ms since 1970, UTC), ``night``, ``value``, ``level``,
    ``low``, ``high`` (NaN: no noise known), ``part``, ``repeats``, ``solid`` (0 for a single
    repeat), ``changed`` (empty: as the night before)."""
    rows = [
        {
            # Vega reads a time from a number, not from a text.
            "at": point.at.timestamp() * 1000, "night": point.night, "value": point.value,
            "repeats": point.repeats, "part": point.part, "level": point.level, "low": point.low,
            "high": point.high, "solid": int(point.repeats > 1),
            "changed": "; ".join(change.sentence for change in point.changed),
        }
        for point in line.points
    ]  # fmt: skip
    return pd.DataFrame(rows).astype({"low": float, "high": float})


def _marks(rows: pd.DataFrame, notes: Sequence[PlacedNote]) -> pd.DataFrame:
    """Return one row per night of the chart's time of which something was said: ``at``, ``night``,
    ``said``. A night that has no point, or no longer, stands at its midnight."""
    points = dict(zip(rows["night"].str[:10][::-1], rows["at"][::-1], strict=True))
    told = [
        {
            "at": points.get(
                name, float(pd.Timestamp(name, tz="UTC").timestamp() * 1000 + 2 * _HALF_DAY)
            ),
            "night": name,
            "said": text,
        }
        for name, text in by_night(notes)
        if name != UNKNOWN_NIGHT
    ]
    known = pd.DataFrame(told, columns=["at", "night", "said"])
    first, last = rows["at"].min() - _HALF_DAY, rows["at"].max() + _HALF_DAY
    return known[known["at"].astype(float).between(first, last)]


def forest(effects: Sequence[ReleaseEffect]) -> Chart:
    """Draw the change of each series of one metric between two releases, with its interval."""
    rows = forest_rows(effects)
    badges = sorted({bracketed(badge(effect.series.about.get("evidence"))) for effect in effects})
    x = alt.X(
        field="value", type="quantitative", title="change, positive is better",
        axis=alt.Axis(format="+.0%", tickCount=5, titleAnchor="start"),
    )  # fmt: skip
    y = alt.Y(
        field="series", type="nominal", title=None, sort=list(rows["series"]),
        axis=alt.Axis(labelLimit=230, labelOverlap=False),
    )  # fmt: skip
    base = alt.Chart(rows).encode(y=y, color=colour(rows))
    points = base.mark_point(size=70, filled=True, opacity=1).encode(
        x=x,
        tooltip=[
            alt.Tooltip(field="series", type="nominal"), tip("value", "change", "+.1%"),
            tip("low", "95 % from", "+.1%"), tip("high", "to", "+.1%"),
            alt.Tooltip(field="status", type="nominal"),
        ],
    )  # fmt: skip
    return alt.layer(
        even("x"), spans(base.mark_rule(strokeWidth=3, opacity=0.5), "x"), points
    ).properties(
        title=title(f"{effects[0].series.line}{''.join(badges)}"), height=_ROW * len(rows) + 90
    )


def forest_rows(effects: Sequence[ReleaseEffect]) -> pd.DataFrame:
    """Return a row per series: ``series``, ``arm``, ``value``, ``low``, ``high`` (ratios, positive
    is better), ``status``."""
    named = [name.split(", ") for name in names([effect.series for effect in effects])]
    # Without the words that all of them begin with: they have to fit beside a chart.
    alike = len(os.path.commonprefix(named)) if len(named) > 1 else 0
    return pd.DataFrame(
        {
            "series": [", ".join(words[alike:]) for words in named],
            "arm": [str(effect.series.about.get("arm_label")) for effect in effects],
            "value": [effect.improvement for effect in effects],
            "low": [effect.low for effect in effects],
            "high": [effect.high for effect in effects],
            "status": [effect.word for effect in effects],
        }
    )


def _nights(rows: pd.DataFrame) -> alt.X:
    """Return the axis of nights as plain numbers: then a single night has a place too, and nothing
    is parsed."""
    return alt.X(
        field="at",
        type="quantitative",
        title="night (UTC)",
        scale=alt.Scale(
            domain=[rows["at"].min() - _HALF_DAY, rows["at"].max() + _HALF_DAY], nice=False
        ),
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
