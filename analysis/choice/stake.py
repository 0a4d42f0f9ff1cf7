"""What is lost if the choice is wrong, and how many launches would tell."""

import numpy as np
from scipy.special import stdtrit

from analysis.choice.field import Field, Floats

#: The chance that a rival is better by more than what is at stake.
CHANCE = 0.05
#: More launches than this are not advised: look into the noise instead.
MOST_LAUNCHES = 20


def at_stake(field: Field, gains: Floats, load: int, place: int | None) -> Floats:
    """Return (candidates,): by how much (log ratio) each may beat what is taken at a load, at most.

    ``gains`` as ``expected_gains``; ``place``: of the candidate taken, None for the baseline. The
    chance that a rival is better by more is CHANCE. Below zero: settled in favour of what is taken,
    as it itself is. NaN where nothing repeats.
    """
    own = field.own_error[:, load]
    # What is taken errs as well; the baseline is taken to err as much as its rival.
    error = np.sqrt(own + (own if place is None else own[place]))
    # ``reach`` leaves half its rate on each side; only one side counts here.
    reach = field.tails.at((slice(None), load)).reach(2 * CHANCE) * error
    told = gains[:, load] - (0.0 if place is None else gains[place, load]) + reach
    return np.where(np.arange(len(told)) == place, -np.inf, told) if place is not None else told


def launches_needed(size: float, variance: float, launches: int, rate: float) -> int | None:
    """Return how many more launches of both arms would settle a difference that is as large as it
    looks.

    ``size``: log ratio; ``variance``: of one launch's value; ``launches``: there are of each;
    ``rate``: error rate of the adjusted interval. None for more than MOST_LAUNCHES, or where the
    variance is unknown. Degrees of freedom are those of two arms alone, so the advice is careful.
    """
    if not (np.isfinite(variance) and variance > 0 and size):
        return None
    for more in range(1, MOST_LAUNCHES + 1):
        total = launches + more
        reach = float(stdtrit(2 * (total - 1), 1 - rate / 2)) * np.sqrt(2 * variance / total)
        if reach < abs(size):
            return more
    return None


def launches_until(behind: float, variance: float, launches: int, most: float) -> int | None:
    """Return how many more launches of two arms it takes until the one behind is at most ``most``
    (ratio) better.

    ``behind``: its expected log ratio to the other, below or at zero. None for more than
    MOST_LAUNCHES, or where the variance is unknown.
    """
    if not (np.isfinite(variance) and variance > 0):
        return None
    for more in range(1, MOST_LAUNCHES + 1):
        total = launches + more
        reach = float(stdtrit(2 * (total - 1), 1 - CHANCE)) * np.sqrt(2 * variance / total)
        if behind + reach < np.log1p(most):
            return more
    return None
