"""The best K of each load: by throughput or another metric, within an SLO, ties to the smaller K."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import exp, log
from statistics import fmean
from typing import Any

import numpy as np
import pandas as pd

from analysis.frames import records_by
from analysis.matching.arm_values import arm_values, with_baseline
from analysis.service.slo import Slo
from analysis.verdicts.duels import TIE, Duel, Duels, Met, duels
from warehouse.catalogue import METRICS
from warehouse.errors import InvalidInput


@dataclass(frozen=True)
class Choice:
    """The K for one load. ``values``: what each measured K gave (geometric mean over repeats);
    ``leader``: the best of those that may be chosen; ``k``: the smallest that is tied with it, 0 for
    no speculation, None where none meets the SLO; ``tied``: all that are. ``gain``: of ``k`` over the
    baseline, None without one or at k = 0."""

    concurrency: int
    values: Mapping[int, float]
    repeats: int
    allowed: tuple[int, ...]
    leader: int | None
    tied: tuple[int, ...]
    k: int | None
    gain: Duel | None

    @property
    def evidence(self) -> str:
        """What the choice rests on, in words."""
        if self.k is None:
            return "no K meets the SLO"
        if len(self.values) < 2:
            return "only one K measured"
        return "one repeat: noise unknown" if self.repeats < 2 else f"{self.repeats} repeats"


@dataclass(frozen=True)
class BestK:
    """The choices of one family on one setting, by load ascending; ``cell_id``: one of its
    speculative cells, for the facts."""

    setting: int
    dataset: str
    family: str
    cell_id: str
    metric: str
    statistic: str
    choices: tuple[Choice, ...]

    def candidates(self) -> pd.DataFrame:
        """concurrency, k, worth: what ``dynamic_k.dynamic_table`` chooses from. Higher is better;
        tied K are worth the same."""
        rows = [
            (choice.concurrency, k, _worth(choice, k, self.metric))
            for choice in self.choices
            for k in choice.allowed
        ]
        return pd.DataFrame(rows, columns=["concurrency", "k", "worth"])


@dataclass(frozen=True)
class Goal:
    """What is best: a metric of the catalogue, ``slo`` beside it, and what difference is a tie."""

    metric: str = "output_throughput"
    statistic: str = "mean"
    slo: Slo | None = None
    tie: float = TIE


def best_k(cells: pd.DataFrame, measurements: pd.DataFrame, goal: Goal) -> list[BestK]:
    """A ``BestK`` for each setting and family that has a speculative cell.

    ``cells`` as the query of that name, ``measurements``: cell_id, metric, statistic, value (the
    goal's and its SLO's). Raises InvalidInput for a metric that has no better direction.
    """
    if METRICS[goal.metric].better == "neither":
        raise InvalidInput(f"{goal.metric} is neither better high nor low; choose another metric.")
    found = with_baseline(arm_values(cells, measurements, goal.metric, goal.statistic))
    found = found[found["value"] > 0].assign(arm=found["k"])
    if found.empty:
        return []
    fought = duels(found, goal.metric, goal.statistic, goal.tie)
    kept = _within(cells, measurements, goal.slo)
    return [
        _of_league(rows, fought, goal, kept)
        for _, rows in found.groupby("league", sort=True)
        if (rows["k"] > 0).any()
    ]


def _of_league(rows: pd.DataFrame, fought: Duels, goal: Goal, kept: set[str] | None) -> BestK:
    spoken = rows[rows["k"] > 0].iloc[0]
    met = {load: fought.at(int(spoken["league"]), load) for load in rows["concurrency"].tolist()}
    levels = records_by(rows, ["concurrency"], ["k", "value", "cell_id"])
    choices = [_choice(int(load), levels[load,], met[load], goal, kept) for load in sorted(met)]
    return BestK(
        int(spoken["setting"]), str(spoken["dataset"]), str(spoken["family"]),
        str(spoken["cell_id"]), goal.metric, goal.statistic, tuple(choices),
    )  # fmt: skip


def _choice(
    concurrency: int, rows: list[dict[str, Any]], met: Met, goal: Goal, kept: set[str] | None
) -> Choice:
    """``rows``: a cell each, with its k and its value."""
    logs: dict[int, list[float]] = {}
    for row in sorted(rows, key=lambda row: int(row["k"])):
        logs.setdefault(int(row["k"]), []).append(log(row["value"]))
    values = {k: exp(fmean(own)) for k, own in logs.items()}
    repeats = min(len(own) for own in logs.values())
    missed = {int(row["k"]) for row in rows if kept is not None and row["cell_id"] not in kept}
    allowed = tuple(k for k in values if k not in missed)
    if not allowed:
        return Choice(concurrency, values, repeats, (), None, (), None, None)
    sign = 1 if METRICS[goal.metric].better == "higher" else -1
    leader = max(allowed, key=lambda k: (sign * log(values[k]), -k))
    tied = tuple(k for k in allowed if k == leader or _tied(k, leader, met))
    chosen = min(tied)
    return Choice(concurrency, values, repeats, allowed, leader, tied, chosen, met.get((0, chosen)))


def _tied(k: int, leader: int, met: Met) -> bool:
    """Whether a K holds its own; arms that never met at this load are not taken for equal."""
    duel = met.get((min(k, leader), max(k, leader)))
    return duel is not None and duel.tied


def _within(cells: pd.DataFrame, measurements: pd.DataFrame, slo: Slo | None) -> set[str] | None:
    """The cells that meet every bound; None where there is no SLO. What was not measured is not
    met."""
    if slo is None:
        return None
    kept = set(cells["cell_id"])
    for bound in slo.bounds:
        of_bound = (measurements["metric"] == bound.metric) & (
            measurements["statistic"] == bound.statistic
        )
        rows = measurements[of_bound]
        kept &= set(rows.loc[bound.holds_each(rows["value"].to_numpy(dtype=np.float64)), "cell_id"])
    return kept


def _worth(choice: Choice, k: int, metric: str) -> float:
    value = choice.values[choice.leader if k in choice.tied and choice.leader is not None else k]
    return value if METRICS[metric].better == "higher" else 1 / value


def facts(cells: pd.DataFrame, found: BestK) -> dict[str, Any]:
    """The fields of one of its speculative cells, as ``serve_line`` takes them."""
    row = cells[cells["cell_id"] == found.cell_id].iloc[0]
    return {str(name): value for name, value in row.items()}
