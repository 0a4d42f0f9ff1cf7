"""Where an arm is run when its cost is asked for: at its peak, at a chosen load, or within an SLO."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import isnan

import pandas as pd

from analysis.frames import records, records_by
from analysis.matching.arm_levels import means
from analysis.service.largest_load import Keys, Load, largest_loads
from analysis.service.slo import Slo

#: What is read beside the metrics of an SLO.
METRICS_READ = ("output_throughput", "total_throughput")
_LEVEL = ["setting", "arm_id", "concurrency"]


@dataclass(frozen=True)
class Rule:
    """How the load is chosen: ``slo`` first, else ``concurrency``, else the peak throughput."""

    concurrency: int | None = None
    slo: Slo | None = None

    @property
    def text(self) -> str:
        """The rule in words."""
        if self.slo is not None:
            return f"within {self.slo.text}"
        return "at its peak" if self.concurrency is None else f"at concurrency {self.concurrency}"


@dataclass(frozen=True)
class Point:
    """One arm at the load where it is costed (tokens/s; ``total`` None where unknown)."""

    concurrency: int
    output: float
    total: float | None
    cells: tuple[str, ...]


def operating_point(values: pd.DataFrame, rule: Rule) -> Point | None:
    """The level of one arm that the rule picks; None where it picks none.

    ``values``: concurrency, cell_id, metric, statistic, value of the arm's cells. Within an SLO it
    is the level of the highest output throughput up to the largest load.
    """
    return operating_points(values.assign(setting=0, arm_id=0), rule).get((0, 0))


def operating_points(
    values: pd.DataFrame, rule: Rule, loads: Mapping[Keys, Load] | None = None
) -> dict[Keys, Point]:
    """``operating_point`` of each arm for which there is one, by (setting, arm_id), which
    ``values`` has as columns too. ``loads``: the largest ones within the rule's SLO, where they
    are known already."""
    wanted = (values["statistic"] == "mean") & values["metric"].isin(METRICS_READ)
    rates = means(values[wanted]).pivot_table(index=_LEVEL, columns="metric", values="value")
    if rates.empty:
        return {}
    rates = rates.reindex(columns=list(METRICS_READ)).reset_index()
    if rule.slo is not None and loads is None:
        loads = largest_loads(values, rule.slo)
    rates = rates[(rates["output_throughput"] > 0) & _allowed(rates, rule, loads)]
    # Levels are ascending: of several that yield the same, the lowest is taken.
    best = rates.sort_values("output_throughput", ascending=False, kind="stable")
    best = best.drop_duplicates(["setting", "arm_id"])
    at = values[[*_LEVEL, "cell_id"]].drop_duplicates().merge(best[_LEVEL], on=_LEVEL)
    cells = records_by(at, ["setting", "arm_id"], ["cell_id"])
    return {
        (key := (int(row["setting"]), int(row["arm_id"]))): Point(
            int(row["concurrency"]),
            float(row["output_throughput"]),
            None if isnan(row["total_throughput"]) else float(row["total_throughput"]),
            tuple(sorted(cell["cell_id"] for cell in cells[key])),
        )
        for row in records(best)
    }


def _allowed(rates: pd.DataFrame, rule: Rule, loads: Mapping[Keys, Load] | None) -> pd.Series:
    levels = rates["concurrency"]
    if loads is not None:
        keys = zip(rates["setting"].tolist(), rates["arm_id"].tolist(), strict=True)
        found = [loads[key].largest for key in keys]
        return levels <= [-1 if largest is None else largest for largest in found]
    return levels == rule.concurrency if rule.concurrency is not None else levels >= 0
