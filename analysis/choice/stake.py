"""What is lost if the choice is wrong, and how many launches would tell."""

import numpy as np
from scipy.special import stdtrit

from analysis.choice.field import Field, Floats

#: The chance that a rival is better by more than what is at stake.
CHANCE = 0.05
#: More launches than this are not advised: look into the noise instead.
MOST_LAUNCHES = 20


def at_stake(field: Field, gains: Floats, chosen: tuple[int | None, ...]) -> Floats:
    """Return (candidates, loads): by how much (log ratio) each rival may beat the choice, at most.

    ``gains`` as ``expected_gains``; ``chosen``: at each load the place of the candidate taken, None
    for the baseline. The chance that a rival is better by more is CHANCE. Below zero: settled in
    favour of the choice. NaN where nothing repeats.
    """
    told = np.full(gains.shape, np.nan)
    for load, place in enumerate(chosen):
        taken = 0.0 if place is None else gains[place, load]
        error = np.sqrt(2 * field.own_error[:, load])
        # ``reach`` leaves half its rate on each side; only one side counts here.
        reach = field.tails.at((slice(None), load)).reach(2 * CHANCE) * error
        told[:, load] = gains[:, load] - taken + reach
        if place is not None:
            told[place, load] = -np.inf
    return told


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
