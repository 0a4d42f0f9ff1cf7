"""Do the repeats of a series move together at all its levels?

Levels that ran on one server start share what that start drew (memory, clocks, compiled kernels).
Then six levels are not six witnesses, and only another start is another repeat. An exact test tells:
shuffling the repeats within each level destroys what they share and nothing else, whatever the
noise of each level is (a permutation test; Good 2005, doi:10.1007/b138696).
"""

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

Floats = NDArray[np.float64]

SHUFFLES = 200
#: Chance of finding a shared move where there is none.
ALARM = 0.04


def share_moves(log_ratios: Floats) -> NDArray[np.bool_]:
    """Whether each series (…, levels, repeats) moves as one; False for fewer than three levels."""
    if log_ratios.shape[-2] < 3 or log_ratios.shape[-1] < 2:
        return np.zeros(log_ratios.shape[:-2], dtype=bool)
    chance = np.random.default_rng(0)
    seen = _moves(log_ratios)
    as_large = np.zeros(seen.shape)
    for _ in range(SHUFFLES):
        as_large += _moves(chance.permuted(log_ratios, axis=-1)) >= seen * (1 - 1e-9)
    return np.asarray((as_large + 1) / (SHUFFLES + 1) <= ALARM)


def _moves(log_ratios: Floats) -> Floats:
    return np.asarray(log_ratios.mean(axis=-2).var(axis=-1, ddof=1))


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
