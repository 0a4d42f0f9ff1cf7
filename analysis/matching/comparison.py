"""Baseline against speculative: values of matched pairs, means over repeats and over the load.

A setting is everything that a pair shares except the load, prompts and seed: the prompts of each
level are a set of their own, and a study may change the seed with the repeat. Means are geometric,
first over the repeats of a level, then over the levels that both arms have.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from functools import cache
from math import exp, log
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from analysis.flags.lints_across import pair_flags
from analysis.frames import declared, listed, numbered, objects
from analysis.matching.fields import ARM, MATCH_FIELDS, filled, numbered_loads
from analysis.matching.pairing import match
from warehouse.catalogue import METRICS, Better
from warehouse.loads import Load

# --- The one definition of improvement, and the mean that suits ratios.


def improvements(baseline: ArrayLike, new: ArrayLike, better: ArrayLike) -> NDArray[np.float64]:
    """Return how much better each ``new`` is, as a ratio; positive is better, always.

    Higher is better: new / baseline - 1. Lower is better: 1 - new / baseline. NaN where neither
    direction is better, or where the baseline is not above zero. ``better``: words of the
    catalogue, one for all or one for each.
    """
    known = np.asarray(baseline, dtype=np.float64)
    ratio = np.asarray(new, dtype=np.float64) / np.where(known > 0, known, np.nan)
    direction: NDArray[Any] = np.asarray(better, dtype=object)
    signed = np.where(direction == "lower", 1 - ratio, np.nan)
    return np.where(direction == "higher", ratio - 1, signed)


def improvement(baseline: float, new: float, better: Better) -> float | None:
    """Return how much better ``new`` is, as ``improvements``; None where that says NaN."""
    found = float(improvements(baseline, new, better))
    return None if np.isnan(found) else found


def geometric_mean(values: Iterable[float]) -> float | None:
    """Return exp(mean(log(values))); None for no values or where one is not above zero."""
    given = list(values)
    if not given or not all(value > 0 for value in given):
        return None
    return exp(sum(map(log, given)) / len(given))


# --- Baseline against speculative: values of matched pairs, means over repeats and over the load.


#: The lines of the table that the published study prints.
STUDY_TABLE: tuple[tuple[str, str], ...] = (
    ("output_throughput", "mean"), ("total_throughput", "mean"), ("ttft", "p95"),
    ("tpot", "p95"), ("itl", "p95"), ("request_latency", "p50"),
)  # fmt: skip

#: What differs between the loads and repeats of one setting.
_OF_LEVEL = ("load", "prompt_set_hash", "seed")
#: What tells one setting from another, beside the arm.
SETTING: tuple[str, ...] = (
    "study",
    *(name for name in MATCH_FIELDS if name not in _OF_LEVEL),
)
_BY = ["setting", "arm_id"]
_ARMS = ("baseline", "speculative")
_IDS = ("baseline_id", "speculative_id")
#: Where a cell has no value; below the code of a definition that is not known.
_MISSING = -2
#: A few words in many rows, kept as numbers in the order of their letters.
_FEW = dict.fromkeys(("origin", "metric", "statistic"), "category")


@dataclass(frozen=True)
class Comparison:
    """The matched pairs of whole studies and their means, as FRAMES declares them. ``pairs``: a row
    per pair, metric and statistic; ``load`` is a place in ``loads``, -1 for an unknown one.
    ``levels``: a row per setting, arm, load, metric and statistic, ``pairs`` counting the repeats.
    ``geomean``: a row per setting, arm, metric and statistic, with ``loads`` (names of those of both
    arms), ``only_baseline`` and ``only_speculative`` (of one arm alone). ``unmatched``: the cells
    without a pair. ``keys``: the fields of each (setting, arm_id)."""

    pairs: pd.DataFrame
    levels: pd.DataFrame
    geomean: pd.DataFrame
    unmatched: pd.DataFrame
    keys: pd.DataFrame
    loads: tuple[Load, ...] = ()


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
    loads, load = numbered_loads(cells)
    placed = _place(filled(cells)).assign(load=load)
    pairs = found.pairs.join(placed, on="speculative_id")
    long, refused = _values(pairs, cells, measurements)
    doubts = objects(pair_flags(pairs, long, refused, flags), pairs.index)
    pairs = pairs.assign(flags=doubts)
    long = long.assign(flags=doubts.to_numpy()[long.pop("pair").to_numpy()])
    levels = _means(long, [*_BY, "load", "concurrency", "metric", "statistic"], "pairs")
    lonely = pairs[~pairs["speculative_id"].isin(long["speculative_id"].unique())]
    reasons = [
        next((f.sentence for f in flags if f.name == "definition_differs"), "no metric in common")
        for flags in lonely["flags"]
    ]
    alone = pd.DataFrame({"cell_id": lonely["speculative_id"], "reason": reasons}, dtype="str")
    unmatched = pd.concat([found.unmatched, alone], ignore_index=True)
    return Comparison(
        declared("pairs", long), declared("levels", levels),
        declared("geometric means", _geomean(levels, cells, placed, loads)),
        declared("unmatched", unmatched), _keys(cells, placed), loads,
    )  # fmt: skip


def settings_of(cells: pd.DataFrame) -> tuple[pd.Series, pd.DataFrame]:
    """Return the setting of each cell, by its id, and ``Comparison.keys``, without comparing."""
    cells = cells.reset_index(drop=True)
    placed = _place(filled(cells))
    return placed["setting"], _keys(cells, placed)


def _place(cells: pd.DataFrame) -> pd.DataFrame:
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
    """Return the pairs' values side by side (``pair``: the pair's row), and the values that may not
    be compared, since their definitions differ."""
    # A row per cell and a column per metric and statistic, so that pairs find both values by their
    # place: joining tables on names costs many times more. A cell has at most one value of a line.
    ids = pd.Index(cells["cell_id"])
    row = ids.get_indexer(measurements["cell_id"])
    rows, row = measurements[row >= 0], row[row >= 0]
    column = numbered(rows, ("metric", "statistic"))
    named = rows[["metric", "statistic"]].assign(column=column).drop_duplicates("column")
    named = named.sort_values("column", ignore_index=True).drop(columns="column")
    definitions, reported = pd.factorize(cells["reported_definition"])
    every = list(pd.Index([*reported, "canonical"]).drop_duplicates())
    shape = (len(ids), len(named))
    values, meanings = np.full(shape, np.nan), np.full(shape, _MISSING)
    values[row, column] = rows["value"].to_numpy(dtype=np.float64)
    recomputed = (rows["origin"] == "canonical").to_numpy()
    meanings[row, column] = np.where(recomputed, every.index("canonical"), definitions[row])
    origin = np.zeros(shape, dtype=np.int64)
    origin[row, column], origins = pd.factorize(rows["origin"])

    one, other = (ids.get_indexer(pd.Index(pairs[f"{arm}_id"])) for arm in _ARMS)
    pair, line = np.nonzero((meanings[one] != _MISSING) & (meanings[other] != _MISSING))
    before, after = meanings[one[pair], line], meanings[other[pair], line]
    words = np.array([*every, None], dtype=object)
    same = (before == after) & (before >= 0) & (words[before] != "unknown")
    lines = named.iloc[line].reset_index(drop=True)
    refused = pd.DataFrame(
        {
            "speculative_id": pairs["speculative_id"].to_numpy()[pair], "metric": lines["metric"],
            "means": words[before], "means_s": words[after],
        }
    )[~same]  # fmt: skip
    pair, line, lines = pair[same], line[same], lines[same].reset_index(drop=True)
    # Each of these names stands in as many rows as there are lines: they are kept as numbers.
    facts = pairs.drop(columns="flags").astype(dict.fromkeys(_IDS, "category"))
    kept = (
        facts.iloc[pair]
        .reset_index(drop=True)
        .assign(
            pair=pair,
            origin=origins[origin[one[pair], line]],
            metric=lines["metric"],
            statistic=lines["statistic"],
            baseline=values[one[pair], line],
            speculative=values[other[pair], line],
        )
    )
    return kept.assign(improvement=_improvements(kept)).astype(_FEW), refused


def _improvements(rows: pd.DataFrame) -> np.ndarray[Any, Any]:
    better = rows["metric"].map({key: metric.better for key, metric in METRICS.items()})
    return improvements(rows["baseline"], rows["speculative"], better)


def _geomean(
    levels: pd.DataFrame, cells: pd.DataFrame, placed: pd.DataFrame, loads: tuple[Load, ...]
) -> pd.DataFrame:
    """Return geometric means over the loads that both arms have, and which loads those are."""
    table = _means(levels, [*_BY, "metric", "statistic"], "levels")
    good = placed[(cells["status"] == "good").to_numpy()] if "status" in cells else placed
    is_baseline = (cells.set_index("cell_id")["spec_method"] == "none").reindex(good.index)
    baseline = good[is_baseline].groupby("setting")["load"].agg(frozenset).to_dict()
    speculative = good[~is_baseline].groupby(_BY)["load"].agg(frozenset).to_dict()
    # An arm may lack a metric at some of its loads.
    names = [*_BY, "metric", "statistic"]
    own: dict[tuple[Any, ...], set[int]] = {}
    for *key, load in listed(levels, *names, "load"):
        own.setdefault(tuple(key), set()).add(load)
    shared = [frozenset(own[key]) for key in listed(table, *names)]
    keys = list(zip(table["setting"], table["arm_id"], shared, strict=True))
    empty: frozenset[int] = frozenset()

    # Most series have the loads of many others.
    @cache
    def called(places: frozenset[int]) -> tuple[str, ...]:
        return tuple(loads[place].short for place in sorted(places) if place >= 0)

    def column(sets: Iterable[frozenset[int]]) -> pd.Series:
        return objects([called(places) for places in sets], table.index)

    return table.assign(
        loads=column(shared),
        only_baseline=column(baseline.get(setting, empty) - both for setting, _, both in keys),
        only_speculative=column(
            speculative.get((setting, arm), empty) - both for setting, arm, both in keys
        ),
    )


def _means(rows: pd.DataFrame, by: list[str], count: str) -> pd.DataFrame:
    """Return geometric means of both arms by ``by``; NaN where a value is not above zero."""
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
    names = [name for name in (*SETTING, *ARM) if name in cells]
    facts = cells[names].set_index(pd.MultiIndex.from_frame(placed[_BY]))
    return facts[~facts.index.duplicated()]
