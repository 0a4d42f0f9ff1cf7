"""Matched cells as launches: one value of each metric for an arm, a load and a server start.

Repeats within one server start share its luck: they are averaged and count once.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.frames import declared
from warehouse.catalogue import METRICS

Floats = NDArray[np.float64]
Places = NDArray[np.int64]

#: The arm number of the baseline among the launches of a setting.
BASELINE = -1
#: What says which server start a cell ran on.
_OF_LAUNCH = ("launch", "source_format", "path", "run_id")
_UNIT = ["setting", "arm", "load", "launch"]


@dataclass(frozen=True)
class Lines:
    """The compared metrics and statistics, in order; a value's column is its line."""

    names: tuple[tuple[str, str], ...]

    @property
    def signs(self) -> Floats:
        """For each line 1 where higher is better, -1 where lower is, 0 where neither."""
        signs = {"higher": 1.0, "lower": -1.0, "neither": 0.0}
        return np.array([signs[METRICS[metric].better] for metric, _ in self.names])


@dataclass(frozen=True)
class Launches:
    """The values of every launch of every arm. ``units``: a row per setting, arm (BASELINE or
    arm_id), load and launch, with ``round`` (the baseline's launch that it meets) and ``known``
    (whether the launch was stated). ``values`` (units, lines): mean logarithms over the repeats of
    the unit, turned so that higher is better; NaN where the metric is missing or not above zero."""

    units: pd.DataFrame
    values: Floats
    lines: Lines


def launches_of(pairs: pd.DataFrame, cells: pd.DataFrame) -> Launches:
    """Return the launches behind matched pairs.

    ``pairs`` as ``Comparison.pairs`` (setting, arm_id, load, baseline_id, speculative_id, metric,
    statistic, baseline, speculative). ``cells``: cell_id and, where known, launch, repeat,
    started_at.
    """
    named = pairs[["metric", "statistic"]].astype(str).drop_duplicates()
    lines = Lines(tuple(named.itertuples(index=False, name=None)))
    met = pairs.drop_duplicates(["baseline_id", "speculative_id"])
    placed = _placed(met.astype({"baseline_id": object, "speculative_id": object}), cells)
    values = _values(pairs, lines, placed["cell_id"])
    grouped = placed.groupby(_UNIT, sort=True)
    number = np.asarray(grouped.ngroup(), dtype=np.int64)
    units = placed.groupby(_UNIT, sort=True).agg(round=("round", "min"), known=("known", "all"))
    return Launches(
        declared("launches", units.reset_index()), _means(values, number, len(units)), lines
    )


def _placed(met: pd.DataFrame, cells: pd.DataFrame) -> pd.DataFrame:
    """Return a row per cell and setting: arm, load, launch and round as numbers, and cell_id."""
    told = ["setting", "load"]
    baseline = met[[*told, "baseline_id"]].rename(columns={"baseline_id": "cell_id"})
    baseline = baseline.drop_duplicates().assign(arm=BASELINE)
    speculative = met[[*told, "speculative_id", "arm_id"]]
    speculative = speculative.rename(columns={"speculative_id": "cell_id", "arm_id": "arm"})
    rows = pd.concat([baseline, speculative.drop_duplicates("cell_id")], ignore_index=True)
    rows = _with_launch(rows, cells)
    partner = dict(zip(met["speculative_id"], met["baseline_id"], strict=True))
    at = rows[rows["arm"] == BASELINE].drop_duplicates("cell_id").set_index("cell_id")["launch"]
    owner = rows["cell_id"].map(partner).where(rows["arm"] != BASELINE, rows["cell_id"])
    return rows.assign(round=owner.map(at).to_numpy())


def _with_launch(rows: pd.DataFrame, cells: pd.DataFrame) -> pd.DataFrame:
    """Number the launch of each row; where none was stated, by the n-th repeat at each load of an
    arm."""
    names = [n for n in (*_OF_LAUNCH, "repeat", "started_at") if n in cells]
    rows = rows.merge(cells[["cell_id", *names]], on="cell_id", how="left")
    stated = _stated(rows)
    order = [n for n in ("repeat", "started_at") if n in rows]
    ordered = rows.sort_values([*order, "cell_id"])
    turn = ordered.groupby(["setting", "arm", "load"]).cumcount().reindex(rows.index)
    known = stated.notna()
    text = stated.astype(object).where(known, "repeat " + turn.astype(str))
    code = pd.factorize(text)[0]
    kept = ["setting", "arm", "load", "cell_id"]
    return rows[kept].assign(launch=code, known=known.to_numpy())


def _stated(rows: pd.DataFrame) -> pd.Series:
    """Return the launch of each row as it was stated. A runner's name for it holds within one
    folder of results, so that the nights of a study do not share a start."""
    if "launch" not in rows:
        return pd.Series(None, index=rows.index, dtype=object)
    told = rows["launch"].astype(object)
    if not set(_OF_LAUNCH) <= set(rows):
        return told
    names = zip(*(rows[name].astype(object) for name in _OF_LAUNCH), strict=True)
    return pd.Series([_scoped(*row) for row in names], index=rows.index, dtype=object)


def _scoped(launch: Any, source_format: Any, path: Any, run_id: Any) -> Any:
    """Return the name of a launch, for a result drop with the folder above its study."""
    if source_format != "drop" or not isinstance(launch, str):
        return launch
    # A run of a drop is named as its folder below the results, and by its attempt.
    folder = str(run_id).rpartition("#")[0]
    root = str(path).rstrip("/").removesuffix(folder) if folder else ""
    return f"{root} {launch}"


def _values(pairs: pd.DataFrame, lines: Lines, cell_ids: pd.Series) -> Floats:
    """Return (cells, lines): logarithms, higher is better."""
    ids = pd.Index(cell_ids.drop_duplicates())
    at = {name: place for place, name in enumerate(lines.names)}
    names = zip(pairs["metric"].astype(str), pairs["statistic"].astype(str), strict=True)
    line = np.fromiter((at[name] for name in names), dtype=np.int64, count=len(pairs))
    found = np.full((len(ids), len(lines.names)), np.nan)
    for column in ("baseline", "speculative"):
        row = ids.get_indexer(pd.Index(pairs[f"{column}_id"].astype(object)))
        value = pairs[column].to_numpy(dtype=np.float64)
        there = value > 0
        found[row[there], line[there]] = np.log(value[there])
    return np.asarray(found[ids.get_indexer(pd.Index(cell_ids))] * lines.signs)


def _means(values: Floats, number: Places, units: int) -> Floats:
    """Average the rows of one number; NaN where one of them is."""
    sums = np.zeros((units, values.shape[1]))
    np.add.at(sums, number, values)
    return sums / np.bincount(number, minlength=units)[:, None]
