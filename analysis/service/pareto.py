"""The trade between what a GPU yields and what a user feels, and which points nobody should run.

x: tokens per second that one user sees while text streams, 1000 / ITL (ms, mean over tokens).
y: output tokens per second per GPU. More of both is better.
"""

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.matching.arm_levels import ArmLevels, means

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
    table["group"] = _groups(table)
    names = [levels.loads[place].short for place in table["load"]]
    table["load_short"] = pd.Series(names, index=table.index, dtype="str")
    columns = [
        "group", *GROUP, "setting", "arm_id", "arm_label", "tensor_parallel_size", "gpus", "load",
        "load_short", "repeats",
        "tokens_per_second_per_user", "tokens_per_second_per_gpu",
    ]  # fmt: skip
    marked = _marked(table[columns])
    order = ["group", "tokens_per_second_per_user", "tokens_per_second_per_gpu"]
    return marked.sort_values(order, ascending=[True, False, False], ignore_index=True)


def unplaced(levels: ArmLevels) -> int:
    """Return how many levels of an arm cannot be a point: a rate or the number of GPUs is
    unknown."""
    cells = levels.values[["setting", "arm_id", "load"]].drop_duplicates()
    return len(cells) - len(_placed(levels))


def _placed(levels: ArmLevels) -> pd.DataFrame:
    """Return the levels that can be a point, with the fields of their setting and arm."""
    table = _wide(levels).merge(levels.keys.reset_index(), on=["setting", "arm_id"])
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


def _marked(table: pd.DataFrame) -> pd.DataFrame:
    parts = []
    for _, rows in table.groupby("group", sort=True):
        x, y = (
            rows[name].to_numpy(dtype=np.float64)
            for name in ("tokens_per_second_per_user", "tokens_per_second_per_gpu")
        )
        by = dominators(x, y)
        names = [_name(row) for row in rows.to_dict("records")]
        told: list[Any] = [names[at] if at >= 0 else None for at in by.tolist()]
        parts.append(
            rows.assign(
                dominated=by >= 0, dominated_by=pd.Series(told, index=rows.index, dtype=object)
            )
        )
    empty = table.assign(dominated=False, dominated_by=None)
    return pd.concat(parts, ignore_index=True) if parts else empty


def _name(row: dict[Any, Any]) -> str:
    tp = row["tensor_parallel_size"]
    size = "" if pd.isna(tp) else f" TP {int(tp)}"
    return f"{row['arm_label']}{size} at {row['load_short']}"


def _wide(levels: ArmLevels) -> pd.DataFrame:
    table = means(levels.values[levels.values["statistic"] == "mean"])
    by = ["setting", "arm_id", "load"]
    wide = table.pivot_table(index=by, columns="metric", values="value", observed=True)
    repeats = table.groupby(by)["repeats"].max()
    return wide.reindex(columns=list(METRICS_READ)).join(repeats).reset_index()


def _groups(table: pd.DataFrame) -> NDArray[np.int64]:
    codes = pd.DataFrame({name: pd.factorize(table[name])[0] for name in GROUP}, index=table.index)
    return np.asarray(codes.groupby(list(GROUP), sort=False).ngroup(), dtype=np.int64)
