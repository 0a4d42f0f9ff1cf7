"""Do the repeats of a series move together at all its levels?

Levels that ran on one server start share what that start drew (memory, clocks, compiled kernels).
Then six levels are not six witnesses, and only another start is another repeat. An exact test tells:
shuffling the repeats within each level destroys what they share and nothing else, whatever the
noise of each level is (a permutation test; Good 2005, doi:10.1007/b138696).
"""

from collections.abc import Iterator

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import stdtrit

Floats = NDArray[np.float64]
Places = NDArray[np.intp]

SHUFFLES = 200
#: Chance of finding a shared move where there is none.
ALARM = 0.04
#: Fewer levels than this cannot move together.
FEWEST_LEVELS = 3


def share_moves(log_ratios: Floats) -> NDArray[np.bool_]:
    """Whether each series (…, levels, repeats) moves as one; False for fewer than three levels.

    Every series meets the same shuffles, so that its answer is the one that it has alone.
    """
    levels, repeats = log_ratios.shape[-2:]
    outer = log_ratios.shape[:-2]
    if levels < FEWEST_LEVELS or repeats < 2:
        return np.zeros(outer, dtype=bool)
    mixed = log_ratios.reshape(-1, levels * repeats) @ _shuffles(levels, repeats)
    moves = mixed.reshape(-1, SHUFFLES + 1, repeats).var(axis=-1, ddof=1)
    as_large = (moves[:, 1:] >= moves[:, :1] * (1 - 1e-9)).sum(axis=-1)
    return np.asarray((as_large + 1) / (SHUFFLES + 1) <= ALARM).reshape(outer)


def _shuffles(levels: int, repeats: int) -> Floats:
    """(levels x repeats, shuffles x repeats): what makes of a flat series the mean over its levels
    of each repeat, first as it was measured, then after each shuffle."""
    chance = np.random.default_rng(0)
    measured = np.tile(np.arange(repeats), (levels, 1))
    orders = [measured, *(chance.permuted(measured, axis=-1) for _ in range(SHUFFLES))]
    places = np.arange(levels)[:, None] * repeats + np.stack(orders)
    means = np.zeros((levels * repeats, SHUFFLES + 1, repeats))
    shuffle, repeat = np.arange(SHUFFLES + 1)[:, None, None], np.arange(repeats)
    means[places, shuffle, repeat] = 1 / levels
    return means.reshape(levels * repeats, -1)


def widened(log_ratios: Floats, half: Floats, tail: float) -> tuple[Floats, NDArray[np.bool_]]:
    """``half``, the half widths of the means of series (…, levels, repeats), and which of them had
    to grow: where a series moves as one, Student's t over its repeats' own means leaves ``tail``
    (0-1) outside."""
    means = log_ratios.mean(axis=-2)
    repeats = means.shape[-1]
    error = means.std(axis=-1, ddof=1) / np.sqrt(repeats)
    alone = -float(stdtrit(repeats - 1, tail / 2)) * error
    grows = share_moves(log_ratios) & (alone > half)
    return np.where(grows, alone, half), grows


def whole_series(table: pd.DataFrame, repeats: pd.Series) -> Iterator[tuple[Places, Floats]]:
    """Row numbers of ``repeats`` and their log ratios (series, levels, repeats), a shape at a time:
    those whose repeats, as many as are said there, are known at every level.

    ``table``: log ratios, a row per series and level, a column per repeat; ``repeats``: indexed by
    series. Series with too few levels to move together are left out.
    """
    values = table.to_numpy(dtype=np.float64)
    series = pd.MultiIndex.from_frame(table.index.to_frame().iloc[:, :-1])
    starts = np.flatnonzero(~series.duplicated())
    if not starts.size:
        return
    rows = repeats.index.get_indexer(series[starts])
    there = np.logical_and.reduceat(~np.isnan(values), starts, axis=0)
    levels, known = np.diff(starts, append=len(values)), there.sum(axis=1)
    told = np.where(rows < 0, 0, repeats.to_numpy()[rows])
    whole = (known == told) & (known > 1) & (levels >= FEWEST_LEVELS)
    for shape in np.unique(np.column_stack([levels, known])[whole], axis=0):
        mine = np.flatnonzero(whole & (levels == shape[0]) & (known == shape[1]))
        lines = starts[mine][:, None] + np.arange(shape[0])
        columns = np.nonzero(there[mine])[1].reshape(-1, shape[1])
        yield rows[mine], values[lines[:, :, None], columns[:, None, :]]
