"""Any two arms against each other, cell by cell: which is better, or whether they are tied.

Cells meet where setting, concurrency, prompts, seed and repeat are the same, so that what a repeat
shares cancels. Two arms are *tied* where the difference is not measurable (``analysis.significance.confidence``)
or too small to matter; with a single repeat nothing says how large the noise is, and only the
second holds.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd

from analysis.frames import records
from analysis.significance.confidence import intervals

#: Differences up to this share are a tie, measurable or not.
TIE = 0.02
_MEET = ["league", "concurrency", "prompts", "repeat"]
_TOLD = ("improvement", "low", "high", "repeats", "verdict", "tied")


@dataclass(frozen=True)
class Duel:
    """``improvement``, ``low``, ``high``: of the other arm over the one, ratios, positive is
    better; ``verdict`` as in ``analysis.significance.confidence``."""

    improvement: float
    low: float
    high: float
    repeats: int
    verdict: str
    tied: bool


#: By (one, other), one < other.
Met = Mapping[tuple[int, int], Duel]


@dataclass(frozen=True)
class Duels:
    """``levels``: by league and concurrency; ``geomeans``: by league, over all loads that both
    arms of a duel have."""

    levels: Mapping[tuple[int, int], Met]
    geomeans: Mapping[int, Met]

    def at(self, league: int, concurrency: int | None = None) -> Met:
        """The duels of one league, at a load or, without one, over all; none is an answer."""
        if concurrency is None:
            return self.geomeans.get(league, {})
        return self.levels.get((league, concurrency), {})


def duels(values: pd.DataFrame, metric: str, statistic: str, tie: float = TIE) -> Duels:
    """Every pair of arms of every league.

    ``values``: league, arm (numbers), concurrency, prompts, repeat, value. Arms of different
    leagues never meet.
    """
    met = _meetings(values).assign(metric=metric, statistic=statistic)
    if met.empty:
        return Duels({}, {})
    by = ["league", "one", "other"]
    names = met[by].drop_duplicates().reset_index(drop=True)
    numbered = met.merge(names.assign(arm_id=names.index), on=by).rename(
        columns={"league": "setting"}
    )
    found = intervals(numbered.drop(columns=["one", "other"]))
    levels: dict[tuple[int, int], dict[tuple[int, int], Duel]] = {}
    for row in records(_judged(found.levels, names, tie)):
        at = levels.setdefault((row["league"], row["concurrency"]), {})
        at[row["one"], row["other"]] = _duel(row)
    geomeans: dict[int, dict[tuple[int, int], Duel]] = {}
    for row in records(_judged(found.geomean, names, tie)):
        geomeans.setdefault(row["league"], {})[row["one"], row["other"]] = _duel(row)
    return Duels(levels, geomeans)


def _duel(row: dict[str, Any]) -> Duel:
    return Duel(**{name: row[name] for name in _TOLD})


def _meetings(values: pd.DataFrame) -> pd.DataFrame:
    """A row per pair of arms and repeat: league, one, other, concurrency, repeat, baseline (the
    value of ``one``), speculative (that of ``other``)."""
    positive = values[values["value"] > 0]
    # A repeat that was not numbered may hold several cells: they count as one.
    logs = positive.assign(log=np.log(positive["value"]))
    once = logs.groupby([*_MEET, "arm"], sort=True)["log"].mean().reset_index()
    wide = once.pivot(index=_MEET, columns="arm", values="log").apply(np.exp)
    pairs = [
        pd.DataFrame({"baseline": wide[a], "speculative": wide[b]})
        .dropna()
        .assign(one=a, other=b)
        .reset_index()
        for a, b in combinations(sorted(wide.columns), 2)
    ]
    return pd.concat(pairs, ignore_index=True) if pairs else pd.DataFrame(columns=[*_MEET, "one"])


def _judged(found: pd.DataFrame, names: pd.DataFrame, tie: float) -> pd.DataFrame:
    told = found.join(names[["one", "other"]], on="arm_id").rename(columns={"setting": "league"})
    small = told["improvement"].abs() <= tie
    unclear = (told["repeats"] > 1) & ~told["verdict"].isin(["better", "worse"])
    return told.assign(tied=small | unclear)
