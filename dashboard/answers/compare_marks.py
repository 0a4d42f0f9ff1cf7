"""From compared arms to the small frames that charts draw: a row per mark."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pandas as pd

from answers.compare.values import Change, Setting
from answers.compare.words import ONE_LAUNCH, sure, word
from dashboard.charts import Scales
from dashboard.load_places import LoadPlaces
from warehouse.catalogue import METRICS, Metric

#: metric, statistic
Line = tuple[str, str]
COLUMNS = (
    "panel", "arm", "concurrency", "load", "value", "low", "high", "repeats", "solid", "interval",
    "cell",
)  # fmt: skip


def improvements(settings: Sequence[Setting], line: Line, places: LoadPlaces) -> pd.DataFrame:
    """One mark per setting, arm and load: how much better it is than the reference, with its
    interval. ``concurrency`` is the load's place on the axis."""
    rows = [_improvement(panel, arm, one, places) for panel, arm, one in changes(settings, line)
            if one.improvement is not None]  # fmt: skip
    marks = _frame([row for row in rows if row is not None])
    return _with_ends(marks, lambda row: f"{row.arm} {row.value * 100:+.1f} %")


def changes(settings: Sequence[Setting], line: Line) -> Iterator[tuple[str, str, Change]]:
    """Each setting's name, arm and load that has a line."""
    for setting in settings:
        for arm in setting.arms:
            for change in arm.changes:
                if change.line == line:
                    yield setting.name, arm.name, change


def _improvement(panel: str, arm: str, change: Change, places: LoadPlaces) -> tuple[Any, ...]:
    told = f"{sure(change)}: {word(change)}" if change.low is not None else ONE_LAUNCH
    return (
        *_place(panel, arm, change, places), change.improvement, change.low, change.high,
        change.launches, int(change.launches > 1), told, change.cells[1],
    )  # fmt: skip


def _place(panel: str, arm: str, change: Change, places: LoadPlaces) -> tuple[Any, ...]:
    load = "unknown" if change.load is None else change.load.text
    return panel, arm, places.at[change.load], load


def values(
    settings: Sequence[Setting], line: Line, places: LoadPlaces, reference: str
) -> pd.DataFrame:
    """One mark per setting, arm (``reference`` too) and load: the value, from the lowest to the
    highest repeat. Arms may have met different repeats of the reference: the most are drawn."""
    found: dict[tuple[str, int], tuple[int, tuple[Any, ...]]] = {}
    rows = []
    for panel, arm, change in changes(settings, line):
        place = panel, places.at[change.load]
        mark = _value(panel, reference, change, 0, places)
        if place not in found or found[place][0] < change.repeats:
            found[place] = change.repeats, mark
        rows.append(_value(panel, arm, change, 1, places))
    marks = _frame([*(mark for _, mark in found.values()), *rows])
    number = f",.{METRICS[line[0]].decimals}f"
    return _with_ends(marks[marks["value"].notna()], lambda row: f"{row.arm} {row.value:{number}}")


def _value(panel: str, arm: str, change: Change, side: int, places: LoadPlaces) -> tuple[Any, ...]:
    """``side``: 0 for the reference, 1 for the arm."""
    span = (change.reference, change.arm)[side]
    number = f",.{METRICS[change.metric].decimals}f"
    told = f"repeats {span.low:{number}} to {span.high:{number}}"
    solid = int(change.repeats > 1)
    return (
        *_place(panel, arm, change, places), span.mean, span.low, span.high, change.repeats, solid,
        told, change.cells[side],
    )  # fmt: skip


def _frame(rows: list[tuple[Any, ...]]) -> pd.DataFrame:
    numbers = {"value": "float64", "low": "float64", "high": "float64"}
    marks = pd.DataFrame(rows, columns=list(COLUMNS)).astype(numbers)
    return marks.sort_values(["panel", "arm", "concurrency"], ignore_index=True)


def _with_ends(marks: pd.DataFrame, label: Callable[[Any], str]) -> pd.DataFrame:
    """With the text that stands at the end of each line."""
    last = marks.groupby(["panel", "arm"])["concurrency"].transform("max")
    at_end = marks["concurrency"] == last
    texts = [label(row) if end else "" for row, end in zip(marks.itertuples(), at_end, strict=True)]
    return marks.assign(end_label=pd.Series(texts, index=marks.index, dtype=object),
                        end_y=marks["value"])  # fmt: skip


def improvement_scales(marks: pd.DataFrame, places: LoadPlaces) -> Scales:
    """One scale for all panels; zero always stands on it."""
    ends = marks[["value", "low", "high"]]
    low, high = min(ends.min().min(), 0.0), max(ends.max().max(), 0.0)
    room = max(high - low, 0.05) * 0.12
    return Scales(_levels(marks, places), float(low - room), float(high + room), places.names)


def value_scales(marks: pd.DataFrame, places: LoadPlaces) -> Scales:
    """From zero: throughput and latency are amounts."""
    return Scales(
        _levels(marks, places), 0.0, float(marks["high"].max()) * 1.12 or 1.0, places.names
    )


def _levels(marks: pd.DataFrame, places: LoadPlaces) -> tuple[int, ...]:
    if places.names:
        return places.levels
    return tuple(int(level) for level in sorted(marks["concurrency"].unique()))


def shown_statistic(metric: Metric, statistic: str) -> str:
    """The chosen statistic where the metric has a distribution, else its mean."""
    return statistic if metric.distribution else "mean"
