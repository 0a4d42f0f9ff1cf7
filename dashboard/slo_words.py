"""The text of an SLO: what can be written about the cells at hand, and what stands there at first."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from analysis.service.slo import Slo, parse
from warehouse.catalogue import JUDGED_PER_REQUEST, METRICS

#: What is read for suggestions: metrics that an SLO is usually about.
SUGGESTED: tuple[str, ...] = JUDGED_PER_REQUEST
SUGGESTED_STATISTICS: tuple[str, ...] = ("p50", "p95", "p99")
#: Of the values measured, which shares a suggested bound lets pass.
_SHARES = (0.25, 0.5, 0.75)
_FIRST = ("ttft", "p95"), ("itl", "p95")


def suggestions(measurements: pd.DataFrame) -> list[str]:
    """Bounds that some of the measured loads meet and some do not: ``ttft:p95<200ms``, …

    ``measurements``: metric, statistic, value of the cells at hand.
    """
    return [
        text
        for metric in SUGGESTED
        for statistic in SUGGESTED_STATISTICS
        for text in _bounds(measurements, metric, statistic, _SHARES)
    ]


def first_slo(measurements: pd.DataFrame) -> Slo | None:
    """An SLO to look at before one is written: bounds in the middle of what was measured."""
    texts = [
        text for metric, statistic in _FIRST
        for text in _bounds(measurements, metric, statistic, (0.5,))
    ]  # fmt: skip
    return parse("; ".join(texts)) if texts else None


def _bounds(rows: pd.DataFrame, metric: str, statistic: str, shares: Sequence[float]) -> list[str]:
    own = rows[(rows["metric"] == metric) & (rows["statistic"] == statistic)]
    values = own["value"].dropna()
    if values.empty:
        return []
    limits = dict.fromkeys(_round(float(value)) for value in values.quantile(list(shares)))
    unit = METRICS[metric].unit
    return [f"{metric}:{statistic}<{limit}{unit}" for limit in limits if float(limit) > 0]


def _round(value: float) -> str:
    """Two digits, upwards: a bound that a person would write."""
    if value <= 0:
        return "0"
    step = 10.0 ** (np.floor(np.log10(value)) - 1)
    return f"{np.ceil(value / step) * step:.6g}"
