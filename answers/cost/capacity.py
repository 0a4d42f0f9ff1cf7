"""Up to which load each arm keeps a service level, and what it yields and costs there."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd

from analysis.frames import records
from analysis.matching.arms import ArmLevels, arm_levels, means
from analysis.money.cost import usd_per_million
from analysis.money.paying import Paying, Refusal, basis_of
from analysis.service.largest_load import Keys, Level, Reach, largest_loads
from analysis.service.slo import (
    COLUMNS,
    Goodput,
    Pooled,
    Slo,
    goodput,
    parse,
    per_request,
    pooled,
    window,
)
from answers.cost.places import Place, places
from answers.cost.values import Money
from warehouse import queries
from warehouse.filters import Filters
from warehouse.loads import Load
from warehouse.store_read import Reader


@dataclass(frozen=True)
class AtLoad:
    """One load of an arm: whether it keeps the level, how many requests were in flight on average,
    the requests that were good, and the ids of the cells behind it."""

    level: Level
    in_flight: float | None
    good: Pooled
    cells: frozenset[str]


@dataclass(frozen=True)
class Carried:
    """One arm: how far it goes, and at its largest load its output tokens per second and USD per
    million of them (None: no load, or unknown; ``unpriced`` says why there is no price)."""

    place: Place
    reach: Reach
    loads: tuple[AtLoad, ...]
    output: float | None
    usd: float | None
    unpriced: str

    @property
    def at_largest(self) -> AtLoad | None:
        """The largest load that keeps the level."""
        return next((one for one in self.loads if one.level.load == self.reach.largest), None)


@dataclass(frozen=True)
class Capacity:
    """Every arm under one service level, settings and arms in the order of their names.
    ``counted``: whether the requests were read for goodput; ``cells``: how many there are."""

    slo: Slo
    arms: tuple[Carried, ...]
    counted: bool
    cells: int

    @property
    def headline(self) -> str:
        """A sentence on how many arms keep the level at all. Which arm to take is the decision's to
        say."""
        if not self.arms:
            return "Of nothing that was measured the load is known, so there is no largest one."
        meeting = sum(arm.reach.largest is not None for arm in self.arms)
        settings = len({arm.place.setting for arm in self.arms})
        return (
            f"{meeting} of {_counted(len(self.arms), 'arm')} in {_counted(settings, 'setting')} "
            f"{'meets' if len(self.arms) == 1 else 'meet'} {self.slo.text} at some load; the largest load of each stands below."
        )

    def meets(self, cells: Iterable[str]) -> bool | None:
        """Return whether the loads of the cells keep the level; None where that is unknown."""
        wanted = set(cells)
        found = {at.level.met for arm in self.arms for at in arm.loads if at.cells & wanted}
        return False if False in found else True if found == {True} else None


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def within(row: Money, found: Capacity) -> Money:
    """Return the money with each point of its curve marked: whether it keeps the service level."""
    curve = []
    for point in row.curve:
        here = [cell for cell in row.decision.arms if cell.load == point.load]
        mine = here if point.arm is None else [cell for cell in here if cell.arm == point.arm]
        ids = {pair[point.arm is not None] for cell in mine for pair in cell.pairs}
        curve.append(replace(point, meets=found.meets(ids)))
    return replace(row, curve=tuple(curve))


def capacity(
    reader: Reader, filters: Filters, slo: str, paying: Paying, count: bool = False
) -> Capacity:
    """Judge every arm that the filters keep. ``count``: read the requests, for goodput.

    Raises InvalidInput for an SLO that cannot be read.
    """
    asked = parse(slo)
    # Every cell has a throughput: a level that lacks a bound's metric is told as such, not lost.
    metrics = [*asked.metrics, "output_throughput", "achieved_concurrency"]
    cells = queries.cells(reader, filters).to_pandas()
    measured = queries.measurements(reader, filters, metrics, [*asked.statistics, "mean"])
    levels = arm_levels(cells, measured.to_pandas())
    goodputs = _goodputs(reader, cells, levels, asked) if count else {}
    placed, behind = places(levels, cells), _Behind.of(levels, goodputs)
    arms = [
        _carried(placed[key], reach, behind.of_arm(key), paying)
        for key, reach in largest_loads(levels, asked).items()
    ]
    ordered = sorted(arms, key=lambda arm: (arm.place.setting, arm.place.arm))
    return Capacity(asked, tuple(ordered), bool(goodputs), levels.values["cell_id"].nunique())


@dataclass(frozen=True)
class _Behind:
    """What is known of every load of every arm beside the bounds: cells, requests in flight,
    output, goodput."""

    levels: ArmLevels
    cells: Mapping[Any, list[str]]
    held: Mapping[Any, float]
    output: Mapping[Any, float]
    goodputs: Mapping[str, Goodput | None]

    @classmethod
    def of(cls, levels: ArmLevels, goodputs: Mapping[str, Goodput | None]) -> "_Behind":
        by = ["setting", "arm_id", "load"]
        rows = levels.values
        once = rows.drop_duplicates([*by, "cell_id"]).astype({"cell_id": object})
        mean = rows[rows["statistic"] == "mean"]
        flying = mean[mean["metric"] == "achieved_concurrency"]
        rates = means(mean[(mean["metric"] == "output_throughput") & (mean["value"] > 0)])
        return cls(
            levels, once.groupby(by)["cell_id"].agg(list).to_dict(),
            flying.groupby(by)["value"].mean().to_dict(),
            rates.set_index(by)["value"].to_dict(), goodputs,
        )  # fmt: skip

    def of_arm(self, key: Keys) -> "_OfArm":
        return _OfArm(self, key)


@dataclass(frozen=True)
class _OfArm:
    """What is known of the loads of one arm."""

    behind: _Behind
    key: Keys

    def at(self, level: Level) -> AtLoad:
        where = (*self.key, self.behind.levels.loads.index(level.load))
        ids = self.behind.cells[where]
        good = (self.behind.goodputs.get(cell) for cell in ids)
        flying = self.behind.held.get(where)
        return AtLoad(level, flying, pooled([g for g in good if g is not None]), frozenset(ids))

    def output(self, load: Load | None) -> float | None:
        if load is None:
            return None
        return self.behind.output.get((*self.key, self.behind.levels.loads.index(load)))


def _carried(place: Place, reach: Reach, behind: _OfArm, paying: Paying) -> Carried:
    output, basis = behind.output(reach.largest), basis_of(paying, place.on)
    loads = tuple(behind.at(level) for level in reach.levels)
    if isinstance(basis, Refusal):
        return Carried(place, reach, loads, output, None, basis.sentence)
    usd = None if output is None else usd_per_million(output, basis)
    return Carried(place, reach, loads, output, usd, "")


def _goodputs(
    reader: Reader, cells: pd.DataFrame, levels: ArmLevels, slo: Slo
) -> Mapping[str, Goodput | None]:
    bounds = per_request(slo)
    if bounds is None:
        return {}
    found = {}
    for cell in records(cells[cells["cell_id"].isin(levels.values["cell_id"].unique())]):
        rows = queries.requests(reader, cell["cell_id"], COLUMNS).to_pandas()
        if not rows.empty:
            found[cell["cell_id"]] = goodput(rows, bounds, window(cell))
    return found
