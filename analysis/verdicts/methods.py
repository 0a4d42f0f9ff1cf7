"""Arms ranked against one baseline, per setting: whichever methods and K were measured.

Over the loads that all ranked arms and the baseline share; an arm that misses one of them is told
apart, with no rank, since a mean over fewer loads is another question. Arms that are tied with the
first of their rank share it.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from math import exp

import numpy as np
import pandas as pd

from analysis.drafts.best_k import Goal
from analysis.matching.arm_values import arm_values
from analysis.verdicts.duels import Duel, Met, duels


@dataclass(frozen=True)
class Ranked:
    """One arm. ``rank`` from 1, shared by arms that are tied; None for one that misses loads.
    ``value`` and ``baseline``: geometric means over ``concurrencies``; ``gain``: of the arm over the
    baseline, with its interval."""

    family: str
    k: int
    rank: int | None
    value: float
    baseline: float
    gain: Duel
    concurrencies: tuple[int, ...]


@dataclass(frozen=True)
class Ranking:
    """The arms of one setting, best first, then those without a rank. ``cell_id``: one of them."""

    setting: int
    dataset: str
    cell_id: str
    arms: tuple[Ranked, ...]


@dataclass(frozen=True)
class _Field:
    """Arms of one setting that are compared over ``loads``; ``rows``: theirs and the baseline's."""

    rows: pd.DataFrame
    arms: tuple[int, ...]
    loads: tuple[int, ...]
    ranked: bool


def rankings(cells: pd.DataFrame, measurements: pd.DataFrame, goal: Goal) -> list[Ranking]:
    """A ranking for each setting that has a baseline and an arm to compare with it.

    Frames as for ``best_k``; of ``goal`` the metric, statistic and tie count.
    """
    values = arm_values(cells, measurements, goal.metric, goal.statistic)
    values = values[values["value"] > 0]
    settings = [list(_fields(rows)) for _, rows in values.groupby("setting", sort=True)]
    fields = [field for found in settings for field in found]
    if not fields:
        return []
    # All at once: an interval costs as much for one series as for a thousand.
    leagues = [field.rows.assign(league=number) for number, field in enumerate(fields)]
    fought = duels(pd.concat(leagues), goal.metric, goal.statistic, goal.tie)
    met = iter([fought.at(number) for number in range(len(fields))])
    return [_ranking([(field, next(met)) for field in found]) for found in settings if found]


def _ranking(fields: list[tuple[_Field, Met]]) -> Ranking:
    drafted = fields[0][0].rows
    first = drafted[drafted["arm"] > 0].iloc[0]
    arms = tuple(arm for field, met in fields for arm in _ranked(field, met))
    return Ranking(int(first["setting"]), str(first["dataset"]), str(first["cell_id"]), arms)


def _fields(values: pd.DataFrame) -> Iterator[_Field]:
    """The arms with all loads together, then each of the others alone. Arm 0 is the baseline."""
    values = values.assign(arm=values.groupby(["family", "k"]).ngroup() + 1)
    values["arm"] = values["arm"].mask(values["k"] == 0, 0)
    loads = {int(str(arm)): set(rows) for arm, rows in values.groupby("arm")["concurrency"]}
    common = loads.pop(0, set())
    drafted = {arm: own & common for arm, own in loads.items() if own & common}
    shared = set().union(*drafted.values())
    if shared not in drafted.values():
        # Every arm misses something: what all have is the best that can be compared.
        shared = set.intersection(*drafted.values()) if drafted else set()
    complete = tuple(arm for arm, own in drafted.items() if shared and own >= shared)
    if complete:
        yield _field(values, complete, shared, ranked=True)
    for arm in sorted(drafted.keys() - set(complete)):
        yield _field(values, (arm,), drafted[arm], ranked=False)


def _field(values: pd.DataFrame, arms: tuple[int, ...], loads: set[int], ranked: bool) -> _Field:
    rows = values[values["arm"].isin([0, *arms]) & values["concurrency"].isin(loads)]
    return _Field(rows, arms, tuple(sorted(int(load) for load in loads)), ranked)


def _ranked(field: _Field, met: Met) -> list[Ranked]:
    order = sorted(
        (arm for arm in field.arms if (0, arm) in met),
        key=lambda arm: (-met[0, arm].improvement, arm),
    )
    places = _places(order, met) if field.ranked else dict.fromkeys(order)
    own = field.rows.drop_duplicates("arm").set_index("arm")
    return [
        Ranked(
            str(own.at[arm, "family"]), int(str(own.at[arm, "k"])), places[arm],
            _mean(field.rows, arm), _mean(field.rows, 0), met[0, arm], field.loads,
        )
        for arm in order
    ]  # fmt: skip


def _places(order: list[int], met: Met) -> dict[int, int | None]:
    """Ranks from 1; an arm takes that of the first above it with which it is tied."""
    places: dict[int, int | None] = {}
    leader = None
    for place, arm in enumerate(order, start=1):
        duel = None if leader is None else met.get((min(arm, leader), max(arm, leader)))
        if duel is None or not duel.tied:
            leader = arm
            places[arm] = place
        else:
            places[arm] = places[leader] if leader is not None else place
    return places


def _mean(rows: pd.DataFrame, arm: int) -> float:
    """Geometric mean over repeats, then over loads."""
    logs = rows[rows["arm"] == arm].assign(log=lambda r: np.log(r["value"]))
    return exp(float(logs.groupby("concurrency")["log"].mean().mean()))
