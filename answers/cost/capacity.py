"""Up to which load each arm keeps a service level, which levels are worth asking about, and what is traded."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from analysis.frames import records
from analysis.matching.arms import ArmLevels, about, arm_levels, means
from analysis.matching.names import arm_names, setting_names
from analysis.money.cost import usd_per_million
from analysis.money.paying import Hardware, Paying, Refusal, basis_of, hardware_of
from analysis.service.slo import (
    COLUMNS,
    GROUP,
    METRICS_READ,
    STATISTICS_READ,
    ArmReach,
    Goodput,
    Keys,
    Level,
    Pooled,
    Slo,
    goodput,
    largest_loads,
    parse,
    per_request,
    points,
    pooled,
    unplaced,
    window,
)
from answers.cost.values import DecisionCost
from answers.decide.overview import narrowed
from answers.decide.values import Decision
from answers.wording import badges, known
from warehouse import queries
from warehouse.catalogue import JUDGED_PER_REQUEST, METRICS
from warehouse.filters import Filters
from warehouse.loads import Load
from warehouse.store import Reader

# --- Service levels worth asking about: bounds that some of the measured loads keep and some do not.


_STATISTICS: tuple[str, ...] = ("p50", "p95", "p99")
#: Of the values measured, which shares an offered bound lets pass.
_SHARES = (0.25, 0.5, 0.75)
_FIRST = ("ttft", "p95"), ("itl", "p95")


@dataclass(frozen=True)
class Offered:
    """What a reader can ask for. ``bounds`` to choose from, ``ttft:p95<200ms`` among them;
    ``first``: a service level in the middle of what was measured, None where no latency was."""

    bounds: tuple[str, ...]
    first: str | None


def offered(reader: Reader, filters: Filters) -> Offered:
    """Return the bounds worth asking about for the cells that the filters keep."""
    return offered_of(
        queries.measurements(reader, filters, JUDGED_PER_REQUEST, _STATISTICS).to_pandas()
    )


def offered_of(rows: pd.DataFrame) -> Offered:
    """Return the bounds worth asking about for these measurements (metric, statistic, value)."""
    every = [_bounds(rows, m, s, _SHARES) for m in JUDGED_PER_REQUEST for s in _STATISTICS]
    first = [
        text for metric, statistic in _FIRST for text in _bounds(rows, metric, statistic, (0.5,))
    ]
    return Offered(tuple(text for texts in every for text in texts), "; ".join(first) or None)


def _bounds(rows: pd.DataFrame, metric: str, statistic: str, shares: Sequence[float]) -> list[str]:
    """Return the bounds that let these shares of the values pass, rounded up to two digits, as a person
    would write them."""
    own = rows[(rows["metric"] == metric) & (rows["statistic"] == statistic)]
    values = own["value"].dropna()
    limits: dict[str, None] = {}
    for value in [] if values.empty else values.quantile(list(shares)):
        if value > 0:
            step = 10.0 ** (np.floor(np.log10(float(value))) - 1)
            limits[f"{np.ceil(float(value) / step) * step:.6g}"] = None
    return [f"{metric}:{statistic}<{limit}{METRICS[metric].unit}" for limit in limits]


# --- Arms that are looked at each on its own: their setting, their name, their hardware.


def kept_to(decision: Decision, chosen: Filters) -> Filters:
    """Return the chosen filters, kept to a decision's subject and datasets; arms keep the
    baseline."""
    return replace(
        narrowed(decision.subject, chosen),
        dataset=tuple(name for name, _ in decision.traffic.mix)
        or (known(decision.traffic.dataset),),
        tensor_parallel_size=(known(decision.subject.tensor_parallel_size),),
    )


@dataclass(frozen=True)
class ArmPlace:
    """One arm in one setting. ``setting`` and ``arm`` are names that no other one has here,
    ``label`` is the arm's own; ``badges`` say where its numbers come from; only numbers that are
    ``comparable_as`` the same compete. None: unknown."""

    setting: str
    arm: str
    label: str
    badges: tuple[str, ...]
    model: str | None
    dataset: str | None
    evidence: str | None
    on: Hardware
    precision: str | None = None
    comparable_as: str | None = None

    @property
    def origin(self) -> str:
        """The badges as one text; ``GPU`` where there is no badge."""
        return ", ".join(self.badges) or "GPU"

    def as_json(self) -> dict[str, Any]:
        """Return the facts as a dict for JSON, null for unknown."""
        return {
            "arm_label": self.label, "model": self.model, "dataset": self.dataset,
            "gpu": self.on.gpu, "tensor_parallel_size": self.on.tensor_parallel_size,
            "precision": self.precision, "evidence": self.evidence,
            "comparable_as": self.comparable_as,
        }  # fmt: skip


def _places(levels: ArmLevels, cells: pd.DataFrame) -> Mapping[Keys, ArmPlace]:
    keys = levels.keys
    marked = cells.loc[cells["synthetic_acceptance"].fillna(False).astype(bool), "cell_id"]
    rows = levels.values.loc[levels.values["cell_id"].isin(set(marked)), ["setting", "arm_id"]]
    by_hand = set(rows.itertuples(index=False, name=None))
    setting, arm = (keys.index.get_level_values(name) for name in ("setting", "arm_id"))
    settings = setting_names(keys[~setting.duplicated()].droplevel("arm_id"))
    arms = arm_names(keys[~arm.duplicated()].droplevel("setting"))
    names = ("model", "dataset", "evidence", "precision", "comparable_as")
    found = {}
    for key, row in zip(keys.index, records(keys), strict=True):
        facts = about(row, names)
        found[key] = ArmPlace(
            str(settings[key[0]]), str(arms[key[1]]), str(row["arm_label"]),
            badges(facts["evidence"], key in by_hand), on=hardware_of(row), **facts,
        )  # fmt: skip
    return found


# --- What is traded for what: tokens per second of a GPU against those that one user sees.


@dataclass(frozen=True)
class TradePoint:
    """One arm at one load. ``path``: its arm, with what tells it from those it competes with;
    ``name``: that no other point has. ``user`` and ``gpu``: tokens per second of a user and of a
    GPU, means over ``repeats``. ``dominated_by``: who gives both more, None on the front."""

    name: str
    path: str
    place: ArmPlace
    load: Load
    user: float
    gpu: float
    gpus: int
    repeats: int
    dominated_by: str | None
    cells: tuple[str, ...]


@dataclass(frozen=True)
class UserGpuTrade:
    """The points of every arm and load. ``groups``: the points that compete, each group by itself,
    the largest first; in a group from the most a user sees downwards. ``left_out``: how many loads
    of an arm cannot be a point."""

    groups: tuple[tuple[TradePoint, ...], ...]
    left_out: int

    @property
    def points(self) -> tuple[TradePoint, ...]:
        return tuple(point for group in self.groups for point in group)


_BY_LOAD = ["setting", "arm_id", "load"]


def trade(reader: Reader, filters: Filters) -> UserGpuTrade:
    """Return a point for every arm at every load that the filters keep and that has both rates and
    GPUs."""
    cells = queries.cells(reader, filters).to_pandas()
    measured = queries.measurements(reader, filters, METRICS_READ, STATISTICS_READ)
    levels = arm_levels(cells, measured.to_pandas())
    placed, table, cells_of = _places(levels, cells), points(levels), _cells_by_load(levels)
    several = table.groupby("group")["tensor_parallel_size"].nunique(dropna=False) > 1
    # An arm that competes with another one of the same label is told apart by its setting.
    same = levels.keys.duplicated([*GROUP, "arm_label", "tensor_parallel_size"], keep=False)
    twice = {key for key, alike in zip(levels.keys.index, same, strict=True) if alike}
    groups: dict[int, list[TradePoint]] = {}
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
            TradePoint(
                name, path, place, load, row["tokens_per_second_per_user"],
                row["tokens_per_second_per_gpu"], int(row["gpus"]), int(row["repeats"]),
                row["dominated_by"] if row["dominated"] else None, cells_of[(*key, row["load"])],
            )
        )  # fmt: skip
    ordered = sorted(groups.values(), key=len, reverse=True)
    return UserGpuTrade(tuple(map(tuple, ordered)), unplaced(levels))


def _cells_by_load(levels: ArmLevels) -> Mapping[Any, tuple[str, ...]]:
    once = levels.values.drop_duplicates([*_BY_LOAD, "cell_id"]).astype({"cell_id": object})
    found: dict[Any, tuple[str, ...]] = once.groupby(_BY_LOAD)["cell_id"].agg(tuple).to_dict()
    return found


def trade_json(trade_points: UserGpuTrade, front: bool = False) -> dict[str, Any]:
    """Return every point, or those of the ``front`` alone; ``group`` numbers those that compete."""
    return {
        "points": [
            {
                "group": number, **point.place.as_json(), "gpus": point.gpus,
                "load": point.load.as_json(), "repeats": point.repeats,
                "tokens_per_second_per_user": point.user,
                "tokens_per_second_per_gpu": point.gpu,
                "dominated": point.dominated_by is not None, "dominated_by": point.dominated_by,
            }
            for number, group in enumerate(trade_points.groups)
            for point in group
            if not (front and point.dominated_by)
        ],
        "left_out": trade_points.left_out,
    }  # fmt: skip


# --- Up to which load each arm keeps a service level, and what it yields and costs there.


@dataclass(frozen=True)
class LoadService:
    """One load of an arm: whether it keeps the level, how many requests were in flight on average,
    the requests that were good, and the ids of the cells behind it."""

    level: Level
    in_flight: float | None
    good: Pooled
    cells: frozenset[str]


@dataclass(frozen=True)
class ArmCapacity:
    """One arm: how far it goes, and at its largest load its output tokens per second and USD per
    million of them (None: no load, or unknown; ``unpriced`` says why there is no price)."""

    place: ArmPlace
    reach: ArmReach
    loads: tuple[LoadService, ...]
    output: float | None
    usd: float | None
    unpriced: str

    @property
    def at_largest(self) -> LoadService | None:
        """The largest load that keeps the level."""
        return next((one for one in self.loads if one.level.load == self.reach.largest), None)


@dataclass(frozen=True)
class ServiceCapacity:
    """Every arm under one service level, settings and arms in the order of their names.
    ``counted``: whether the requests were read for goodput; ``cells``: how many there are."""

    slo: Slo
    arms: tuple[ArmCapacity, ...]
    counted: bool
    cells: int

    @property
    def headline(self) -> str:
        """A sentence on how many arms keep the level at all. Which arm to take is the decision's to
        say."""
        if not self.arms:
            return "Of nothing that was measured the load is known, so there is no largest one."
        meeting = sum(arm.reach.largest is not None for arm in self.arms)
        arms, settings = len(self.arms), len({arm.place.setting for arm in self.arms})
        return (
            f"{meeting} of {arms} arm{'s' if arms > 1 else ''} in {settings} "
            f"setting{'s' if settings > 1 else ''} {'meets' if arms == 1 else 'meet'} {self.slo.text} "
            "at some load; the largest load of each stands below."
        )

    def meets(self, cells: Iterable[str]) -> bool | None:
        """Return whether the loads of the cells keep the level; None where that is unknown."""
        wanted = set(cells)
        found = {at.level.met for arm in self.arms for at in arm.loads if at.cells & wanted}
        return False if False in found else True if found == {True} else None


def capacity_json(service: ServiceCapacity) -> dict[str, Any]:
    """Return every arm's largest load under the service level, and each of its loads."""
    return {
        "slo": service.slo.text,
        "arms": [
            {
                **arm.place.as_json(),
                "largest_load": None if arm.reach.largest is None else arm.reach.largest.as_json(),
                "sentence": arm.reach.sentence,
                "levels": [
                    {
                        **vars(at.level), "load": at.level.load.as_json(),
                        "achieved_concurrency": at.in_flight, **vars(at.good),
                    }
                    for at in arm.loads
                ],
            }
            for arm in service.arms
        ],
    }  # fmt: skip


def within(row: DecisionCost, service: ServiceCapacity) -> DecisionCost:
    """Return the money with each point of its curve marked: whether it keeps the service level."""
    curve = []
    for point in row.curve:
        here = [cell for cell in row.decision.arms if cell.load == point.load]
        mine = here if point.arm is None else [cell for cell in here if cell.arm == point.arm]
        ids = {pair[point.arm is not None] for cell in mine for pair in cell.pairs}
        curve.append(replace(point, meets=service.meets(ids)))
    return replace(row, curve=tuple(curve))


def capacity(
    reader: Reader, filters: Filters, slo: str, paying: Paying, count: bool = False
) -> ServiceCapacity:
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
    mean = levels.values[levels.values["statistic"] == "mean"]
    flying = mean[mean["metric"] == "achieved_concurrency"].groupby(_BY_LOAD)["value"].mean()
    rates = means(mean[(mean["metric"] == "output_throughput") & (mean["value"] > 0)])
    output_of, placed = rates.set_index(_BY_LOAD)["value"].to_dict(), _places(levels, cells)
    cells_of, in_flight = _cells_by_load(levels), flying.to_dict()
    arms = []
    for key, reach in largest_loads(levels, asked).items():
        loads, output = [], None
        for level in reach.levels:
            where = (*key, levels.loads.index(level.load))
            found = pooled(list(filter(None, (goodputs.get(cell) for cell in cells_of[where]))))
            loads.append(
                LoadService(level, in_flight.get(where), found, frozenset(cells_of[where]))
            )
            if level.load == reach.largest:
                output = output_of.get(where)
        basis, usd, unpriced = basis_of(paying, placed[key].on), None, ""
        if isinstance(basis, Refusal):
            unpriced = basis.sentence
        elif output is not None:
            usd = usd_per_million(output, basis)
        arms.append(ArmCapacity(placed[key], reach, tuple(loads), output, usd, unpriced))
    ordered = sorted(arms, key=lambda arm: (arm.place.setting, arm.place.arm))
    return ServiceCapacity(
        asked, tuple(ordered), bool(goodputs), levels.values["cell_id"].nunique()
    )


def _goodputs(
    reader: Reader, cells: pd.DataFrame, levels: ArmLevels, slo: Slo
) -> Mapping[str, Goodput | None]:
    bounds, found = per_request(slo), {}
    mine = cells[cells["cell_id"].isin(levels.values["cell_id"].unique())]
    for cell in records(mine) if bounds is not None else ():
        rows = queries.requests(reader, cell["cell_id"], COLUMNS).to_pandas()
        if bounds is not None and not rows.empty:
            found[cell["cell_id"]] = goodput(rows, bounds, window(cell))
    return found
