"""From a comparison to the small frames that charts draw: a panel per setting, a row per mark.

A panel is a setting of ``Comparison``; in its name stand dataset and tensor parallel size, and
whatever else differs between the settings on the page.
"""

from collections.abc import Callable
from typing import Any

import pandas as pd

from analysis.frames import records
from analysis.significance.comparison import SETTING, Comparison
from analysis.significance.confidence import SERIES, Confidence
from analysis.significance.evidence_tables import interval_text
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

#: Drawn only when asked for: not in every warehouse, or neither direction is better.
MORE: tuple[str, ...] = (
    "request_throughput",
    "chunk_gap",
    "achieved_concurrency",
    "prompt_tokens",
    "output_tokens",
)

#: What always stands in a panel's name, and what may tell panels apart besides; a study says least.
_ALWAYS = ["dataset", "tensor_parallel_size"]
_TOLD = [*(n for n in SETTING if n not in (*_ALWAYS, "evidence", "study")), "study"]
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
    parts += [settings[name].map(_WORDS.get(name, _text)) for name in _telling(settings)]
    return _distinct(pd.Series([" · ".join(words) for words in zip(*parts, strict=True)],
                               index=settings.index, dtype=object))  # fmt: skip


def _telling(settings: pd.DataFrame) -> list[str]:
    """What tells settings apart that the words before it leave alike: a revision that goes with its
    model goes without saying, and so does a GPU per rank."""
    told: list[str] = []
    for name in _TOLD:
        if name in settings and _apart(settings, [*told, name]) > _apart(settings, told):
            told.append(name)
    return told


def _apart(settings: pd.DataFrame, told: list[str]) -> int:
    """How many settings differ in dataset, TP and ``told``."""
    return len(settings[[*_ALWAYS, *told]].drop_duplicates())


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


def _tensor_parallel(size: object) -> str:
    return f"TP {_text(size)}"


def _gpus(count: object) -> str:
    return f"{_text(count)} GPUs"


def _text(value: object) -> str:
    if pd.isna(value):  # type: ignore[call-overload]
        return "unknown"
    text = f"{value:g}" if isinstance(value, float) else str(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


#: Values that say nothing without a word beside them.
_WORDS: dict[str, Callable[[object], str]] = {"gpu_count": _gpus}


def charted(rows: pd.DataFrame, statistic: str, metrics: tuple[str, ...] = CHARTED) -> pd.DataFrame:
    """The rows of charted metrics, at the statistic that each metric is shown with."""
    shown = {key: shown_statistic(METRICS[key], statistic) for key in metrics}
    # As text: categories of two columns cannot be compared.
    wanted = rows["metric"].astype(str).map(shown) == rows["statistic"].astype(str)
    return rows[wanted & rows["baseline"].notna() & rows["speculative"].notna()]


def level_rows(
    found: Comparison, sure: Confidence, statistic: str, metrics: tuple[str, ...] = CHARTED
) -> pd.DataFrame:
    """One row per setting, arm, concurrency and charted metric.

    ``baseline``, ``speculative`` and ``improvement`` are the comparison's own means. ``_low`` and
    ``_high`` of the first two are the extremes of the repeats, of the improvement its interval
    (NaN for none), whose ``verdict`` and ``covers`` are those of ``sure``. ``pairs`` counts the
    repeats; ``baseline_cell`` and ``speculative_cell`` name one cell each.
    """
    kinds = ("baseline", "speculative")
    grouped = charted(found.pairs, statistic, metrics).groupby(_LEVEL)
    ends = {f"{kind}_{end}": (kind, how) for kind in kinds for end, how in _ENDS.items()}
    cells = {f"{kind}_cell": (f"{kind}_id", "first") for kind in kinds}
    rows = charted(found.levels, statistic, metrics).join(grouped.agg(**ends, **cells), on=_LEVEL)
    rows = rows.dropna(subset="concurrency").merge(_intervals(sure), on=_INTERVAL, how="left")
    return rows.join(places(found), on=_PLACE).reset_index(drop=True)


_ENDS = {"low": "min", "high": "max"}
_INTERVAL = [*SERIES, "concurrency"]


def _intervals(sure: Confidence) -> pd.DataFrame:
    told = sure.levels[[*_INTERVAL, "low", "high", "verdict", "covers"]]
    return told.rename(columns={"low": "improvement_low", "high": "improvement_high"})


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
    known = rows[rows["improvement"].notna()]
    marks = _marks(known, "improvement", [_interval(row) for row in records(known)])
    return _with_ends(marks, lambda row: f"{row.arm} {row.value * 100:+.1f} %")


def _interval(row: dict[str, Any]) -> str:
    """What a tooltip says of how sure an improvement is."""
    text = interval_text(row["improvement_low"], row["improvement_high"])
    if not text:
        return "none: one repeat" if isinstance(row["covers"], str) else "not calculated"
    if row["covers"] == "sampling":
        return f"{text}, sampling of requests only"
    return f"{text}: {row['verdict']}"


def values(rows: pd.DataFrame, metric: Metric, reference: str = "baseline") -> pd.DataFrame:
    """Level rows of one metric -> one mark per panel, arm (``reference`` too) and concurrency.

    Arms may have different repeats of the reference: the one with most is drawn.
    """
    baseline = rows.sort_values("pairs", ascending=False, kind="stable").assign(arm=reference)
    baseline = baseline.drop_duplicates(["panel", "concurrency"])
    both = pd.concat([_values(baseline, "baseline", metric), _values(rows, "speculative", metric)])
    number = f",.{metric.decimals}f"
    return _with_ends(both.reset_index(drop=True), lambda row: f"{row.arm} {row.value:{number}}")


def _values(rows: pd.DataFrame, kind: str, metric: Metric) -> pd.DataFrame:
    ends = zip(rows[f"{kind}_low"], rows[f"{kind}_high"], strict=True)
    number = f",.{metric.decimals}f"
    return _marks(rows, kind, [f"repeats {low:{number}} to {high:{number}}" for low, high in ends])


def _marks(rows: pd.DataFrame, kind: str, intervals: list[str]) -> pd.DataFrame:
    """Value with its interval (also in words) and its cell; a single repeat is not solid."""
    cell = "baseline_cell" if kind == "baseline" else "speculative_cell"
    marks = rows[["panel", "arm", "concurrency"]].assign(
        concurrency=rows["concurrency"].astype(int), value=rows[kind],
        low=rows[f"{kind}_low"], high=rows[f"{kind}_high"], repeats=rows["pairs"],
        solid=(rows["pairs"] > 1).astype(int), interval=intervals, cell=rows[cell],
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
    ends = marks[["value", "low", "high"]]
    low, high = min(ends.min().min(), 0.0), max(ends.max().max(), 0.0)
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
