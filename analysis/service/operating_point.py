"""Where an arm is run when its cost is asked for: at its peak, at a chosen load, or within an SLO."""

from dataclasses import dataclass
from math import isnan

import pandas as pd

from analysis.matching.arm_levels import means
from analysis.service.largest_load import largest_load
from analysis.service.slo import Slo

#: What is read beside the metrics of an SLO.
METRICS_READ = ("output_throughput", "total_throughput")


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
    table = means(values.assign(setting=0, arm_id=0))
    rates = table[table["statistic"] == "mean"].pivot_table(
        index="concurrency", columns="metric", values="value"
    ).reindex(columns=list(METRICS_READ))  # fmt: skip
    rates = rates[(rates["output_throughput"] > 0) & _allowed(values, rates, rule)]
    if rates.empty:
        return None
    level = int(str(rates["output_throughput"].idxmax()))
    output, total = (float(rates[name][level]) for name in METRICS_READ)
    cells = values.loc[values["concurrency"] == level, "cell_id"].unique()
    return Point(level, output, None if isnan(total) else total, tuple(sorted(cells)))


def _allowed(values: pd.DataFrame, rates: pd.DataFrame, rule: Rule) -> pd.Series:
    levels = rates.index.to_series()
    if rule.slo is not None:
        largest = largest_load(values, rule.slo).largest
        return levels <= (largest if largest is not None else -1)
    return levels == rule.concurrency if rule.concurrency is not None else levels >= 0
