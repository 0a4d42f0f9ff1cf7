"""The candidate that differs from a cell in the fewest fields."""

import numpy as np
from numpy.typing import NDArray

#: Distinct candidates looked at; beyond these a nearer one may be missed, never a pair.
MOST = 256


def nearest(
    codes: NDArray[np.int64], rows: NDArray[np.int64], candidates: NDArray[np.int64]
) -> NDArray[np.int64]:
    """For each of ``rows`` the candidate row with the fewest differing columns; -1 for none."""
    best = np.full(rows.size, -1, dtype=np.int64)
    if not rows.size or not candidates.size:
        return best
    distinct, back = np.unique(codes[rows], axis=0, return_inverse=True)
    kinds, first = np.unique(codes[candidates], axis=0, return_index=True)
    spread = np.unique(np.linspace(0, len(kinds) - 1, min(MOST, len(kinds))).astype(np.int64))
    columns = np.ascontiguousarray(distinct.T.astype(np.int32))
    fewest = np.full(len(distinct), codes.shape[1] + 1)
    found = np.zeros(len(distinct), dtype=np.int64)
    for at in spread.tolist():
        differing = (columns != kinds[at][:, None]).sum(axis=0)
        nearer = differing < fewest
        fewest[nearer], found[nearer] = differing[nearer], candidates[first[at]]
    return np.asarray(found[back.ravel()], dtype=np.int64)
