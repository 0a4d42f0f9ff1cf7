"""One study compares many arms at many loads: how much surer each difference must be for that.

The share of false ones among the settled differences of a study is kept at 5 % (Benjamini and
Hochberg 1995). The intervals that go with it have the level 1 - 0.05 k / m, where k of the study's m
differences are settled (Benjamini and Yekutieli 2005, doi:10.1198/016214504000001907): such an
interval excludes zero exactly where the difference is settled. Where nothing differs, at most 5 % of
studies settle anything.

``scipy.stats.false_discovery_control`` settles the same ones (a test holds both together). It is not
called here: importing ``scipy.stats`` takes 0.6 s of a processor, as long as the rest of a verdict.
"""

import numpy as np
import pandas as pd
from numpy.typing import NDArray

Floats = NDArray[np.float64]

#: Share of false ones among the settled differences of a study.
FALSE = 0.05


def error_rates(p_values: Floats, studies: NDArray[np.int64]) -> Floats:
    """Return for each difference the error rate (0-1) of its study-adjusted interval.

    ``p_values``: two-sided, NaN where nothing repeats; ``studies`` numbers the study of each.
    """
    rates = np.full(len(p_values), FALSE)
    known = np.isfinite(p_values)
    for _, rows in pd.Series(np.flatnonzero(known)).groupby(studies[known]):
        places = rows.to_numpy()
        rates[places] = FALSE * max(settled(p_values[places]), 1) / len(places)
    return rates


def settled(p_values: Floats, false: float = FALSE) -> int:
    """Return how many p-values are settled among all: the largest k with the k-th smallest at most
    ``false`` k / m."""
    allowed = false * np.arange(1, len(p_values) + 1) / len(p_values)
    held = np.flatnonzero(np.sort(p_values) <= allowed)
    return int(held[-1]) + 1 if held.size else 0
