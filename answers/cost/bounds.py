"""Service levels worth asking about: bounds that some of the measured loads keep and some do not."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from warehouse import queries
from warehouse.catalogue import JUDGED_PER_REQUEST, METRICS
from warehouse.filters import Filters
from warehouse.store_read import Reader

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
