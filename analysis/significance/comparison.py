"""Baseline against speculative: values of matched pairs, means over repeats and over the load.

A setting is everything that a pair shares except concurrency, prompts and seed: the prompts of each
level are a set of their own, and a study may change the seed with the repeat. Means are geometric,
first over the repeats of a level, then over the levels that both arms have.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from analysis.flags.pair_flags import pair_flags
from analysis.frames import numbered, objects
from analysis.matching.pairing import MATCH_FIELDS, match
from analysis.significance.improvement import improvements
from warehouse.catalogue import METRICS

#: The lines of the table that the published study prints.
STUDY_TABLE: tuple[tuple[str, str], ...] = (
    ("output_throughput", "mean"), ("total_throughput", "mean"), ("ttft", "p95"),
    ("tpot", "p95"), ("itl", "p95"), ("request_latency", "p50"),
)  # fmt: skip

#: What a comparison reads: the table's metrics, and the output lengths that its flags judge.
METRICS_READ: tuple[str, ...] = (
    *dict.fromkeys(metric for metric, _ in STUDY_TABLE),
    "output_tokens",
)
STATISTICS_READ: tuple[str, ...] = tuple(dict.fromkeys(statistic for _, statistic in STUDY_TABLE))

#: What tells one setting from another, beside the arm.
SETTING: tuple[str, ...] = (
    "study",
    *(name for name in MATCH_FIELDS if name not in {"concurrency", "prompt_set_hash", "seed"}),
)
#: What tells one arm from another.
ARM: tuple[str, ...] = ("arm_label", "draft_model", "draft_revision", "speculative_config")
_BY = ["setting", "arm_id"]


@dataclass(frozen=True)
class Comparison:
    """``pairs``: a row per pair, metric and statistic (baseline_id, speculative_id, allowed, flags,
    setting, arm_id, concurrency, repeat, metric, statistic, origin, baseline, speculative,
    improvement).
    ``levels``: a row per setting, arm, concurrency, metric and statistic, ``pairs`` counting the
    repeats. ``geomean``: a row per setting, arm, metric and statistic, with ``concurrencies`` (both
    arms), ``only_baseline`` and ``only_speculative`` (one arm alone).
    ``unmatched``: cell_id, reason. ``keys``: the fields of each (setting, arm_id)."""

    pairs: pd.DataFrame
    levels: pd.DataFrame
    geomean: pd.DataFrame
    unmatched: pd.DataFrame
    keys: pd.DataFrame


def compare(
    cells: pd.DataFrame,
    measurements: pd.DataFrame,
    allow: Collection[str] = (),
    flags: pd.DataFrame | None = None,
) -> Comparison:
    """Compare every speculative cell with its baseline.

    ``cells`` as the query of that name returns them, ``measurements``: cell_id, origin, metric,
    statistic, value, ``flags``: cell_id, name, sentence, severity. A metric is compared where both
    cells have it in one definition: recomputed from requests, or reported by generators that mean
    the same by it; else the pair is flagged. Raises UnknownKey for an unknown field in ``allow``.
    """
    cells = cells.reset_index(drop=True)
    found = match(cells, allow)
    placed = _place(cells)
    pairs = found.pairs.join(placed, on="speculative_id")
    long, refused = _values(pairs, cells, measurements)
    pairs = pairs.assign(flags=objects(pair_flags(pairs, long, refused, flags), pairs.index))
    long = long.drop(columns="flags").join(
        pairs.set_index("speculative_id")["flags"], on="speculative_id"
    )
    levels = _levels(long)
    unmatched = pd.concat([found.unmatched, _empty_handed(pairs, long)], ignore_index=True)
    return Comparison(
        long, levels, _geomean(levels, cells, placed), unmatched, _keys(cells, placed)
    )


def _empty_handed(pairs: pd.DataFrame, long: pd.DataFrame) -> pd.DataFrame:
    """Speculative cells that have a partner but no metric in common with it, and why."""
    lonely = pairs[~pairs["speculative_id"].isin(long["speculative_id"].unique())]
    reasons = [
        next((f.sentence for f in flags if f.name == "definition_differs"), "no metric in common")
        for flags in lonely["flags"]
    ]
    return pd.DataFrame({"cell_id": lonely["speculative_id"], "reason": reasons}, dtype="str")


def _place(cells: pd.DataFrame) -> pd.DataFrame:
    """Index cell_id; a cell's setting and arm, as numbers, its concurrency and its repeat."""
    unknown = np.full(len(cells), np.nan)
    return pd.DataFrame(
        {
            "setting": numbered(cells, SETTING),
            "arm_id": numbered(cells, ARM),
            "concurrency": cells["concurrency"].to_numpy(),
            "repeat": cells["repeat"].to_numpy() if "repeat" in cells else unknown,
        },
        index=pd.Index(cells["cell_id"], name="cell_id"),
    )


def _values(
    pairs: pd.DataFrame, cells: pd.DataFrame, measurements: pd.DataFrame
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The pairs' values side by side, and those that may not stand side by side."""
    definitions = dict(zip(cells["cell_id"], cells["reported_definition"], strict=True))
    defined = measurements.assign(means=measurements["cell_id"].map(definitions))
    defined["means"] = defined["means"].where(defined["origin"] != "canonical", "canonical")
    one = defined.rename(columns={"cell_id": "baseline_id", "value": "baseline"})
    other = defined.rename(columns={"cell_id": "speculative_id", "value": "speculative"})
    on = ["speculative_id", "metric", "statistic"]
    both = pairs.merge(one, on="baseline_id").merge(other, on=on, suffixes=("", "_s"))
    same = (both["means"] == both["means_s"]) & (both["means"] != "unknown")
    kept = both[same].drop(columns=["means", "means_s", "origin_s"])
    return kept.assign(improvement=_improvements(kept)).reset_index(drop=True), both[~same]


def _improvements(rows: pd.DataFrame) -> np.ndarray[Any, Any]:
    better = rows["metric"].map({key: metric.better for key, metric in METRICS.items()})
    return improvements(rows["baseline"], rows["speculative"], better)


def _levels(long: pd.DataFrame) -> pd.DataFrame:
    """Geometric means over the repeats of each level."""
    by = [*_BY, "concurrency", "metric", "statistic"]
    return _means(long, by, "pairs")


def _geomean(levels: pd.DataFrame, cells: pd.DataFrame, placed: pd.DataFrame) -> pd.DataFrame:
    """Geometric means over the levels that both arms have, and which levels those are."""
    table = _means(levels, [*_BY, "metric", "statistic"], "levels")
    good = placed[(cells["status"] == "good").to_numpy()] if "status" in cells else placed
    is_baseline = (cells.set_index("cell_id")["spec_method"] == "none").reindex(good.index)
    baseline = good[is_baseline].groupby("setting")["concurrency"].agg(_level_set).to_dict()
    speculative = good[~is_baseline].groupby(_BY)["concurrency"].agg(_level_set).to_dict()
    shared = _shared_levels(levels, table)
    keys = list(zip(table["setting"], table["arm_id"], shared, strict=True))
    empty: set[int] = set()

    def tuples(sets: Iterable[set[Any]]) -> pd.Series:
        return objects([_sorted(levels) for levels in sets], table.index)

    return table.assign(
        concurrencies=tuples(shared),
        only_baseline=tuples(baseline.get(setting, empty) - both for setting, _, both in keys),
        only_speculative=tuples(
            speculative.get((setting, arm), empty) - both for setting, arm, both in keys
        ),
    )


def _shared_levels(levels: pd.DataFrame, table: pd.DataFrame) -> list[set[Any]]:
    """The levels behind each row of ``table``: a metric may be missing at some of an arm's."""
    of_arm = levels.groupby(_BY)["concurrency"].agg(set).to_dict()
    rows = table[[*_BY, "metric", "statistic", "levels"]].itertuples(index=False, name=None)
    own = levels.set_index([*_BY, "metric", "statistic"])["concurrency"].sort_index()
    found = []
    for setting, arm, metric, statistic, count in rows:
        known = of_arm[setting, arm]
        complete = len(known) == count
        found.append(known if complete else set(own.loc[[(setting, arm, metric, statistic)]]))
    return found


def _level_set(levels: pd.Series) -> set[Any]:
    return set(levels.dropna())


def _sorted(levels: set[Any]) -> tuple[int, ...]:
    return tuple(sorted(int(level) for level in levels if not pd.isna(level)))


def _means(rows: pd.DataFrame, by: list[str], count: str) -> pd.DataFrame:
    """Geometric means of both arms by ``by``; NaN where a value is not above zero."""
    logs = rows.assign(
        **{arm: np.log(rows[arm].where(rows[arm] > 0)) for arm in ("baseline", "speculative")}
    )
    grouped = logs.groupby(by, dropna=False, sort=True)
    # skipna would quietly average over fewer levels than the table says.
    complete = grouped[["baseline", "speculative"]].count().eq(grouped.size(), axis=0)
    means = grouped[["baseline", "speculative"]].mean().where(complete).apply(np.exp)
    table: pd.DataFrame = means.assign(**{count: grouped.size()}).reset_index()
    return table.assign(improvement=_improvements(table))


def _keys(cells: pd.DataFrame, placed: pd.DataFrame) -> pd.DataFrame:
    """Index (setting, arm_id); the fields behind the numbers."""
    names = [name for name in (*SETTING, *ARM) if name in cells]
    told = cells[names].set_index(pd.MultiIndex.from_frame(placed[_BY]))
    return told[~told.index.duplicated()]


def in_study_order(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows (metric, statistic, …) that are lines of the study's table, ``line`` numbering them."""
    lines = {line: place for place, line in enumerate(STUDY_TABLE)}
    keys = pd.Series(list(zip(rows["metric"], rows["statistic"], strict=True)), index=rows.index)
    return rows.assign(line=keys.map(lines)).dropna(subset="line")
