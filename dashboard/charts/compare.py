"""A metric over the load, a line per arm: baseline grey, the chosen arm in full colour, the others
faint until they are clicked."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt
import pandas as pd

from answers.compare.values import (
    ONE_LAUNCH,
    ArmChange,
    ComparedSetting,
    MetricLine,
    load_name,
    sure,
    word,
)
from answers.wording import percent
from dashboard.charts import SIGNED, Chart, nothing
from dashboard.charts.axes import (
    QUIET,
    LoadPlaces,
    apart,
    colour,
    load_places,
    loads,
    named_loads,
    tip,
)
from dashboard.charts.axes import title as heading
from warehouse.catalogue import METRICS

#: Opacity of what was not chosen.
_FAINT = 0.22
_COLUMNS = (
    "arm", "concurrency", "load", "value", "low", "high", "repeats", "solid", "told", "cell",
)  # fmt: skip
#: Width of a letter of an end label, and of the narrowest plot that a laptop draws, px.
_LETTER, _PLOT, _MOST_LABEL = 6.6, 300, 0.42
#: Labels at the ends of two lines stand at least so far apart, as a share of the axis.
_APART = 0.11


@dataclass(frozen=True)
class View:
    """How a line is drawn. ``seen``: the arms in full colour, the chosen one first; ``absolute``: in
    the metric's own unit; ``title``: what stands above it."""

    line: MetricLine
    seen: tuple[str, ...]
    reference: str
    absolute: bool
    title: str

    @property
    def number(self) -> str:
        """The format of the chart's values."""
        return f",.{METRICS[self.line[0]].decimals}f" if self.absolute else "+.1%"

    def label(self, row: Any) -> str:
        """Return what stands at the end of a line: the arm and its value."""
        value = f"{row.value:{self.number}}" if self.absolute else f"{row.value * 100:+.1f} %"
        return f"{row.arm} {value}"


def over_load(
    setting: ComparedSetting, view: View, beside: Sequence[ComparedSetting] = ()
) -> Chart:
    """Draw a metric over the load, a line per arm; ``beside``: settings whose charts share the
    scale."""
    places = _places(setting, view.line)
    rows = _rows(setting, view, places)
    if rows.empty:
        return nothing(f"{view.title}: unknown")
    others = [_rows(one, view, _places(one, view.line)) for one in beside]
    low, high = _scale(pd.concat([rows, *others]), view.absolute)
    bright = (*view.seen, view.reference) if view.absolute else view.seen
    ends = _with_ends(rows, bright, high - low, view.label)
    digits = "~s" if high >= 10_000 else ",~r"
    axis = alt.Axis(tickCount=5, format=digits) if view.absolute else _PERCENT
    y = alt.Y(
        field="value", type="quantitative", title=None, axis=axis,
        scale=alt.Scale(domain=[low, high], nice=False),
    )  # fmt: skip
    layers = _Lines(ends, bright, places, y, view).layers()
    told = answer(setting, view.line, view.seen[0])
    zero = [] if view.absolute else [_zero()]
    return alt.layer(*zero, *layers, title=heading(view.title, told), height=_HEIGHT)


_PERCENT = alt.Axis(labelExpr=SIGNED, tickCount=5)
_HEIGHT = 300


def _rows(setting: ComparedSetting, view: View, places: LoadPlaces) -> pd.DataFrame:
    if view.absolute:
        return _frame(_value_rows(setting, view.line, places, view.reference))
    return _frame(_improvement_rows(setting, view.line, places))


def _scale(rows: pd.DataFrame, absolute: bool) -> tuple[float, float]:
    """Return the ends of the value axis: amounts start at zero; improvements have room on both
    sides of it."""
    ends = rows[["value", "low", "high"]]
    low, high = min(ends.min().min(), 0.0), max(ends.max().max(), 0.0)
    if absolute:
        return 0.0, float(high * 1.12) or 1.0
    room = max(high - low, 0.05) * 0.12
    return float(low - room), float(high + room)


def _zero() -> Chart:
    """Draw the line of no difference."""
    return (
        alt.Chart(alt.InlineData(values=[{"zero": 0}]))
        .mark_rule(strokeDash=[4, 3], strokeWidth=1.5, color=QUIET)
        .encode(y=alt.Y(field="zero", type="quantitative"))
    )


def answer(setting: ComparedSetting, line: MetricLine, chosen: str) -> str:
    """Say what the chosen arm does: its smallest and largest improvement over the loads."""
    found = [change for arm in setting.arms if arm.name == chosen for change in arm.changes
             if change.line == line and change.improvement is not None]  # fmt: skip
    if not found:
        return f"{chosen}: not compared here"
    first, *rest = sorted(found, key=lambda one: one.improvement or 0.0)
    if not rest:
        return f"{chosen}: {percent(first.improvement)} at {load_name(first.load)}"
    last = rest[-1]
    return f"{chosen}: {percent(first.improvement)} to {percent(last.improvement)}"


class _Lines:
    """The layers that charts of values and charts of improvements share."""

    def __init__(
        self,
        rows: pd.DataFrame,
        bright: tuple[str, ...],
        places: LoadPlaces,
        y: alt.Y,
        view: View,
    ) -> None:
        self.rows, self.number, self.y = rows, view.number, y
        self.x = _axis(places, rows)
        key = (*view.line, view.title)
        # Every chart of a file has clicks of its own.
        self.picked = alt.selection_point(
            name="".join(c for c in "_".join(key) if c.isalnum()), fields=["arm"], toggle="true",
            value=[{"arm": name} for name in bright], empty=True,
        )  # fmt: skip

    def layers(self) -> list[Chart]:
        """Return the layers of the chart: bands, lines, points, names."""
        base = alt.Chart(self.rows).encode(x=self.x, y=self.y)
        shade = alt.condition(self.picked, alt.value(1), alt.value(_FAINT))
        spread = {"y": alt.Y(field="low", type="quantitative"), "y2": alt.Y2(field="high")}
        band = alt.condition(self.picked, alt.value(0.16), alt.value(0))
        bands = base.mark_area().encode(color=colour(self.rows), opacity=band, **spread)
        line = base.mark_line(strokeWidth=2.5).encode(color=colour(self.rows), opacity=shade)
        points = base.mark_point(size=60, strokeWidth=2).encode(
            stroke=colour(self.rows, "stroke"), fill=colour(self.rows, "fill"), opacity=shade,
            fillOpacity=alt.FillOpacity(
                field="solid", type="quantitative", scale=None, legend=None
            ),
            tooltip=self._tips(),
        ).add_params(self.picked)  # fmt: skip
        names = (
            alt.Chart(self.rows[self.rows["end_label"] != ""])
            .mark_text(align="left", baseline="middle", dx=9, fontSize=12, fontWeight=600)
            .encode(
                x=self.x, y=alt.Y(field="end_y", type="quantitative"),
                text=alt.Text(field="end_label", type="nominal"), color=colour(self.rows),
                opacity=alt.condition(self.picked, alt.value(1), alt.value(0)),
            )
        )  # fmt: skip
        # A layer without a mark is an empty picture to who listens to the page.
        spreads = [bands] if self.rows["low"].notna().any() else []
        return [*spreads, line, points, names]

    def _tips(self) -> list[alt.Tooltip]:
        return [
            tip("arm", "arm"), tip("load", "load"), tip("value", "value", self.number),
            tip("told", "interval"), tip("repeats", "repeats", "d"), tip("cell", "cell"),
        ]  # fmt: skip


def _axis(places: LoadPlaces, rows: pd.DataFrame) -> alt.X:
    """Return the axis of loads with room at its right for the names of the lines."""
    share = min((_LETTER * rows["end_label"].str.len().max() + 12) / _PLOT, _MOST_LABEL)
    part = share / (1 - share)
    if places.names:
        return named_loads(places.names, max(len(places.names) - 1, 1) * part)
    levels = places.levels
    return loads(levels, max(max(levels) / min(levels), 2.0) ** part)


def _places(setting: ComparedSetting, line: MetricLine) -> LoadPlaces:
    return load_places(change.load for _, change in _changes(setting, line))


def _changes(setting: ComparedSetting, line: MetricLine) -> Iterator[tuple[str, ArmChange]]:
    """Yield each arm with its change in the given line at each load."""
    for arm in setting.arms:
        for change in arm.changes:
            if change.line == line:
                yield arm.name, change


def _improvement_rows(
    setting: ComparedSetting, line: MetricLine, places: LoadPlaces
) -> Iterator[tuple[Any, ...]]:
    for arm, one in _changes(setting, line):
        if one.improvement is not None:
            told = f"{sure(one)}: {word(one)}" if one.low is not None else ONE_LAUNCH
            yield (
                arm, places.at[one.load], load_name(one.load), one.improvement, one.low, one.high,
                one.launches, int(one.launches > 1), told, one.cells[1],
            )  # fmt: skip


def _value_rows(
    setting: ComparedSetting, line: MetricLine, places: LoadPlaces, reference: str
) -> Iterator[tuple[Any, ...]]:
    """Yield a row per arm and load, then the reference's. Arms may have met different repeats of
    the reference; the one with most is drawn."""
    found: dict[int, ArmChange] = {}
    for arm, one in _changes(setting, line):
        place = places.at[one.load]
        if place not in found or found[place].repeats < one.repeats:
            found[place] = one
        yield _value_row(arm, one, 1, places)
    for one in found.values():
        yield _value_row(reference, one, 0, places)


def _value_row(arm: str, one: ArmChange, side: int, places: LoadPlaces) -> tuple[Any, ...]:
    """Return the row of one side: 0 for the reference, 1 for the arm."""
    span = (one.reference, one.arm)[side]
    number = f",.{METRICS[one.metric].decimals}f"
    told = f"repeats {span.low:{number}} to {span.high:{number}}"
    return (
        arm, places.at[one.load], load_name(one.load), span.mean, span.low, span.high, one.repeats,
        int(one.repeats > 1), told, one.cells[side],
    )  # fmt: skip


def _frame(rows: Iterator[tuple[Any, ...]]) -> pd.DataFrame:
    numbers = {"value": "float64", "low": "float64", "high": "float64"}
    found = pd.DataFrame(list(rows), columns=list(_COLUMNS)).astype(numbers)
    found = found[found["value"].notna()]
    return found.sort_values(["arm", "concurrency"], ignore_index=True)


def _with_ends(
    rows: pd.DataFrame, bright: Sequence[str], span: float, label: Callable[[Any], str]
) -> pd.DataFrame:
    """Add the name at the end of each line; names of lines that are seen at first are moved
    apart."""
    at_end = rows["concurrency"] == rows.groupby("arm")["concurrency"].transform("max")
    texts = [label(row) if end else "" for row, end in zip(rows.itertuples(), at_end, strict=True)]
    found = rows.assign(end_label=texts, end_y=rows["value"])
    seen = found[at_end & found["arm"].isin(bright)].sort_values("value")
    found.loc[seen.index, "end_y"] = apart(seen["value"].tolist(), span * _APART)
    return found
