"""What is traded for what: tokens per second of a GPU against those that one user sees."""

from dataclasses import dataclass

import pandas as pd

from analysis.frames import records
from analysis.matching.arms import ArmLevels, arm_levels
from analysis.service.largest_load import GROUP, METRICS_READ, STATISTICS_READ, points, unplaced
from answers.cost.places import Place, places
from answers.wording import known
from warehouse import queries
from warehouse.filters import Filters
from warehouse.loads import Load
from warehouse.store_read import Reader


@dataclass(frozen=True)
class Point:
    """One arm at one load. ``path``: its arm, with what tells it from those it competes with;
    ``name``: that no other point has. ``user`` and ``gpu``: tokens per second of a user and of a
    GPU, means over ``repeats``. ``dominated_by``: who gives both more, None on the front."""

    name: str
    path: str
    place: Place
    load: Load
    user: float
    gpu: float
    gpus: int
    repeats: int
    dominated_by: str | None
    cells: tuple[str, ...]


@dataclass(frozen=True)
class Trade:
    """The points of every arm and load. ``groups``: the points that compete, each group by itself,
    the largest first; in a group from the most a user sees downwards. ``left_out``: how many loads
    of an arm cannot be a point."""

    groups: tuple[tuple[Point, ...], ...]
    left_out: int

    @property
    def points(self) -> tuple[Point, ...]:
        """The points of all groups."""
        return tuple(point for group in self.groups for point in group)


def trade(reader: Reader, filters: Filters) -> Trade:
    """Return a point for every arm at every load that the filters keep and that has both rates and
    GPUs."""
    cells = queries.cells(reader, filters).to_pandas()
    measured = queries.measurements(reader, filters, METRICS_READ, STATISTICS_READ)
    levels = arm_levels(cells, measured.to_pandas())
    return trade_of(levels, cells)


def trade_of(levels: ArmLevels, cells: pd.DataFrame) -> Trade:
    """Return the trade of levels that were read elsewhere."""
    placed, table = places(levels, cells), points(levels)
    by = ["setting", "arm_id", "load"]
    once = levels.values.drop_duplicates([*by, "cell_id"]).astype({"cell_id": object})
    behind = once.groupby(by)["cell_id"].agg(tuple).to_dict()
    several = table.groupby("group")["tensor_parallel_size"].nunique(dropna=False) > 1
    twice = _ambiguous(levels)
    groups: dict[int, list[Point]] = {}
    seen: dict[str, int] = {}
    for row in records(table):
        key = (row["setting"], row["arm_id"])
        place, load = placed[key], levels.loads[row["load"]]
        size = f" · TP {known(place.on.tensor_parallel_size)}" if several[row["group"]] else ""
        path = f"{place.arm} ({place.setting})" if key in twice else place.arm + size
        name = f"{path} at {load.short}, {known(place.model)}, {known(place.dataset)}"
        seen[name] = seen.get(name, 0) + 1
        name = name if seen[name] == 1 else f"{name} ({seen[name]})"
        groups.setdefault(row["group"], []).append(
            Point(
                name, path, place, load, row["tokens_per_second_per_user"],
                row["tokens_per_second_per_gpu"], int(row["gpus"]), int(row["repeats"]),
                row["dominated_by"] if row["dominated"] else None, behind[(*key, row["load"])],
            )
        )  # fmt: skip
    ordered = sorted(groups.values(), key=len, reverse=True)
    return Trade(tuple(map(tuple, ordered)), unplaced(levels))


def _ambiguous(levels: ArmLevels) -> set[tuple[int, int]]:
    """Return the arms that compete with another one of the same label."""
    same = levels.keys.duplicated([*GROUP, "arm_label", "tensor_parallel_size"], keep=False)
    return {key for key, twice in zip(levels.keys.index, same, strict=True) if twice}
