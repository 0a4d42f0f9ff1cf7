"""One study compares many arms at many loads: how much surer each difference must be for that.

The share of false ones among the settled differences of a study is kept at 5 % (Benjamini and
Hochberg 1995). The intervals that go with it have the level 1 - 0.05 k / m, where k of the study's m
differences are settled (Benjamini and Yekutieli 2005, doi:10.1198/016214504000001907): such an
interval excludes zero exactly where the difference is settled. Where nothing differs, at most 5 % of
studies settle anything.
"""

import numpy as np
import pandas as pd
from numpy.typing import NDArray

Floats = NDArray[np.float64]

#: Share of false ones among the settled differences of a study.
FALSE = 0.05


def error_rates(p_values: Floats, studies: NDArray[np.int64]) -> Floats:
    """For each difference the error rate (0-1) of its study-adjusted interval.

    ``p_values``: two-sided, NaN where nothing repeats; ``studies`` numbers the study of each.
    """
    rates = np.full(len(p_values), FALSE)
    known = np.isfinite(p_values)
    for _, rows in pd.Series(np.flatnonzero(known)).groupby(studies[known]):
        places = rows.to_numpy()
        settled = _settled(p_values[places])
        rates[places] = FALSE * max(settled, 1) / len(places)
    return rates


def _settled(p_values: Floats) -> int:
    """How many are settled: the k smallest, where the k-th is at most FALSE k / m."""
    allowed = FALSE * np.arange(1, len(p_values) + 1) / len(p_values)
    held = np.flatnonzero(np.sort(p_values) <= allowed)
    return int(held[-1]) + 1 if held.size else 0
