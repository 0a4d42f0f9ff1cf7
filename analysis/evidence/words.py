"""Five words of certainty, the same everywhere."""

from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Word = Literal["gain", "likely gain", "open", "likely loss", "loss"]

WORDS: tuple[Word, ...] = get_args(Word)
GAIN, LIKELY_GAIN, OPEN, LIKELY_LOSS, LOSS = WORDS
SETTLED: frozenset[Word] = frozenset((GAIN, LOSS))
#: One-sided probability from which a direction is called likely.
LIKELY = 0.90
#: Differences inside ± this (ratio) are no difference worth a decision: "no worse" means this.
EQUIVALENCE = 0.02


def words(
    adjusted_low: Floats, adjusted_high: Floats, probability: Floats, independent: NDArray[np.bool_]
) -> NDArray[np.object_]:
    """Return one word of certainty for each difference (positive is better; NaN where nothing
    repeats).

    *gain* and *loss*: the interval, adjusted for all that the study compares, excludes zero.
    *likely*: the ``probability`` (0-1) of a gain is at least LIKELY, or at most 1 - LIKELY. Where
    repeats are not known to be ``independent`` launches, nothing is more than likely.
    """
    settled = [(adjusted_low > 0) & independent, (adjusted_high < 0) & independent]
    likely = [probability >= LIKELY, probability <= 1 - LIKELY]
    told = np.select([*settled, *likely], [GAIN, LOSS, LIKELY_GAIN, LIKELY_LOSS], OPEN)
    return told.astype(object)
