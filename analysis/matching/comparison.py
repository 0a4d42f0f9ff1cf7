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
from analysis.frames import numbered, objects
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


# --- Measurements as arrays, a row per cell and a column per metric and statistic.
#
# Pairs find both values by their place: joining tables on names costs many times more.


#: Where a cell has no value; below the code of a definition that is not known.
MISSING = -2


@dataclass(frozen=True)
class Grid:
    """Measurements as arrays (cells, lines): ``values``; ``means``, what their definition is in
    ``words`` (-1: not known); ``origin``, whose name is in ``origins``. ``lines``: metric and
    statistic."""

    cells: "pd.Index[Any]"
    lines: pd.DataFrame
    values: NDArray[np.float64]
    means: NDArray[np.int64]
    words: NDArray[Any]
    origin: NDArray[np.int64]
    origins: "pd.Index[Any]"


def grid(cells: pd.DataFrame, measurements: pd.DataFrame) -> Grid:
    """Arrange the measurements as arrays. A cell has at most one value of a line. ``cells`` and
    ``measurements`` as ``compare`` takes them; values of other cells are left out."""
    ids = pd.Index(cells["cell_id"])
    row = ids.get_indexer(measurements["cell_id"])
    rows = measurements[row >= 0]
    row = row[row >= 0]
    line = numbered(rows, ("metric", "statistic"))
    lines = rows[["metric", "statistic"]].assign(line=line).drop_duplicates("line")
    lines = lines.sort_values("line", ignore_index=True).drop(columns="line")
    definitions, words = pd.factorize(cells["reported_definition"])
    every = pd.Index([*words, "canonical"]).drop_duplicates()
    origin, origins = pd.factorize(rows["origin"])
    canonical = list(every).index("canonical")
    means = np.where((rows["origin"] == "canonical").to_numpy(), canonical, definitions[row])
    shape = (len(ids), len(lines))
    made = Grid(
        ids, lines, np.full(shape, np.nan), np.full(shape, MISSING),
        np.array([*every, None], dtype=object), np.zeros(shape, dtype=np.int64), origins,
    )  # fmt: skip
    made.values[row, line] = rows["value"].to_numpy(dtype=np.float64)
    made.means[row, line], made.origin[row, line] = means, origin
    return made


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
#: A few words in many rows, kept as numbers in the order of their letters.
_FEW = dict.fromkeys(("origin", "metric", "statistic"), "category")


@dataclass(frozen=True)
class Comparison:
    """The matched pairs of whole studies and their means. ``pairs``: a row per pair, metric and
    statistic (baseline_id, speculative_id, allowed, flags, setting, arm_id, load, concurrency,
    repeat, metric, statistic, origin, baseline, speculative, improvement). ``load`` is a place in
    ``loads``, -1 for an unknown one. ``levels``: a row per setting, arm, load, metric and
    statistic, ``pairs`` counting the repeats. ``geomean``: a row per setting, arm, metric and
    statistic, with ``loads`` (names of those of both arms), ``only_baseline`` and
    ``only_speculative`` (of one arm alone). ``unmatched``: cell_id, reason. ``keys``: the fields of
    each (setting, arm_id)."""

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
    told = objects(pair_flags(pairs, long, refused, flags), pairs.index)
    pairs = pairs.assign(flags=told)
    long = long.assign(flags=told.to_numpy()[long.pop("pair").to_numpy()])
    levels = _levels(long)
    unmatched = pd.concat([found.unmatched, _empty_handed(pairs, long)], ignore_index=True)
    return Comparison(
        long, levels, _geomean(levels, cells, placed, loads), unmatched, _keys(cells, placed), loads
    )


def settings_of(cells: pd.DataFrame) -> tuple[pd.Series, pd.DataFrame]:
    """Return the setting of each cell, by its id, and ``Comparison.keys``, without comparing."""
    cells = cells.reset_index(drop=True)
    placed = _place(filled(cells))
    return placed["setting"], _keys(cells, placed)


def _empty_handed(pairs: pd.DataFrame, long: pd.DataFrame) -> pd.DataFrame:
    """Return the speculative cells that have a partner but no metric in common with it, and why."""
    lonely = pairs[~pairs["speculative_id"].isin(long["speculative_id"].unique())]
    reasons = [
        next((f.sentence for f in flags if f.name == "definition_differs"), "no metric in common")
        for flags in lonely["flags"]
    ]
    return pd.DataFrame({"cell_id": lonely["speculative_id"], "reason": reasons}, dtype="str")


def _place(cells: pd.DataFrame) -> pd.DataFrame:
    """Return by cell_id a cell's setting and arm, as numbers, its concurrency and its repeat."""
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
    known = grid(cells, measurements)
    one, other = (known.cells.get_indexer(pd.Index(pairs[f"{arm}_id"])) for arm in _ARMS)
    there = (known.means[one] != MISSING) & (known.means[other] != MISSING)
    pair, line = np.nonzero(there)
    means = [known.means[row[pair], line] for row in (one, other)]
    same = (means[0] == means[1]) & (means[0] >= 0) & (known.words[means[0]] != "unknown")
    lines = known.lines.iloc[line].reset_index(drop=True)
    refused = pd.DataFrame(
        {
            "speculative_id": pairs["speculative_id"].to_numpy()[pair], "metric": lines["metric"],
            "means": known.words[means[0]], "means_s": known.words[means[1]],
        }
    )[~same]  # fmt: skip
    pair, line = pair[same], line[same]
    # Each of these names stands in as many rows as there are lines: they are kept as numbers.
    named = pairs.drop(columns="flags").astype(dict.fromkeys(_IDS, "category"))
    kept = named.iloc[pair].reset_index(drop=True)
    kept = kept.assign(
        pair=pair,
        origin=known.origins[known.origin[one[pair], line]],
        **{str(name): values for name, values in lines[same].reset_index(drop=True).items()},
        baseline=known.values[one[pair], line],
        speculative=known.values[other[pair], line],
    )
    return kept.assign(improvement=_improvements(kept)).astype(_FEW), refused


def _improvements(rows: pd.DataFrame) -> np.ndarray[Any, Any]:
    better = rows["metric"].map({key: metric.better for key, metric in METRICS.items()})
    return improvements(rows["baseline"], rows["speculative"], better)


def _levels(long: pd.DataFrame) -> pd.DataFrame:
    """Return geometric means over the repeats of each level."""
    by = [*_BY, "load", "concurrency", "metric", "statistic"]
    return _means(long, by, "pairs")


def _geomean(
    levels: pd.DataFrame, cells: pd.DataFrame, placed: pd.DataFrame, loads: tuple[Load, ...]
) -> pd.DataFrame:
    """Return geometric means over the loads that both arms have, and which loads those are."""
    table = _means(levels, [*_BY, "metric", "statistic"], "levels")
    good = placed[(cells["status"] == "good").to_numpy()] if "status" in cells else placed
    is_baseline = (cells.set_index("cell_id")["spec_method"] == "none").reindex(good.index)
    baseline = good[is_baseline].groupby("setting")["load"].agg(frozenset).to_dict()
    speculative = good[~is_baseline].groupby(_BY)["load"].agg(frozenset).to_dict()
    shared = _shared_loads(levels, table)
    keys = list(zip(table["setting"], table["arm_id"], shared, strict=True))
    empty: frozenset[int] = frozenset()

    # Most series have the loads of many others.
    @cache
    def names(places: frozenset[int]) -> tuple[str, ...]:
        return tuple(loads[place].short for place in sorted(places) if place >= 0)

    def told(sets: Iterable[frozenset[int]]) -> pd.Series:
        return objects([names(places) for places in sets], table.index)

    return table.assign(
        loads=told(shared),
        only_baseline=told(baseline.get(setting, empty) - both for setting, _, both in keys),
        only_speculative=told(
            speculative.get((setting, arm), empty) - both for setting, arm, both in keys
        ),
    )


def _shared_loads(levels: pd.DataFrame, table: pd.DataFrame) -> list[frozenset[int]]:
    """Return the loads behind each row of ``table``: an arm may lack a metric at some of its
    loads."""
    names = [*_BY, "metric", "statistic"]
    own: dict[tuple[Any, ...], set[int]] = {}
    for *key, load in zip(*(levels[n].tolist() for n in (*names, "load")), strict=True):
        own.setdefault(tuple(key), set()).add(load)
    keys = zip(*(table[name].tolist() for name in names), strict=True)
    return [frozenset(own[key]) for key in keys]


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
    """Return by (setting, arm_id) the fields that the two numbers stand for."""
    names = [name for name in (*SETTING, *ARM) if name in cells]
    told = cells[names].set_index(pd.MultiIndex.from_frame(placed[_BY]))
    return told[~told.index.duplicated()]
