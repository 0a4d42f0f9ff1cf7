"""The trade between throughput per GPU and speed per user, as charts and as named points."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd

from analysis.frames import records
from analysis.matching.arm_levels import ArmLevels
from analysis.service.pareto import points, unplaced
from analysis.tables import known_text, number
from dashboard.answers import MOST_PANELS, Drawing, drawn
from dashboard.arm_places import path_names
from dashboard.charts import Scales
from dashboard.charts.pareto import pareto
from dashboard.components import Shown, shown
from dashboard.ends import panel_of

_FAINT = 0.3
#: Columns that only a chart needs.
_DRAWN = ["setting", "arm_id", "concurrency", "arm", "user", "gpu_rate", "front", "strong", "solid", "load",
          "label", "point", "arm_label"]  # fmt: skip
_TOLD = ("model", "dataset", "gpu")
#: A path's name at its end; longer ones would leave the chart.
_LONGEST = 34
#: How far apart names of paths stand, as a share of what a small chart needs.
_LINE = 0.45


@dataclass(frozen=True)
class Trade:
    """``drawings``: a chart per group of points that compete, ``groups`` of them in all.
    ``points``: name of a point -> its (setting, arm_id, place of its load); ``drawn``: those of them that
    a chart shows."""

    drawings: list[Drawing]
    groups: int
    table: Shown
    points: dict[str, tuple[int, int, int]]
    drawn: tuple[str, ...]
    left_out: int
    rows: pd.DataFrame
    """Every point, unrounded, for a file."""


def trade(levels: ArmLevels, named: pd.DataFrame) -> Trade:
    """Charts, table and the points that can be chosen. ``named`` as ``arm_places.places``."""
    names = path_names(levels, named)
    # Under their unique names arms can be found again in what is drawn.
    table = points(replace(levels, keys=levels.keys.assign(arm_label=names)))
    rows = _marks(table.join(named[["arm", "badge"]], on=["setting", "arm_id"]))
    groups = [group for _, group in rows.groupby("group", sort=True)]
    first = groups[:MOST_PANELS]
    return Trade(
        [_drawing(group) for group in first],
        len(groups),
        shown(_told(rows)),
        dict(zip(rows["point"], rows[["setting", "arm_id", "concurrency"]]
                 .itertuples(index=False, name=None), strict=True)),
        tuple(point for group in first for point in group["point"]),
        unplaced(levels),
        rows.drop(columns=_DRAWN),
    )  # fmt: skip


def _marks(rows: pd.DataFrame) -> pd.DataFrame:
    """Everything that the chart encodes, one row per point, each with a name of its own."""
    several = rows.groupby("group")["tensor_parallel_size"].transform("nunique", dropna=False) > 1
    size = " · TP " + rows["tensor_parallel_size"].map(known_text).astype(str)
    path = rows["arm_label"].astype(str) + size.where(several, "")
    dominated = rows["dominated"].astype(bool)
    told = rows[list(_TOLD)].astype(object).map(known_text).astype("str")
    rows = rows.rename(columns={"load": "concurrency"})
    highest = rows.groupby(["group", "setting", "arm_id"])["concurrency"].transform("max")
    load = rows["load_short"]
    marks = rows.assign(
        path=path,
        user=rows["tokens_per_second_per_user"],
        gpu_rate=rows["tokens_per_second_per_gpu"],
        front=(~dominated).astype(int),
        strong=dominated.map({True: _FAINT, False: 1.0}),
        solid=(rows["repeats"] > 1).astype(int),
        dominated_by=rows["dominated_by"].fillna("none: on the front"),
        load=load.where(~dominated, ""),
        label=path.str.slice(0, _LONGEST).where(rows["concurrency"] == highest, ""),
        point=path + " at " + load + ", " + told["model"] + ", " + told["dataset"],
    )
    return marks.assign(point=_distinct(marks["point"]))


def _distinct(names: pd.Series) -> pd.Series:
    count = names.groupby(names).cumcount() + 1
    return names.where(count == 1, names + " (" + count.astype(str) + ")")


def _drawing(rows: pd.DataFrame) -> Drawing:
    first = records(rows)[0]
    about = ", ".join(known_text(first[name]) for name in _TOLD)
    badges = "".join(f"  [{text}]" for text in sorted(set(rows["badge"]) - {""}))
    subtitle = f"{about}{badges} · numbers: loads; faint: dominated; hollow: a single repeat"
    columns = [
        "point", "arm", "path", "user", "concurrency", "load", "load_short", "repeats", "strong", "solid",
        "front", "dominated_by", "label",
    ]  # fmt: skip
    marks = _apart(rows[columns].assign(gpu=rows["gpu_rate"]))
    return drawn(pareto(marks, (_front(rows), subtitle)))


def _apart(marks: pd.DataFrame) -> pd.DataFrame:
    """The names of paths at least a line apart, in ``label_y``: this chart is twice as high."""
    scales = Scales((), 0.0, float(marks["gpu"].max()) * _LINE)
    given = marks.assign(panel="", end_label=marks["label"], value=marks["gpu"], end_y=marks["gpu"])
    placed = panel_of(given, "", scales).rename(columns={"end_y": "label_y"})
    return placed.drop(columns=["panel", "end_label", "value"])


def _front(rows: pd.DataFrame) -> str:
    """Who is on the front, most points first."""
    on = rows.loc[rows["front"] == 1, "path"].value_counts()
    told = _listed([f"{name} ({times})" for name, times in on.items()])
    baseline = rows.loc[rows["front"] == 1, "arm"].eq("baseline").any()
    has = rows["arm"].eq("baseline").any()
    return f"On the front: {told}" + ("; the baseline nowhere" if has and not baseline else "")


def _listed(parts: Sequence[str], most: int = 3) -> str:
    more = f" and {len(parts) - most} more" if len(parts) > most else ""
    return ", ".join(parts[:most]) + more


def _told(rows: pd.DataFrame) -> pd.DataFrame:
    told: list[dict[str, Any]] = [
        {
            "arm": row["path"],
            "load": row["load_short"],
            "tok/s per user": number(row["user"], 1),
            "tok/s per GPU": number(row["gpu_rate"], 1),
            "GPUs": int(row["gpus"]),
            "dominated by": row["dominated_by"],
            "dataset": known_text(row["dataset"]),
            "model": known_text(row["model"]),
            "GPU": known_text(row["gpu"]),
            "evidence": row["badge"] or "GPU",
        }
        for row in records(rows)
    ]
    return pd.DataFrame(told)
