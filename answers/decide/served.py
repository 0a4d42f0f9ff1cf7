"""An open load in words: what share of it each arm serves, and who meets the SLO there."""

from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from analysis.matching.arms import ATTAINED, KEEPS_UP
from analysis.matching.comparison import Comparison
from analysis.service.slo import Bound, Slo
from answers.decide.rates import Source
from answers.decide.values import Level
from answers.wording import listed, percent

#: The baseline's value, the arm's.
_Both = tuple[float, float]


@dataclass(frozen=True)
class AtLoad:
    """What one arm and its baseline measured at one load; over several datasets, on each of
    them."""

    level: Level
    rows: pd.DataFrame

    @classmethod
    def of(cls, found: Comparison, sources: Sequence[Source], level: Level) -> "AtLoad":
        """Return what was measured with the level's arm; nothing at a load between two measured
        ones."""
        levels = found.levels
        here = pd.Series(False, index=levels.index)
        if level.load in found.loads:
            place = found.loads.index(level.load)
            for one in sources:
                here |= (levels["setting"] == one.setting) & (levels["arm_id"] == one.arm_id)
            here &= levels["load"] == place
        return cls(level, levels[here])

    def values(self, metric: str, statistic: str) -> list[_Both]:
        """Return the values of baseline and arm, a pair for each dataset; none where nobody
        measured them."""
        rows = self.rows[
            (self.rows["metric"] == metric) & (self.rows["statistic"] == statistic)
        ].dropna(subset=["baseline", "speculative"])
        return list(zip(rows["baseline"].tolist(), rows["speculative"].tolist(), strict=True))


def served(at: AtLoad) -> str:
    """Say what share of an open load each arm serves, on the dataset where it is least; empty for a
    closed load."""
    values = at.values(*ATTAINED)
    if not at.level.load.is_open or not values:
        return ""
    arm, (old, new) = at.level.arm, (min(side) for side in zip(*values, strict=True))
    shares = f"the baseline {_share(old)} and {arm} {_share(new)}"
    if old >= KEEPS_UP and new >= KEEPS_UP:
        return f"Both keep up there ({shares} of what is offered), so latency decides."
    if new >= KEEPS_UP:
        return f"Only {arm} keeps up there: {shares} of what is offered is served."
    who = "The baseline alone keeps up" if old >= KEEPS_UP else "Neither keeps up"
    return f"{who} there: {shares} of what is offered is served."


def met(at: AtLoad, slo: Slo | None) -> str:
    """Say which arm meets the SLO at a load, and which bounds the others miss; empty without an
    SLO."""
    if slo is None or at.rows.empty:
        return ""
    missed = [_missed(at, slo, side) for side in (0, 1)]
    names = ("the baseline", at.level.arm)
    told = [f"{name} misses {listed(texts)}" if texts else f"{name} meets it"
            for name, texts in zip(names, missed, strict=True)]  # fmt: skip
    return f"Of the SLO ({slo.text}) at {at.level.load.text}: {' and '.join(told)}."


def _missed(at: AtLoad, slo: Slo, side: int) -> list[str]:
    return [bound.text for bound in slo.bounds if not _holds(at, bound, side)]


def _holds(at: AtLoad, bound: Bound, side: int) -> bool:
    values = at.values(bound.metric, bound.statistic)
    return bool(values) and all(bound.holds(value[side]) for value in values)


def _share(ratio: float) -> str:
    """Write a served share in percent, at most 100: more than that is a short measurement's
    luck."""
    return percent(min(1.0, ratio), sign=False)
