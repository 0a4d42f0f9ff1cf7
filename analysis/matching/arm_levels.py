"""Every arm on its own: what each measured at each load, repeat by repeat.

For questions that need no partner: the largest load within an SLO, the Pareto front. Improvements
come from ``comparison``, which pairs.
"""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from analysis.frames import numbered
from analysis.matching.comparison import SETTING
from analysis.matching.fields import ARM, numbered_loads
from warehouse.loads import Load

#: What tells one setting from another here, where nothing is paired.
_APART = (*SETTING, "comparable_as", "load_kind")


@dataclass(frozen=True)
class ArmLevels:
    """What every arm measured at every load. ``values``: setting, arm_id, load, cell_id, metric,
    statistic, value: a row for each repeat; ``load`` is a place in ``loads``, the larger load of a
    kind has the larger place. ``keys``: index (setting, arm_id), the fields behind the numbers,
    ``spec_method`` and ``load_kind``."""

    values: pd.DataFrame
    keys: pd.DataFrame
    loads: tuple[Load, ...] = ()


def arm_levels(cells: pd.DataFrame, measurements: pd.DataFrame) -> ArmLevels:
    """Place the measurements of every good cell with a known load in its setting and arm.

    ``cells`` and ``measurements`` as the queries of those names return them. Settings and arms
    are those of ``comparison``: cells that differ in more than prompts, seed and load are apart.
    So are loads of different kinds: requests at once and requests a second are no one ladder.
    """
    loads, load = numbered_loads(cells)
    kept = cells.assign(load=load)[(cells["status"] == "good") & (load >= 0)]
    kept = kept.sort_values("cell_id", ignore_index=True)
    kept = kept.assign(load_kind=[loads[place].kind for place in kept["load"]])
    setting = numbered(kept, _APART)
    placed = kept.assign(setting=setting, arm_id=numbered(kept, (*ARM, "spec_method")))
    names = ["setting", "arm_id", "load"]
    values = measurements.merge(placed[["cell_id", *names]], on="cell_id")
    known = [name for name in (*_APART, *ARM, "spec_method") if name in placed]
    keys = placed.drop_duplicates(["setting", "arm_id"]).set_index(["setting", "arm_id"])[known]
    columns = [*names, "cell_id", "metric", "statistic", "value"]
    # Names that stand in many rows are kept as numbers, in the order of their letters.
    values = values[columns].astype(dict.fromkeys(("cell_id", "metric", "statistic"), "category"))
    return ArmLevels(values.sort_values(columns, ignore_index=True), keys.sort_index(), loads)


def means(values: pd.DataFrame) -> pd.DataFrame:
    """Return one row per setting, arm, load, metric and statistic: ``value`` over the repeats.

    Geometric where every repeat is above zero, as in a comparison; else arithmetic (an error rate
    of 0 is a value too). ``repeats`` counts them.
    """
    by = ["setting", "arm_id", "load", "metric", "statistic"]
    grouped = values.groupby(by, sort=True)["value"]
    table = grouped.agg(["mean", "min", "size"]).reset_index()
    logs = values.assign(log=np.log(values["value"].where(values["value"] > 0)))
    geometric = np.exp(logs.groupby(by, sort=True)["log"].mean().to_numpy(dtype=np.float64))
    table["value"] = np.where(table["min"] > 0, geometric, table["mean"])
    return table.rename(columns={"size": "repeats"}).drop(columns=["mean", "min"])
