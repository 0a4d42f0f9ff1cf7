"""Up to which load each arm keeps a service level, which levels are worth asking about, and what is traded."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import exp, inf, log
from typing import Any

import numpy as np
import pandas as pd

from analysis.evidence.words import GAIN, LIKELY_GAIN, LIKELY_LOSS, LOSS, OPEN, Word
from analysis.frames import plain, records
from analysis.matching.arms import ArmLevels, arm_levels, means
from analysis.matching.names import arm_names, setting_names
from analysis.money.cost import usd_per_million
from analysis.money.paying import Hardware, Paying, Refusal, basis_of, hardware_of
from analysis.service.largest_load import (
    GROUP,
    METRICS_READ,
    STATISTICS_READ,
    Keys,
    Level,
    Reach,
    largest_loads,
    points,
    unplaced,
)
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
from answers.cost.values import Amount, Money
from answers.decide.overview import narrowed
from answers.decide.values import Decision, Difference, Saving
from answers.wording import badges, known
from warehouse import queries
from warehouse.catalogue import JUDGED_PER_REQUEST, METRICS
from warehouse.filters import UNKNOWN, Filters
from warehouse.loads import Load
from warehouse.store import Reader

# --- Service levels worth asking about: bounds that some of the measured loads keep and some do not.


#: Quantiles of the normal distribution, 0.90 over 0.975. Those of t with few degrees of freedom lie
#: closer to the middle, so that the 90 % end is never too near.
_NEARER = 1.2816 / 1.9600
_BETTER: tuple[Word, Word] = (GAIN, LIKELY_GAIN)
_WORSE: tuple[Word, Word] = (LOSS, LIKELY_LOSS)


@dataclass(frozen=True)
class Ends:
    """How many times the baseline's throughput an arm makes: as expected, and at both ends of the
    plain, the study-adjusted and the one-sided 90 % interval (None: nothing repeats)."""

    expected: float
    plain: tuple[float, float] | None
    adjusted: tuple[float, float] | None
    likely: tuple[float, float] | None


def ends_of(saving: Saving, difference: Difference) -> Ends:
    """Return the ends of a decision's saving, from the difference in throughput behind it."""
    plain = _both(difference.low, difference.high)
    return Ends(
        1 / (1 - saving.per_output_token),
        plain,
        _both(difference.adjusted_low, difference.adjusted_high),
        None if plain is None else _nearer(*plain),
    )


def _both(low: float | None, high: float | None) -> tuple[float, float] | None:
    return None if low is None or high is None else (1 + low, 1 + high)


def _nearer(low: float, high: float) -> tuple[float, float]:
    if not 0 < low <= high < inf:
        return low, high
    middle, half = (log(low) + log(high)) / 2, (log(high) - log(low)) / 2 * _NEARER
    return exp(middle - half), exp(middle + half)


def amount(saved: Callable[[float], float], ends: Ends, saving: Saving) -> Amount:
    """Return what is ``saved`` at so many times the baseline's throughput, with interval and word.

    Whole GPUs come in steps: a settled gain of throughput may free none. So the word is the
    saving's only where an end of its interval still saves (or loses) something, and never surer.
    """
    value = saved(ends.expected)
    low, high = (None, None) if ends.plain is None else map(saved, ends.plain)
    return Amount(value, low, high, _word(saved, ends, saving.word, value))


def _word(saved: Callable[[float], float], ends: Ends, word: Word, value: float) -> Word:
    settled, likely = _BETTER if value > 0 else _WORSE
    sign, end = (1, 0) if value > 0 else (-1, 1)
    if word not in (settled, likely) or ends.adjusted is None or ends.likely is None:
        return OPEN
    if word == settled and sign * saved(ends.adjusted[end]) > 0:
        return settled
    return likely if sign * saved(ends.likely[end]) > 0 else OPEN


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
    own = rows[(rows["metric"] == metric) & (rows["statistic"] == statistic)]
    values = own["value"].dropna()
    if values.empty:
        return []
    limits = dict.fromkeys(_round(float(value)) for value in values.quantile(list(shares)))
    unit = METRICS[metric].unit
    return [f"{metric}:{statistic}<{limit}{unit}" for limit in limits if float(limit) > 0]


def _round(value: float) -> str:
    """Round up to two digits, as a person would write a bound."""
    if value <= 0:
        return "0"
    step = 10.0 ** (np.floor(np.log10(value)) - 1)
    return f"{np.ceil(value / step) * step:.6g}"


# --- Arms that are looked at each on its own: their setting, their name, their hardware.


def kept_to(one: Decision, chosen: Filters) -> Filters:
    """Return the chosen filters, kept to a decision's subject and datasets; arms keep the
    baseline."""
    names = tuple(name for name, _ in one.traffic.mix)
    return replace(
        narrowed(one.subject, chosen),
        dataset=names or _only(one.traffic.dataset),
        tensor_parallel_size=_only(one.subject.tensor_parallel_size),
    )


def _only(value: str | int | None) -> tuple[str, ...]:
    return (UNKNOWN if value is None else str(value),)


@dataclass(frozen=True)
class Place:
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


def places(levels: ArmLevels, cells: pd.DataFrame) -> Mapping[Keys, Place]:
    """Return the place of each (setting, arm_id). ``cells`` as the query of that name returns
    them."""
    keys, by_hand = levels.keys, _set_by_hand(levels, cells)
    setting, arm = (keys.index.get_level_values(name) for name in ("setting", "arm_id"))
    settings = setting_names(keys[~setting.duplicated()].droplevel("arm_id"))
    arms = arm_names(keys[~arm.duplicated()].droplevel("setting"))
    return {
        key: Place(
            str(settings[key[0]]), str(arms[key[1]]), str(row["arm_label"]),
            badges(_text(row.get("evidence")), key in by_hand), _text(row.get("model")),
            _text(row.get("dataset")), _text(row.get("evidence")), hardware_of(row),
            _text(row.get("precision")), _text(row.get("comparable_as")),
        )
        for key, row in zip(keys.index, records(keys), strict=True)
    }  # fmt: skip


def _text(value: object) -> str | None:
    found = plain(value)
    return None if found is None else str(found)


def _set_by_hand(levels: ArmLevels, cells: pd.DataFrame) -> set[Keys]:
    """Return the arms with a cell whose acceptance nobody measured."""
    marked = cells.loc[cells["synthetic_acceptance"].fillna(False).astype(bool), "cell_id"]
    mine = levels.values["cell_id"].isin(set(marked))
    rows = levels.values.loc[mine, ["setting", "arm_id"]].drop_duplicates()
    return set(rows.itertuples(index=False, name=None))


# --- What is traded for what: tokens per second of a GPU against those that one user sees.


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


# --- Up to which load each arm keeps a service level, and what it yields and costs there.


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
