"""What charts of several pages have alike: titles, the axis of loads, the colours of arms."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import altair as alt
import pandas as pd

from dashboard.palette import arm_colour
from warehouse.loads import Load

UNKNOWN = "unknown"


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


#: Neither an arm nor a judgement: rules, borders, labels that must be seen on both grounds.
QUIET = arm_colour("baseline")
#: Whether a chart is drawn on a phone, as Vega writes it.
NARROW = "width < 420"


def title(text: str, subtitle: str = "") -> alt.TitleParams:
    """Return a title that answers, and under it a line that says what is drawn."""
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


def amounts(field: str, high: float, share: bool = False) -> alt.Y:
    """Return an axis from zero; ``share``: of ratios, shown in percent."""
    number = "~s" if high >= 10_000 else ",~r"
    return alt.Y(
        field=field,
        type="quantitative",
        title=None,
        axis=alt.Axis(tickCount=5, format=".0%" if share else number),
        scale=alt.Scale(domain=[0, high], nice=False),
    )


Channel = Literal["color", "stroke", "fill"]


def colour(rows: pd.DataFrame, channel: Channel = "color") -> Any:
    """Return a channel that shows the column ``arm`` in the colours that arms have everywhere."""
    arms = sorted(rows["arm"].unique())
    scale = alt.Scale(domain=arms, range=[arm_colour(arm) for arm in arms])
    kinds = {"color": alt.Color, "stroke": alt.Stroke, "fill": alt.Fill}
    return kinds[channel](field="arm", type="nominal", scale=scale, legend=None)


def tip(field: str, name: str, number: str = "") -> alt.Tooltip:
    """Return one line of a tooltip; ``number``: a d3 format of a number, text without."""
    if not number:
        return alt.Tooltip(field=field, type="nominal", title=name)
    return alt.Tooltip(field=field, type="quantitative", title=name, format=number)


# --- The labels at the ends of lines, moved apart so that each can be read.


#: Smallest distance between two end labels, as a share of the axis.
_LABEL_GAP = 0.085


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
    named = rows[rows["end_label"] != ""]
    size = alt.expr(f"{NARROW} ? 10 : 12")
    look: dict[str, Any] = {"align": "left", "fontSize": size, "fontWeight": 600}
    return (
        alt.Chart(named)
        .mark_text(**(look | mark))
        .encode(
            x=x, y=alt.Y(field=y, type="quantitative"), color=colour(rows),
            text=alt.Text(field="end_label", type="nominal"),
        )
    )  # fmt: skip
