"""From a comparison to the small frames that charts draw: a panel per setting, a row per mark.

A panel is a setting of ``Comparison``; in its name stand dataset and tensor parallel size, and
whatever else differs between the settings on the page.
"""

from collections.abc import Callable
from typing import Any

import pandas as pd

from analysis.comparison import SETTING, Comparison
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

#: What may tell panels apart, beside dataset and TP, which always stand in the name.
_TOLD = [name for name in SETTING if name not in ("dataset", "tensor_parallel_size", "evidence")]
_BADGES = {
    "cpu": "CPU lab",
    "mock": "mock",
    "dummy_weights": "dummy weights",
    "simulated": "simulated",
}
#: A longer value, e.g. server arguments, is cut in a panel's name.
_LONGEST = 40
_PLACE = ["setting", "arm_id"]
_LEVEL = [*_PLACE, "concurrency", "metric"]


def badge(evidence: object) -> str:
    """What a reader must know about the origin of numbers: empty for a real GPU run."""
    if evidence == "gpu":
        return ""
    return _BADGES.get(str(evidence), "evidence unknown")


def places(found: Comparison) -> pd.DataFrame:
    """Index (setting, arm_id) of what was compared -> panel, badge, arm."""
    compared = found.keys[found.keys.index.isin(pd.MultiIndex.from_frame(found.geomean[_PLACE]))]
    settings = compared[~compared.index.get_level_values("setting").duplicated()].droplevel(1)
    arms = compared[~compared.index.get_level_values("arm_id").duplicated()].droplevel(0)
    panel, arm = _panel_names(settings), _arm_names(arms)
    return pd.DataFrame(
        {
            "panel": panel.reindex(compared.index.get_level_values("setting")).to_numpy(),
            "badge": [badge(evidence) for evidence in compared["evidence"]],
            "arm": arm.reindex(compared.index.get_level_values("arm_id")).to_numpy(),
        },
        index=compared.index,
    )


def _panel_names(settings: pd.DataFrame) -> pd.Series:
    parts = [settings["dataset"].map(_text), settings["tensor_parallel_size"].map(_tensor_parallel)]
    parts += [settings[name].map(_text) for name in _TOLD if _varies(settings, name)]
    return _distinct(pd.Series([" · ".join(words) for words in zip(*parts, strict=True)],
                               index=settings.index, dtype=object))  # fmt: skip


def _arm_names(arms: pd.DataFrame) -> pd.Series:
    """Two drafts with one label get the draft's name appended."""
    twice = arms["arm_label"].duplicated(keep=False)
    names = [
        f"{row.arm_label} ({_text(row.draft_model)})" if same else row.arm_label
        for row, same in zip(arms.itertuples(), twice, strict=True)
    ]
    return _distinct(pd.Series(names, index=arms.index, dtype=object))


def _distinct(names: pd.Series) -> pd.Series:
    """Names that are the same after all are numbered: two things are never drawn as one."""
    number = names.groupby(names).cumcount() + 1
    return names.where(number == 1, names + " (" + number.astype(str) + ")")


def _varies(rows: pd.DataFrame, name: str) -> bool:
    return name in rows and rows[name].nunique(dropna=False) > 1


def _tensor_parallel(size: object) -> str:
    return f"TP {_text(size)}"


def _text(value: object) -> str:
    if pd.isna(value):  # type: ignore[call-overload]
        return "unknown"
    text = f"{value:g}" if isinstance(value, float) else str(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def charted(rows: pd.DataFrame, statistic: str) -> pd.DataFrame:
    """The rows of charted metrics, at the statistic that each metric is shown with."""
    shown = {key: shown_statistic(METRICS[key], statistic) for key in CHARTED}
    wanted = rows["metric"].map(shown) == rows["statistic"]
    return rows[wanted & rows["improvement"].notna()]


def level_rows(found: Comparison, statistic: str) -> pd.DataFrame:
    """One row per setting, arm, concurrency and charted metric, with the extremes of the repeats.

    ``baseline``, ``speculative`` and ``improvement`` are the comparison's own means; each has
    ``_low`` and ``_high`` from the pairs. ``pairs`` counts the repeats.
    """
    kinds = ["baseline", "speculative", "improvement"]
    spread = charted(found.pairs, statistic).groupby(_LEVEL)[kinds].agg(["min", "max"])
    spread.columns = pd.Index([f"{kind}_{end}" for kind in kinds for end in ("low", "high")])
    rows = charted(found.levels, statistic).join(spread, on=_LEVEL)
    rows = rows.dropna(subset="concurrency")
    return rows.join(places(found), on=_PLACE).reset_index(drop=True)


def titles(rows: pd.DataFrame) -> dict[str, str]:
    """Panel -> its title with badges, panels with most levels first."""
    order = rows["panel"].value_counts().index
    badges = rows.groupby("panel")["badge"].unique()
    return {
        name: name + "".join(f"  [{text}]" for text in sorted(badges[name]) if text)
        for name in order
    }


def improvements(rows: pd.DataFrame) -> pd.DataFrame:
    """Level rows of one metric -> one mark per panel, arm and concurrency."""
    return _with_ends(
        _marks(rows, "improvement"), lambda row: f"{row.arm} {row.value * 100:+.1f} %"
    )


def values(rows: pd.DataFrame, metric: Metric) -> pd.DataFrame:
    """Level rows of one metric -> one mark per panel, arm (baseline too) and concurrency.

    Arms may have different repeats of the baseline: the one with most is drawn.
    """
    baseline = rows.sort_values("pairs", ascending=False, kind="stable").assign(arm="baseline")
    baseline = baseline.drop_duplicates(["panel", "concurrency"])
    both = pd.concat([_marks(baseline, "baseline"), _marks(rows, "speculative")])
    number = f",.{metric.decimals}f"
    return _with_ends(both.reset_index(drop=True), lambda row: f"{row.arm} {row.value:{number}}")


def _marks(rows: pd.DataFrame, kind: str) -> pd.DataFrame:
    """Value with its extremes over repeats; a single repeat is not solid."""
    marks = rows[["panel", "arm", "concurrency"]].assign(
        concurrency=rows["concurrency"].astype(int), value=rows[kind],
        low=rows[f"{kind}_low"], high=rows[f"{kind}_high"], repeats=rows["pairs"],
        solid=(rows["pairs"] > 1).astype(int),
    )  # fmt: skip
    ordered: pd.DataFrame = marks.sort_values(["panel", "arm", "concurrency"])
    return ordered.reset_index(drop=True)


def _with_ends(marks: pd.DataFrame, label: Callable[[Any], str]) -> pd.DataFrame:
    last = marks.groupby(["panel", "arm"])["concurrency"].transform("max")
    at_end = marks["concurrency"] == last
    texts = [label(row) if end else "" for row, end in zip(marks.itertuples(), at_end, strict=True)]
    return marks.assign(end_label=texts, end_y=marks["value"])


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
