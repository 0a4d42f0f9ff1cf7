"""A comparison with its evidence as rows of text: interval, verdict, and what would settle it."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from analysis.frames import records
from analysis.significance.comparison import Comparison, in_study_order
from analysis.significance.confidence import SERIES, Confidence
from analysis.significance.crossover import as_json as ends_as_json
from analysis.significance.crossover import crossovers
from analysis.significance.evidence import OPEN, counted, summary_sentence
from analysis.tables import UNKNOWN, Table, metric_name, number, percent
from warehouse.catalogue import METRICS

#: What an interval adds to a row of a comparison.
TOLD = ("repeats", "low", "high", "noise", "p_value", "verdict", "repeats_enough", "covers")


def by_concurrency(found: Comparison, sure: Confidence, setting: int, arm_id: int) -> Table:
    """A row per concurrency level and line of the study's table."""
    on = [*SERIES, "concurrency"]
    rows = _joined(found.levels, sure.levels, on, (setting, arm_id))
    header = ["concurrency", *_HEADER, "repeats"]
    return header, [
        [_level(row["concurrency"]), *_line(row), _count(row["repeats"])]
        for row in records(in_study_order(rows).sort_values(["concurrency", "line"]))
    ]


def geomean(found: Comparison, sure: Confidence, setting: int, arm_id: int) -> Table:
    """The study's table: a row per metric, geometric means over the levels both arms have."""
    rows = _joined(found.geomean, sure.geomean, list(SERIES), (setting, arm_id))
    header = ["metric (geometric mean)", *_HEADER[1:]]
    return header, [_line(row) for row in records(in_study_order(rows).sort_values("line"))]


_HEADER = ["metric", "baseline", "speculative", "improvement", "95 % interval", "verdict"]


def summary_of(sure: Confidence, setting: int, arm_id: int) -> str:
    """One sentence that counts the verdicts of the study's lines over all levels."""
    return summary_told(records(in_study_order(_of(sure.levels, setting, arm_id))))


def summary_told(rows: Sequence[Mapping[str, Any]]) -> str:
    """``summary_of`` of the rows of the study's lines: p_value, verdict."""
    p_values = np.array([row["p_value"] for row in rows], dtype=np.float64)
    return summary_sentence(counted(p_values, [row["verdict"] for row in rows]))


def shared_sentences(sure: Confidence, setting: int, arm_id: int) -> list[str]:
    """Which means over levels are less sure than their levels suggest, and why."""
    return shared_told(records(in_study_order(_of(sure.geomean, setting, arm_id))))


def shared_told(rows: Iterable[Mapping[str, Any]]) -> list[str]:
    """``shared_sentences`` of the means of the study's lines: metric, shared."""
    names = [METRICS[row["metric"]].label for row in rows if row["shared"]]
    if not names:
        return []
    return [
        f"In {', '.join(names)} whole repeats move together at all loads, as levels do that share a "
        "server start: the mean over loads counts repeats, not levels."
    ]


def interval_text(low: float | None, high: float | None) -> str:
    """``+4.1 % to +12.0 %``; empty where there is none."""
    if low is None or high is None or pd.isna(low) or pd.isna(high):
        return ""
    return f"{percent(low)} to {percent(high)}"


def verdict_text(row: dict[str, Any]) -> str:
    """The verdict, and where it is open how many repeats would settle it."""
    verdict = row.get("verdict")
    if not isinstance(verdict, str):
        return ""
    if verdict != OPEN:
        return verdict
    if row["repeats"] < 2:
        return f"{verdict}: one repeat; run 3 to 5"
    enough = row["repeats_enough"]
    return (
        f"{verdict}: {'find the noise first' if pd.isna(enough) else f'about {enough:.0f} repeats'}"
    )


def as_json(sure: Confidence, found: Comparison) -> list[dict[str, Any]]:
    """A plain object per interval: its series' keys, concurrency (None: the mean over levels)."""
    means = sure.geomean.assign(concurrency=None)
    return [
        {
            "keys": _keys(found, row["setting"], row["arm_id"]),
            **{
                name: _plain(row[name])
                for name in ("metric", "statistic", "concurrency", "improvement", *TOLD)
            },
        }
        for row in [*records(sure.levels), *records(means)]
    ]


def crossover_sentence(sure: Confidence, setting: int, arm_id: int) -> str:
    """Where the gain in output throughput ends."""
    return " ".join(one.sentence for one in crossovers(_of(sure.levels, setting, arm_id)))


def crossovers_json(sure: Confidence, found: Comparison) -> list[dict[str, Any]]:
    """Where the gain in output throughput ends, an object per setting and arm."""
    ends = crossovers(sure.levels)
    return [
        {"keys": _keys(found, one.setting, one.arm_id), **told}
        for one, told in zip(ends, ends_as_json(ends), strict=True)
    ]


def _keys(found: Comparison, setting: int, arm_id: int) -> dict[str, Any]:
    keys = records(found.keys.loc[[(setting, arm_id)]])[0]
    return {name: _plain(value) for name, value in keys.items()}


def _joined(
    rows: pd.DataFrame, told: pd.DataFrame, on: list[str], chosen: tuple[int, int]
) -> pd.DataFrame:
    mine = _of(rows, *chosen)
    return mine.merge(told[[*on, *TOLD]], on=on, how="left")


def _of(rows: pd.DataFrame, setting: int, arm_id: int) -> pd.DataFrame:
    return rows[(rows["setting"] == setting) & (rows["arm_id"] == arm_id)]


def _line(row: dict[str, Any]) -> list[str]:
    decimals = METRICS[row["metric"]].decimals
    return [
        metric_name(row["metric"], row["statistic"]),
        *(number(row[arm], decimals) for arm in ("baseline", "speculative")),
        percent(row["improvement"]),
        interval_text(row["low"], row["high"]) + (" *" if row.get("covers") == "sampling" else ""),
        verdict_text(row),
    ]


def _count(repeats: float) -> str:
    return "" if pd.isna(repeats) else f"{repeats:.0f}"


def _level(value: Any) -> str:
    return UNKNOWN if pd.isna(value) else f"{value:g}"


def _plain(value: Any) -> Any:
    if value is None or (not isinstance(value, str) and pd.isna(value)):
        return None
    value = value.item() if hasattr(value, "item") else value
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return json.loads(value) if isinstance(value, str) and value.startswith("{") else value
