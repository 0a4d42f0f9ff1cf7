"""Charts: pure functions from a small frame, or from answers, to an Altair chart; here what charts of
several pages have alike: colours, titles, axes, marks.

Channels are explicit objects: shorthand strings are parsed on every rerun and cost twice as much. An arm
has a hue for its method and lightness for K, on any ground.
"""

import colorsys
import hashlib
import json
import math
import re
from collections.abc import Iterable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Literal

import altair as alt
import numpy as np
import pandas as pd
import pyarrow as pa
from altair.utils import schemapi

from warehouse.loads import Load
from warehouse.rows import arrow_bytes

#: An alt.Chart or alt.LayerChart: Altair's own annotations are too loose for a strict check.
Chart = Any
Channel = Literal["color", "stroke", "fill"]
HEIGHT = 290
UNKNOWN = "unknown"
#: Zero has no sign.
SIGNED = "datum.value == 0 ? '0 %' : format(datum.value * 100, '+.0f') + ' %'"
#: Whether a chart is drawn on a phone, as Vega writes it.
NARROW = "width < 420"
#: Better and worse are told by sign and word; where colour helps, blue against orange. White text
#: is read on each of them (contrast 4.6 and more), on a light page and on a dark one.
WORSE, EVEN, BETTER, ON_THESE = "#a85508", "#6b7280", "#1d5fb4", "#ffffff"
#: The shade of a field by its gain; from a half on it has the full colour.
SHADE = alt.Color(
    field="gain", type="quantitative", legend=None,
    scale=alt.Scale(domain=[-0.5, 0, 0.5], range=[WORSE, EVEN, BETTER], interpolate="rgb", clamp=True),
)  # fmt: skip

#: Method -> (hue in degrees, saturation, lightness at K=1, lightness at K=16).
_HUES: tuple[tuple[str, tuple[int, float, float, float]], ...] = (
    ("eagle", (213, 0.72, 0.68, 0.44)),
    ("draft_model", (176, 0.70, 0.46, 0.26)),
    ("ngram", (30, 0.88, 0.60, 0.40)),
    ("mtp", (275, 0.50, 0.72, 0.48)),
    ("suffix", (22, 0.42, 0.55, 0.34)),
)
#: A method that has no hue of its own yet; far from every hue above.
_OTHER = (325, 0.50, 0.66, 0.44)
_BASELINE, _UNKNOWN = "#8b919a", "#b3a58f"
_LARGEST_K = 16
#: Smallest distance between two end labels, as a share of the axis.
_LABEL_GAP = 0.085

# --- Colours.


def hex_of(hue: float, lightness: float, saturation: float) -> str:
    """Return a colour, each part from 0 to 1, as browsers write it."""
    red, green, blue = colorsys.hls_to_rgb(hue, lightness, saturation)
    return f"#{round(red * 255):02x}{round(green * 255):02x}{round(blue * 255):02x}"


def arm_colour(label: str) -> str:
    """Return the hex colour of an arm given its catalogue label, e.g. ``eagle3 K=3``."""
    if label in ("baseline", "unknown"):
        return _BASELINE if label == "baseline" else _UNKNOWN
    method = label.split(" ")[0].lower()
    hue, saturation, light, dark = next((hue for name, hue in _HUES if name in method), _OTHER)
    stated = re.search(r"K=(\d+)", label)
    k = min(max(int(stated.group(1)), 1), _LARGEST_K) if stated else 1
    lightness = light + (dark - light) * math.log2(k) / math.log2(_LARGEST_K)
    return hex_of(hue / 360, lightness, saturation)


#: Neither an arm nor a judgement: rules, borders, labels that must be seen on both grounds.
QUIET = arm_colour("baseline")


def colour(rows: pd.DataFrame, channel: Channel = "color") -> Any:
    """Return a channel that shows the column ``arm`` in the colours that arms have everywhere."""
    arms = sorted(rows["arm"].unique())
    return coloured("arm", arms, [arm_colour(arm) for arm in arms], channel)


def coloured(
    field: str, values: Sequence[str], colours: Sequence[str], channel: Channel = "color",
    legend: Any = None,
) -> Any:  # fmt: skip
    """Return a channel that shows each value of a column in its colour."""
    kinds = {"color": alt.Color, "stroke": alt.Stroke, "fill": alt.Fill}
    return kinds[channel](
        field=field,
        type="nominal",
        scale=alt.Scale(domain=list(values), range=list(colours)),
        legend=legend,
    )


# --- Axes.


@dataclass(frozen=True)
class LoadPlaces:
    """The place of each load on a chart's axis. ``at``: load -> its place; ``names``: what stands
    at the places 1, 2 …, empty where a place is the number of requests at once."""

    at: dict[Load | None, int]
    names: tuple[str, ...] = ()

    @property
    def levels(self) -> tuple[int, ...]:
        """The places, in order."""
        return tuple(sorted(self.at.values()))


def load_places(loads: Iterable[Load | None]) -> LoadPlaces:
    """Return the places of the loads that occur; an unknown one stands last."""
    there = set(loads)
    known = sorted((load for load in there if load is not None), key=lambda load: load.order)
    numbers = [load.value for load in known if load.kind == "concurrency" and load.value]
    if len(numbers) == len(there):
        return LoadPlaces({load: int(load.value or 1) for load in known})
    ordered = [*known, *([None] if None in there else [])]
    names = tuple(UNKNOWN if load is None else load.short for load in ordered)
    return LoadPlaces({load: place for place, load in enumerate(ordered, 1)}, names)


def loads(levels: Sequence[float], room: float = 1.12, name: str = "concurrency") -> alt.X:
    """Return an axis for the column ``concurrency``, log2, the real levels as ticks; ``room``: how
    many times as far the axis reaches at the right; ``name``: what the loads are."""
    return alt.X(
        field="concurrency",
        type="quantitative",
        title=name,
        scale=alt.Scale(
            type="log", base=2, nice=False, domain=[min(levels) / 1.12, max(levels) * room]
        ),
        axis=alt.Axis(
            values=list(levels),
            format="~g",
            grid=False,
            domain=False,
            titleAnchor="start",
            labelOverlap="greedy",
        ),
    )


def named_loads(names: Sequence[str], room: float) -> alt.X:
    """Return an axis for the column ``concurrency`` as places 1, 2 … with a name each; ``room``:
    places left at the right."""
    return alt.X(
        field="concurrency",
        type="quantitative",
        title="load",
        scale=alt.Scale(nice=False, domain=[0.8, len(names) + max(room, 0.2)]),
        axis=alt.Axis(
            values=list(range(1, len(names) + 1)),
            labelExpr=f"{json.dumps(list(names))}[datum.value - 1]",
            grid=False,
            domain=False,
            titleAnchor="start",
            labelOverlap="greedy",
        ),
    )


def large(high: float) -> str:
    """Return the format of the numbers of an axis that reaches so far."""
    return "~s" if high >= 10_000 else ",~r"


def amounts(field: str, high: float, share: bool = False) -> alt.Y:
    """Return an axis from zero; ``share``: of ratios, shown in percent."""
    return alt.Y(
        field=field, type="quantitative", title=None,
        axis=alt.Axis(tickCount=5, format=".0%" if share else large(high)),
        scale=alt.Scale(domain=[0, high], nice=False),
    )  # fmt: skip


def shares(field: str, name: str) -> alt.Y:
    """Return an axis of ratios from 0 to 1, shown in percent."""
    return alt.Y(
        field=field, type="quantitative", title=name, axis=alt.Axis(format=".0%", tickCount=5),
        scale=alt.Scale(domain=[0, 1]),
    )  # fmt: skip


def given(channel: Any, field: str) -> Any:
    """Return a channel whose values stand in the rows as they are, e.g. an opacity from 0 to 1."""
    return channel(field=field, type="quantitative", scale=None, legend=None)


# --- Titles and tooltips.


def title(text: str, subtitle: str | list[str] = "") -> alt.TitleParams:
    """Return a title that answers, and under it a line, or several, that say what is drawn."""
    return alt.TitleParams(
        text=text,
        subtitle=subtitle or alt.Undefined,
        anchor="start",
        fontSize=14,
        # Vega's own subtitle is black: invisible on a dark ground.
        subtitleColor=QUIET,
        subtitleFontSize=12,
        fontWeight=600,
        offset=10,
    )


def tip(field: str, name: str, number: str = "") -> alt.Tooltip:
    """Return one line of a tooltip; ``number``: a d3 format of a number, text without."""
    if not number:
        return alt.Tooltip(field=field, type="nominal", title=name)
    return alt.Tooltip(field=field, type="quantitative", title=name, format=number)


# --- Marks.


def nothing(text: str) -> Chart:
    """Return an empty chart for what is not known: its title says what."""
    return (
        alt.Chart(alt.InlineData(values=[{"x": 0}]))
        .mark_point(opacity=0, aria=False)
        .properties(title=title(text, "no pair has a value"), height=HEIGHT)
    )


def even(axis: Literal["x", "y"], at: float = 0) -> Chart:
    """Draw the dashed line of no difference across an axis; ``at``: where, 1 for factors."""
    rule = alt.Chart(alt.InlineData(values=[{"even": at}])).mark_rule(
        strokeDash=[4, 3], strokeWidth=1.5, color=QUIET
    )
    channel = alt.X if axis == "x" else alt.Y
    return rule.encode(**{axis: channel(field="even", type="quantitative")})


def points(base: Chart, rows: pd.DataFrame, tips: Sequence[alt.Tooltip], **more: Any) -> Chart:
    """Draw a point per row in its arm's colour, hollow where ``solid`` is 0. ``more``: of its look and,
    as channels, of what it shows."""
    channels = {name: value for name, value in more.items() if isinstance(value, alt.SchemaBase)}
    look = {name: value for name, value in more.items() if name not in channels}
    return base.mark_point(**{"strokeWidth": 2} | look).encode(
        stroke=colour(rows, "stroke"), fill=colour(rows, "fill"),
        fillOpacity=given(alt.FillOpacity, "solid"), tooltip=list(tips), **channels,
    )  # fmt: skip


def spans(base: Chart, axis: Literal["x", "y"] = "y", **channels: Any) -> Chart:
    """Encode a mark from ``low`` to ``high``."""
    ends = {"x": (alt.X, alt.X2), "y": (alt.Y, alt.Y2)}[axis]
    return base.encode(
        **{axis: ends[0](field="low", type="quantitative"), f"{axis}2": ends[1](field="high")},
        **channels,
    )


def ends_apart(marks: pd.DataFrame, span: float) -> pd.DataFrame:
    """Return the marks with ``end_y``: where the labels at the ends of lines stand, at least a line
    apart. ``span``: from one end of the axis to the other."""
    placed = marks.copy()
    ends = placed[placed["end_label"] != ""].sort_values("value")
    placed.loc[ends.index, "end_y"] = apart(list(ends["value"]), span * _LABEL_GAP)
    return placed


def apart(heights: list[float], gap: float) -> list[float]:
    """Move heights, given in ascending order, at least ``gap`` apart, as little as one pass
    allows."""
    placed: list[float] = []
    for height in heights:
        placed.append(max(height, placed[-1] + gap) if placed else height)
    shift = sum(p - h for p, h in zip(placed, heights, strict=True)) / max(len(placed), 1)
    return [height - shift for height in placed]


def end_names(rows: pd.DataFrame, x: alt.X, y: str = "end_y", **mark: Any) -> Any:
    """Draw ``end_label`` at the end of each line in the colour of its arm, in place of a legend.
    ``y``: the column of heights."""
    look: dict[str, Any] = {
        "align": "left",
        "fontSize": alt.expr(f"{NARROW} ? 10 : 12"),
        "fontWeight": 600,
    }
    return (
        alt.Chart(rows[rows["end_label"] != ""])
        .mark_text(**(look | mark))
        .encode(
            x=x, y=alt.Y(field=y, type="quantitative"), color=colour(rows),
            text=alt.Text(field="end_label", type="nominal"),
        )
    )  # fmt: skip


# --- A chart as Vega-Lite, its data in the bytes that a browser gets.
#
# Altair turns the frame of every layer into rows and checks the whole against Vega-Lite's schema: most
# of the time of a page. Layers share a frame, which is sent once, as a table; the schema is checked
# where the charts are tested.


Drawing = dict[str, Any]
#: Frames of the chart that is being taken apart: by identity its name, its bytes, itself.
_Frames = dict[int, tuple[str, bytes, pd.DataFrame]]
_FRAMES: ContextVar[_Frames | None] = ContextVar("frames", default=None)
#: The browser's reader knows texts of this kind alone.
_KINDS = {pa.large_string(): pa.string()}


def _named_frame(data: Any, **options: Any) -> Any:
    """Turn a frame into the name of what it holds; outside of ``specification`` do as Altair itself
    does."""
    frames = _FRAMES.get()
    if frames is None or not isinstance(data, pd.DataFrame):
        return alt.default_data_transformer(data, **options)
    if id(data) not in frames:
        sent = arrow_bytes(_table(data))
        # Another name for other rows: the browser then draws anew, and does not mend what it has.
        name = f"rows-{hashlib.sha256(sent).hexdigest()[:16]}"
        frames[id(data)] = (name, sent, data)
    return {"name": frames[id(data)][0]}


alt.data_transformers.register("named", _named_frame)
alt.data_transformers.enable("named")
# Every part of a chart would be checked when it is made; ``to_dict`` in the tests checks the whole.
schemapi.disable_debug_mode()


def specification(chart: Any) -> Drawing:
    """Return the chart as Vega-Lite whose ``datasets`` are Arrow streams."""
    frames: _Frames = {}
    before = _FRAMES.set(frames)
    try:
        spec: dict[str, Any] = chart.to_dict(validate=False)
    finally:
        _FRAMES.reset(before)
    inline = spec.get("datasets", {})
    sent = {name: arrow_bytes(pa.Table.from_pylist(rows)) for name, rows in inline.items()}
    return spec | {"datasets": sent | {name: known for name, known, _ in frames.values()}}


def _table(rows: pd.DataFrame) -> pa.Table:
    """Return the rows as Vega reads them: times as text, null for a number that is unknown or
    infinite."""
    told: dict[str, Any] = {}
    for name, values in rows.items():
        if pd.api.types.is_datetime64_any_dtype(values):
            told[str(name)] = [None if pd.isna(at) else at.isoformat() for at in values]
        elif pd.api.types.is_float_dtype(values):
            told[str(name)] = values.where(np.isfinite(values.astype("float64")))
        else:
            plain = isinstance(values.dtype, pd.CategoricalDtype)
            told[str(name)] = values.astype(object) if plain else values
    table = pa.Table.from_pandas(pd.DataFrame(told, index=rows.index), preserve_index=False)
    return table.cast(
        pa.schema([(field.name, _KINDS.get(field.type, field.type)) for field in table.schema])
    )
