"""Percentiles by nearest rank, weighted where each request stands for many tokens."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def nearest_rank(
    values: Floats, quantiles: Sequence[float], weights: Floats | None = None
) -> Floats:
    """Return the smallest value whose cumulative weight reaches each quantile (0-1), no
    interpolation.

    Equals numpy's ``inverted_cdf``. ``values`` and ``weights`` are one-dimensional, without NaN;
    returns one value per quantile, NaN where there are no values or no weight.
    """
    kept = values if weights is None else values[weights > 0]
    if kept.size == 0:
        return np.full(len(quantiles), np.nan)
    if weights is None:
        return np.asarray(np.quantile(kept, quantiles, method="inverted_cdf"), dtype=np.float64)
    order = np.argsort(kept, kind="stable")
    cumulative = np.cumsum(weights[weights > 0][order])
    # A cumulative share that misses its quantile by a rounding error still reaches it.
    targets = np.asarray(quantiles) * cumulative[-1] * (1 - 1e-12)
    ranks = np.minimum(np.searchsorted(cumulative, targets), kept.size - 1)
    return np.asarray(kept[order][ranks], dtype=np.float64)
