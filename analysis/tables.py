"""A comparison as rows of text: what a terminal prints and a reader can check."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pandas as pd

from analysis.frames import records
from analysis.significance.comparison import Comparison
from warehouse.catalogue import METRICS, percentile_label

Table = tuple[list[str], list[list[str]]]
UNKNOWN = "unknown"


def number(value: float | None, decimals: int) -> str:
    """A value with thin grouping, ``1,171.7``; unknown is said so, never 0."""
    return UNKNOWN if value is None or pd.isna(value) else f"{value:,.{decimals}f}"


def percent(ratio: float | None) -> str:
    """An improvement with its sign, ``+20.7 %``; positive is better."""
    return UNKNOWN if ratio is None or pd.isna(ratio) else f"{ratio * 100:+.1f} %"


def metric_name(metric: str, statistic: str) -> str:
    """``TTFT … P95 (ms)``: label, statistic where there is a choice, unit."""
    known = METRICS[metric]
    chosen = f" {percentile_label(statistic)}" if known.distribution else ""
    return f"{known.label}{chosen} ({known.unit})"


def setting_name(keys: dict[str, Any]) -> str:
    """One line that tells a reader which setting and arm a table is about."""
    parts = [
        known_text(keys.get("dataset")),
        known_text(keys.get("model")),
        f"TP {known_text(keys.get('tensor_parallel_size'))}",
        known_text(keys.get("gpu")),
    ]
    evidence = {"gpu": "", None: ""}.get(keys.get("evidence"), f" [{keys.get('evidence')}]")
    return f"{keys['arm_label']} against baseline: {', '.join(parts)}{evidence}"


def levels_sentence(found: Comparison, setting: int, arm_id: int) -> str:
    """Over which levels the means are, and which only one arm has."""
    return levels_told(records(_chosen(found.geomean, setting, arm_id).head(1))[0])


def levels_told(row: Mapping[str, Any]) -> str:
    """``levels_sentence`` of a row of ``Comparison.geomean``."""
    sentence = f"Geometric means over concurrency {_list(row['concurrencies'])}."
    for name, arm in (("only_baseline", "baseline"), ("only_speculative", "speculative arm")):
        if row[name]:
            sentence += f" Only the {arm} has {_list(row[name])}: left out."
    return sentence


def unmatched(found: Comparison, cells: pd.DataFrame) -> Table:
    """What has no partner, and why: a row per file, arm, dataset and reason."""
    told = found.unmatched.merge(cells, on="cell_id", how="left", suffixes=("", "_of_cell"))
    names = ["arm_label", "dataset", "path", "reason"]
    grouped = told.groupby(names, dropna=False, sort=False)["concurrency"].agg(list).reset_index()
    rows = [
        [
            known_text(row["arm_label"]), known_text(row["dataset"]), _list(sorted(set(row["concurrency"]))),
            known_text(row["path"]), row["reason"],
        ]
        for row in records(grouped)
    ]  # fmt: skip
    return ["arm", "dataset", "concurrency", "from", "why it is not compared"], rows


def flags(found: Comparison, setting: int, arm_id: int) -> list[str]:
    """The distinct doubts about the pairs of one setting and arm, most serious first."""
    rows = _chosen(found.pairs, setting, arm_id).drop_duplicates("speculative_id")
    return flags_told(records(rows[["concurrency", "flags"]]))


def flags_told(pairs: Iterable[Mapping[str, Any]]) -> list[str]:
    """``flags`` of pairs, each given once: concurrency, flags."""
    order = ("error", "warning", "info")
    told: dict[tuple[int, str, str], list[int]] = {}
    for row in pairs:
        for flag in row["flags"]:
            key = (order.index(flag.severity), flag.name, flag.sentence)
            told.setdefault(key, []).append(row["concurrency"])
    return [
        f"{order[rank]}: {name} at concurrency {_list(sorted(set(levels)))}: {sentence}"
        for (rank, name, sentence), levels in sorted(told.items())
    ]


def allowed(found: Comparison, setting: int, arm_id: int) -> list[str]:
    """The fields in which pairs of one setting and arm differ by permission."""
    return allowed_told(records(_chosen(found.pairs, setting, arm_id)[["allowed"]]))


def allowed_told(pairs: Iterable[Mapping[str, Any]]) -> list[str]:
    """``allowed`` of pairs."""
    return sorted({name for pair in pairs for name in pair["allowed"]})


def _chosen(rows: pd.DataFrame, setting: int, arm_id: int) -> pd.DataFrame:
    return rows[(rows["setting"] == setting) & (rows["arm_id"] == arm_id)]


def known_text(value: Any) -> str:
    """A value in words; unknown is said."""
    if value is None or pd.isna(value):
        return UNKNOWN
    return f"{value:g}" if isinstance(value, float) else str(value)


def _list(levels: Sequence[Any]) -> str:
    return ", ".join(known_text(level) for level in levels)
