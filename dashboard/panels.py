"""From matched pairs to the small frames that charts draw: one panel per setting, one row per mark.

A panel holds cells that differ only in arm, concurrency and repeat; in its name stand dataset and
tensor parallel size, and whatever else differs between the panels on the page.
"""

from collections.abc import Callable
from typing import Any

import pandas as pd

from analysis.comparison import SETTING
from dashboard.charts import Scales
from warehouse.catalogue import METRICS, Metric

CHARTED: tuple[str, ...] = (
    "output_throughput",
    "total_throughput",
    "ttft",
    "itl",
    "tpot",
    "request_latency",
)

#: What separates panels, beside dataset and tensor parallel size, which always stand in the name.
_SETTING = [name for name in SETTING if name not in ("dataset", "tensor_parallel_size", "evidence")]
_BADGES = {
    "cpu": "CPU lab",
    "mock": "mock",
    "dummy_weights": "dummy weights",
    "simulated": "simulated",
}
#: A longer value, e.g. server arguments, is cut in a panel's name.
_LONGEST = 40
#: Smallest distance between two end labels, as a share of the axis.
_LABEL_GAP = 0.085


def badge(evidence: object) -> str:
    """What a reader must know about the origin of numbers: empty for a real GPU run."""
    if evidence == "gpu":
        return ""
    return _BADGES.get(str(evidence), "evidence unknown")


def settings(cells: pd.DataFrame) -> pd.DataFrame:
    """Name of the panel, badge, arm and concurrency of each cell; index ``cell_id``."""
    named = cells.set_index("cell_id")
    parts = [named["dataset"].map(_text), "TP " + named["tensor_parallel_size"].map(_text)]
    parts += [named[name].map(_text) for name in _SETTING if _varies(named, name)]
    panel = pd.concat(parts, axis=1).agg(" · ".join, axis=1)
    return pd.DataFrame(
        {
            "panel": panel,
            "badge": named["evidence"].map(badge, na_action=None),
            "arm": named["arm_label"],
            "concurrency": named["concurrency"],
        }
    )


def _varies(cells: pd.DataFrame, name: str) -> bool:
    return name in cells and cells[name].nunique(dropna=False) > 1


def _text(value: object) -> str:
    if pd.isna(value):  # type: ignore[call-overload]
        return "unknown"
    text = f"{value:g}" if isinstance(value, float) else str(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def pair_rows(pairs: pd.DataFrame, cells: pd.DataFrame, statistic: str) -> pd.DataFrame:
    """The charted metrics of the pairs, at the statistic that each metric is shown with.

    ``pairs``: one row per pair, metric and statistic, as ``analysis.comparison`` returns them.
    Adds panel, badge, arm and concurrency of the speculative cell; ``allowed`` and ``flags`` as
    text.
    """
    shown = {key: shown_statistic(METRICS[key], statistic) for key in CHARTED}
    wanted = pairs["metric"].map(shown) == pairs["statistic"]
    rows = pairs[wanted & pairs["improvement"].notna()]
    known = settings(cells[cells["cell_id"].isin(set(pairs["speculative_id"]))])
    rows = rows.drop(columns="concurrency").join(known, on="speculative_id")
    return rows.assign(
        allowed=rows["allowed"].map(", ".join),
        flags=rows["flags"].map(lambda flags: ", ".join(flag.name for flag in flags)),
    ).reset_index(drop=True)


def titles(rows: pd.DataFrame) -> dict[str, str]:
    """Panel -> its title with badges, panels with most pairs first."""
    order = rows["panel"].value_counts().index
    badges = rows.groupby("panel")["badge"].unique()
    return {
        name: name + "".join(f"  [{text}]" for text in sorted(badges[name]) if text)
        for name in order
    }


def improvements(rows: pd.DataFrame) -> pd.DataFrame:
    """Pair rows of one metric -> one row per panel, arm and concurrency, ``value`` a ratio."""
    marks = _marks(rows.assign(value=rows["improvement"]))
    return _with_ends(marks, lambda row: f"{row.arm} {row.value:+.0%}")


def values(rows: pd.DataFrame, metric: Metric) -> pd.DataFrame:
    """Pair rows of one metric -> one row per panel, arm (baseline too) and concurrency."""
    speculative = rows.assign(cell_id=rows["speculative_id"], value=rows["speculative"])
    baseline = rows.assign(cell_id=rows["baseline_id"], value=rows["baseline"], arm="baseline")
    both = pd.concat([baseline, speculative]).drop_duplicates(["panel", "arm", "cell_id"])
    number = f",.{metric.decimals}f"
    return _with_ends(_marks(both), lambda row: f"{row.arm} {row.value:{number}}")


def _marks(rows: pd.DataFrame) -> pd.DataFrame:
    """Mean over repeats, with the smallest and largest; a single repeat is not solid."""
    marks = (
        rows.groupby(["panel", "arm", "concurrency"], sort=True)["value"]
        .agg(value="mean", low="min", high="max", repeats="count")
        .reset_index()
    )
    return marks.assign(solid=(marks["repeats"] > 1).astype(int))


def _with_ends(marks: pd.DataFrame, label: Callable[[Any], str]) -> pd.DataFrame:
    last = marks.groupby(["panel", "arm"])["concurrency"].transform("max")
    at_end = marks["concurrency"] == last
    texts = [label(row) if end else "" for row, end in zip(marks.itertuples(), at_end, strict=True)]
    return marks.assign(end_label=texts, end_y=marks["value"])


def panel_of(marks: pd.DataFrame, name: str, scales: Scales) -> pd.DataFrame:
    """The marks of one panel, their end labels moved apart so that each can be read."""
    chosen = marks[marks["panel"] == name].copy()
    ends = chosen[chosen["end_label"] != ""].sort_values("value")
    gap = (scales.high - scales.low) * _LABEL_GAP
    chosen.loc[ends.index, "end_y"] = _apart(list(ends["value"]), gap)
    return chosen


def _apart(heights: list[float], gap: float) -> list[float]:
    """Ascending heights -> heights at least ``gap`` apart, moved as little as one pass allows."""
    placed: list[float] = []
    for height in heights:
        placed.append(max(height, placed[-1] + gap) if placed else height)
    shift = sum(p - h for p, h in zip(placed, heights, strict=True)) / max(len(placed), 1)
    return [height - shift for height in placed]


def improvement_scales(marks: pd.DataFrame) -> Scales:
    """One scale for all panels; zero always stands on it."""
    low, high = min(marks["low"].min(), 0.0), max(marks["high"].max(), 0.0)
    room = max(high - low, 0.05) * 0.12
    return Scales(_levels(marks), float(low - room), float(high + room))


def value_scales(marks: pd.DataFrame) -> Scales:
    """From zero: throughput and latency are amounts."""
    return Scales(_levels(marks), 0.0, float(marks["high"].max()) * 1.12 or 1.0)


def _levels(marks: pd.DataFrame) -> tuple[int, ...]:
    return tuple(int(level) for level in sorted(marks["concurrency"].unique()))


def shown_statistic(metric: Metric, statistic: str) -> str:
    """The chosen statistic where the metric has a distribution, else its mean."""
    return statistic if METRICS[metric.key].distribution else "mean"
