"""What the Draft tokens page draws of one arm family: gains, values over K, acceptance."""

from itertools import groupby
from math import isnan
from typing import Any

import pandas as pd

from analysis.drafts.best_k import BestK
from analysis.frames import records
from analysis.tables import metric_name, number, percent
from dashboard.answers import Drawing, drawn
from dashboard.answers.draft_tokens import OFF, Setting, squares
from dashboard.charts import Scales, nothing
from dashboard.charts import drafts as charts_drafts
from dashboard.charts.drafts import Axis
from dashboard.ends import panel_of
from warehouse.catalogue import METRICS

#: More panels than this are neither read nor drawn quickly.
MOST_PANELS = 6


def gain_drawings(known: dict[str, Setting]) -> list[Drawing]:
    """A heat map per dataset, at most ``MOST_PANELS``."""
    return [_gain_drawing(setting) for setting in list(known.values())[:MOST_PANELS]]


def _gain_drawing(setting: Setting) -> Drawing:
    best = setting.advice.best
    metric, rows = METRICS[best.metric], setting.cells
    if rows["gain"].isna().all() or (rows["k"] > 0).sum() == 0:
        return drawn(nothing(f"{setting.name}: gain unknown, no baseline{setting.note}"))
    marks = rows.assign(
        load=rows["concurrency"].astype(str),
        draft=[f"K = {k}" if k else OFF for k in rows["k"]],
        text=[_short(gain) for gain in rows["gain"]],
        interval=[_interval(row) for row in records(rows)],
        value=[f"{number(value, metric.decimals)} {metric.unit}" for value in rows["value"]],
        square=list(squares({setting.name: setting})),
    )
    return drawn(charts_drafts.gain_by_load(marks[_MAP], (_best_title(setting), _SUBTITLE)))


_MAP = ["load", "concurrency", "draft", "k", "gain", "text", "interval", "value",
        "repeats", "taken", "tied", "unsettled", "square"]  # fmt: skip

_SUBTITLE = "gain over the baseline"


def _best_title(setting: Setting) -> str:
    taken = [choice.k for choice in setting.advice.best.choices if choice.k is not None]
    if not taken:
        return f"{setting.name}: no K meets the SLO{setting.note}"
    words = [str(k) if k else "none" for k, _ in groupby(taken)]
    return f"{setting.name}: draft {', then '.join(words)}{setting.note}"


def _short(gain: float) -> str:
    return "unknown" if isnan(gain) else f"{gain * 100:+.1f} %" if gain else "0 %"


def _interval(row: dict[str, Any]) -> str:
    if row["k"] == 0:
        return "this is the baseline"
    if isnan(row["gain_low"]):
        return f"{percent(row['gain'])}, noise unknown"
    return (
        f"{percent(row['gain'])} (95 %: {percent(row['gain_low'])} to {percent(row['gain_high'])})"
    )


def value_drawings(setting: Setting) -> list[Drawing]:
    """A chart over K at the lowest, the middle and the highest load."""
    best, rows = setting.advice.best, setting.cells
    method = best.family.split(" ")[0]
    marks = rows.assign(
        arm=[arm_name(method, k) for k in rows["k"]],
        solid=(rows["repeats"] > 1).astype(int),
        note=[_note(row) for row in records(rows)],
    )
    levels = sorted(rows["concurrency"].unique())
    chosen = sorted({levels[0], levels[len(levels) // 2], levels[-1]})
    what = f"{metric_name(best.metric, best.statistic)}, {setting.name}"
    return [
        drawn(
            charts_drafts.value_by_k(
                marks[marks["concurrency"] == load].drop(columns=["unsettled", "taken", "tied"]),
                METRICS[best.metric],
                (f"{_load_title(best, int(load))}{setting.note}", what),
            )
        )
        for load in chosen
    ]


def _load_title(best: BestK, load: int) -> str:
    (choice,) = [choice for choice in best.choices if choice.concurrency == load]
    if choice.k is None:
        return f"Concurrency {load}: no K meets the SLO"
    return f"Concurrency {load}: {f'K = {choice.k}' if choice.k else OFF}"


def _note(row: dict[str, Any]) -> str:
    if row["taken"]:
        return "take"
    return "tied" if row["tied"] else ""


def arm_name(method: str, k: int) -> str:
    """As the catalogue names arms, so that they get their colour."""
    return f"{method} K={k}" if k else "baseline"


def position_drawings(known: dict[str, Setting], conditional: bool) -> list[Drawing]:
    """Acceptance by position, a chart per dataset."""
    column = "conditional" if conditional else "rate"
    return [_positions(setting, column) for setting in list(known.values())[:MOST_PANELS]]


def _positions(setting: Setting, column: str) -> Drawing:
    rows = setting.advice.positions.dropna(subset=column)
    name = f"{setting.name}: {_lengths(setting.advice.acceptance)}{setting.note}"
    if rows.empty:
        return drawn(nothing(f"{setting.name}: acceptance by position unknown{setting.note}"))
    of_all = "of all drafts" if column == "rate" else "of drafts that got so far"
    marks = _named(rows, setting)[["arm", "k", "concurrency", "position", column]]
    subtitle = f"accepted at each position, {of_all}; one line per K and load"
    return drawn(charts_drafts.acceptance_by_position(marks, column, (name, subtitle)))


def _lengths(accepted: pd.DataFrame) -> str:
    known = accepted["mean_length"].dropna()
    if known.empty:
        return "mean acceptance length unknown"
    low, high = known.min(), known.max()
    span = f"{low:.2f}" if high - low < 0.005 else f"{low:.2f} to {high:.2f}"
    return f"{span} tokens per step"


def acceptance_drawings(known: dict[str, Setting], over: Axis, metric: str) -> list[Drawing]:
    """``acceptance_rate`` or ``mean_acceptance_length`` over K or load, a chart per dataset."""
    return [_acceptance(setting, over, metric) for setting in list(known.values())[:MOST_PANELS]]


_COLUMNS = {"acceptance_rate": "rate", "mean_acceptance_length": "mean_length"}


def _acceptance(setting: Setting, over: Axis, key: str) -> Drawing:
    metric, column = METRICS[key], _COLUMNS[key]
    rows = setting.advice.acceptance.dropna(subset=column)
    if rows.empty:
        return drawn(nothing(f"{setting.name}: {metric.label.lower()} unknown{setting.note}"))
    marks = _named(rows, setting)[["arm", "k", "concurrency", "rate", "mean_length", "repeats"]]
    last = marks.groupby("arm")["concurrency"].transform("max") == marks["concurrency"]
    marks = marks.assign(end_label=marks["arm"].where(last, ""), value=marks[column], panel="")
    marks = panel_of(marks.assign(end_y=marks["value"]), "", Scales((), 0.0, _high(marks, column)))
    marks = marks.drop(columns=["panel", "value"])
    names = (f"{metric.label}, {setting.name}{setting.note}", _measured_over(over, metric.unit))
    return drawn(charts_drafts.acceptance_over(marks, over, column, names))


def _high(marks: pd.DataFrame, column: str) -> float:
    return 1.0 if column == "rate" else float(marks[column].max())


def _measured_over(over: Axis, unit: str) -> str:
    if over == "k":
        return f"{unit}; higher is better; one line per load"
    return f"{unit}; higher is better; one line per K"


def _named(rows: pd.DataFrame, setting: Setting) -> pd.DataFrame:
    method = setting.advice.best.family.split(" ")[0]
    return rows.assign(arm=[arm_name(method, int(k)) for k in rows["k"]])
