"""The largest load that meets an SLO: every level up to it must meet it too."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.frames import numbered, objects
from analysis.matching.arms import ArmLevels, means
from analysis.service.slo import Bound, Slo
from warehouse.catalogue import METRICS
from warehouse.loads import Load

# --- The trade between what a GPU yields and what a user feels, and which points nobody should run.
#
# x: tokens per second that one user sees while text streams, 1000 / ITL (ms, mean over tokens).
# y: output tokens per second per GPU. More of both is better.


#: What is read of each cell.
METRICS_READ = ("output_throughput", "itl")
STATISTICS_READ = ("mean",)

#: Points of one group can be chosen between: the same work on the same kind of GPU.
GROUP = ("model", "precision", "dataset", "gpu", "evidence", "comparable_as")


def points(levels: ArmLevels) -> pd.DataFrame:
    """Return a row per setting, arm and load that has both rates and a number of GPUs.

    ``group`` numbers the points that compete; the fields of GROUP, arm_label, tensor_parallel_size,
    gpus, setting, arm_id, load (its place), load_short (its name), repeats,
    tokens_per_second_per_user, tokens_per_second_per_gpu, dominated, dominated_by (``arm at load``,
    or None).
    """
    table = _placed(levels)
    table["tokens_per_second_per_user"] = 1000 / table["itl"]
    table["tokens_per_second_per_gpu"] = table["output_throughput"] / table["gpus"]
    table["group"] = numbered(table, GROUP)
    names = [levels.loads[place].short for place in table["load"]]
    table["load_short"] = pd.Series(names, index=table.index, dtype="str")
    columns = [
        "group", *GROUP, "setting", "arm_id", "arm_label", "tensor_parallel_size", "gpus", "load",
        "load_short", "repeats",
        "tokens_per_second_per_user", "tokens_per_second_per_gpu",
    ]  # fmt: skip
    parts = []
    rates = ["tokens_per_second_per_user", "tokens_per_second_per_gpu"]
    for _, rows in table[columns].groupby("group", sort=True):
        by = dominators(*(rows[name].to_numpy(dtype=np.float64) for name in rates))
        names = []
        for row in rows.to_dict("records"):
            tp = row["tensor_parallel_size"]
            size = "" if pd.isna(tp) else f" TP {int(tp)}"
            names.append(f"{row['arm_label']}{size} at {row['load_short']}")
        dominating = objects([names[at] if at >= 0 else None for at in by.tolist()], rows.index)
        parts.append(rows.assign(dominated=by >= 0, dominated_by=dominating))
    empty = table[columns].assign(dominated=False, dominated_by=None)
    marked = pd.concat(parts, ignore_index=True) if parts else empty
    return marked.sort_values(["group", *rates], ascending=[True, False, False], ignore_index=True)


def unplaced(levels: ArmLevels) -> int:
    """Return how many levels of an arm cannot be a point: a rate or the number of GPUs is
    unknown."""
    cells = levels.values[["setting", "arm_id", "load"]].drop_duplicates()
    return len(cells) - len(_placed(levels))


def _placed(levels: ArmLevels) -> pd.DataFrame:
    by = ["setting", "arm_id", "load"]
    long = means(levels.values[levels.values["statistic"] == "mean"])
    wide = long.pivot_table(index=by, columns="metric", values="value", observed=True)
    wide = wide.reindex(columns=list(METRICS_READ)).join(long.groupby(by)["repeats"].max())
    table = wide.reset_index().merge(levels.keys.reset_index(), on=["setting", "arm_id"])
    table["gpus"] = table["gpu_count"].fillna(table["tensor_parallel_size"])
    table = table.dropna(subset=["gpus", "output_throughput", "itl"])
    known = (table["itl"] > 0) & (table["output_throughput"] > 0)
    return table[known].reset_index(drop=True)


def dominators(x: NDArray[np.float64], y: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return for each point one that is at least as good in both and better in one; -1 for none.

    The one named is on the front itself: of all that dominate, the one with the most ``y``.
    """
    better = (x[None, :] >= x[:, None]) & (y[None, :] >= y[:, None])
    better &= (x[None, :] > x[:, None]) | (y[None, :] > y[:, None])
    # Most y first, then most x: nothing dominates the maximum of that order.
    rank = np.lexsort((x, y)).argsort()
    best = np.where(better, rank[None, :], -1)
    return np.where(better.any(axis=1), best.argmax(axis=1), -1)


# --- The largest load that meets an SLO: every level up to it must meet it too.


Floats = NDArray[np.float64]
#: Setting and arm, as numbers.
Keys = tuple[int, int]
_LEVEL = ["setting", "arm_id", "load"]


@dataclass(frozen=True)
class Level:
    """One load: ``met`` is None where a value is missing. ``broken`` says which
    bounds do not hold and by which value; ``meeting`` of ``repeats`` meet all of them alone."""

    load: Load
    met: bool | None
    broken: tuple[str, ...]
    missing: tuple[str, ...]
    repeats: int
    meeting: int


@dataclass(frozen=True)
class Reach:
    """How far an arm meets an SLO. ``largest``: the largest measured load up to which all loads
    meet it; None where not even the lowest does. ``sentence`` says so, and why it ends there."""

    largest: Load | None
    levels: tuple[Level, ...]
    sentence: str


def largest_loads(levels: ArmLevels, slo: Slo) -> dict[Keys, Reach]:
    """Return the reach of each arm, by (setting, arm_id).

    A load is judged by its mean over the repeats. The answer ends below the first load that does
    not meet the SLO or lacks a value; a larger one that meets it again is mentioned.
    """
    values = levels.values
    cells = values[[*_LEVEL, "cell_id"]].drop_duplicates(ignore_index=True)
    holds = pd.Series(True, index=cells.index)
    there = cells.groupby(_LEVEL, sort=True).size().rename("repeats").reset_index()
    # By level: the bounds that do not hold, and those that are not measured.
    broken: list[list[str]] = [[] for _ in range(len(there))]
    missing: list[list[str]] = [[] for _ in range(len(there))]
    each = [*_LEVEL, "cell_id"]
    for bound in slo.bounds:
        rows = values[(values["metric"] == bound.metric) & (values["statistic"] == bound.statistic)]
        mean, known = _beside(there, means(rows), _LEVEL)
        for at, (value, measured) in enumerate(zip(mean, known, strict=True)):
            if not measured:
                missing[at].append(bound.text)
            elif not bound.holds(value):
                broken[at].append(f"{bound.text} ({_shown(bound, value)})")
        own, _ = _beside(cells, rows.drop_duplicates(each, keep="last"), each)
        holds &= bound.holds_each(own)
    meeting = cells.assign(holds=holds).groupby(_LEVEL, sort=True)["holds"].sum()
    found: dict[Keys, list[Level]] = {}
    rows_of = zip(there.itertuples(index=False), meeting.tolist(), broken, missing, strict=True)
    for (setting, arm_id, place, repeats), count, broke, lacks in rows_of:
        met = False if broke else None if lacks else True
        load = levels.loads[int(place)]
        level = Level(load, met, tuple(broke), tuple(lacks), int(repeats), count)
        found.setdefault((int(setting), int(arm_id)), []).append(level)
    reaches = {}
    for key, mine in found.items():
        up_to = list(takewhile(lambda level: level.met, mine))
        largest = up_to[-1].load if up_to else None
        reaches[key] = Reach(largest, tuple(mine), _sentence(largest, mine))
    return reaches


def _beside(
    rows: pd.DataFrame, known: pd.DataFrame, on: list[str]
) -> tuple[Floats, NDArray[np.bool_]]:
    """Return the ``value`` of ``known`` for each of ``rows``, NaN without one, and which have
    one."""
    both = rows[on].merge(known[[*on, "value"]], on=on, how="left", indicator="which")
    return both["value"].to_numpy(dtype=np.float64), (both["which"] == "both").to_numpy()


def _shown(bound: Bound, value: Any) -> str:
    metric = METRICS[bound.metric]
    if metric.unit == "ratio":
        return f"{value:.1%}"
    return f"{value:,.{metric.decimals}f} {metric.unit}"


def _sentence(largest: Load | None, levels: Sequence[Level]) -> str:
    beyond = [one for one in levels if largest is None or one.load.order > largest.order]
    if largest is not None and not beyond:
        return f"Every measured load meets it, up to {largest.text}."
    stop = beyond[0]
    start = "No measured load meets it" if largest is None else f"Up to {largest.text}"
    if stop.met is None:
        why = f"at {stop.load.text} it is not measured: {', '.join(stop.missing)}"
    else:
        why = f"at {stop.load.text} it misses {', '.join(stop.broken)}"
    again = [one.load.text for one in beyond if one.met]
    tail = f" At {', '.join(again)} it is met again." if again else ""
    return f"{start}; {why}.{tail}"
