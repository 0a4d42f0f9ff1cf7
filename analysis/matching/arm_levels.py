"""Every arm on its own: what each measured at each concurrency, repeat by repeat.

For questions that need no partner: the largest load within an SLO, the Pareto front. Improvements
come from ``comparison``, which pairs.
"""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from analysis.frames import numbered
from analysis.significance.comparison import ARM, SETTING


@dataclass(frozen=True)
class ArmLevels:
    """``values``: setting, arm_id, concurrency, cell_id, metric, statistic, value: a row for each
    repeat. ``keys``: index (setting, arm_id), the fields behind the numbers and ``spec_method``."""

    values: pd.DataFrame
    keys: pd.DataFrame


def arm_levels(cells: pd.DataFrame, measurements: pd.DataFrame) -> ArmLevels:
    """Place the measurements of every good cell with a concurrency in its setting and arm.

    ``cells`` and ``measurements`` as the queries of those names return them. Settings and arms
    are those of ``comparison``: cells that differ in more than prompts, seed and load are apart.
    """
    kept = cells[(cells["status"] == "good") & cells["concurrency"].notna()]
    kept = kept.sort_values("cell_id", ignore_index=True)
    setting = numbered(kept, SETTING)
    placed = kept.assign(setting=setting, arm_id=numbered(kept, (*ARM, "spec_method")))
    names = ["setting", "arm_id", "concurrency"]
    values = measurements.merge(placed[["cell_id", *names]], on="cell_id")
    values["concurrency"] = values["concurrency"].astype("int64")
    known = [name for name in (*SETTING, *ARM, "spec_method") if name in placed]
    keys = placed.drop_duplicates(["setting", "arm_id"]).set_index(["setting", "arm_id"])[known]
    columns = [*names, "cell_id", "metric", "statistic", "value"]
    # Names that stand in many rows are kept as numbers, in the order of their letters.
    values = values[columns].astype(dict.fromkeys(("cell_id", "metric", "statistic"), "category"))
    return ArmLevels(values.sort_values(columns, ignore_index=True), keys.sort_index())


def means(values: pd.DataFrame) -> pd.DataFrame:
    """One row per setting, arm, concurrency, metric and statistic: ``value`` over the repeats.

    Geometric where every repeat is above zero, as in a comparison; else arithmetic (an error rate
    of 0 is a value too). ``repeats`` counts them.
    """
    by = ["setting", "arm_id", "concurrency", "metric", "statistic"]
    grouped = values.groupby(by, sort=True)["value"]
    table = grouped.agg(["mean", "min", "size"]).reset_index()
    logs = values.assign(log=np.log(values["value"].where(values["value"] > 0)))
    geometric = np.exp(logs.groupby(by, sort=True)["log"].mean().to_numpy(dtype=np.float64))
    table["value"] = np.where(table["min"] > 0, geometric, table["mean"])
    return table.rename(columns={"size": "repeats"}).drop(columns=["mean", "min"])
