"""What fresh launches say of a winner: the gain that was promised and the one that is proven.

A winner was chosen because it looked best, so what was promised leans on its luck. Launches that
were made after the choice do not.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from analysis.search.belief import Belief
from analysis.search.space import BASELINE, Floats

#: Level of the intervals of proven gains.
LEVEL = 0.95
_HALVINGS = 40


@dataclass(frozen=True)
class Proof:
    """Log ratios against the baseline or the runner-up (places,): ``promised`` by the search; ``proven`` by fresh
    launches, with its interval from ``low`` to ``high``."""

    promised: Floats
    proven: Floats
    low: Floats
    high: Floats

    def kept(self, stake: float) -> bool:
        """Return whether the winner keeps its promise: at no place do the fresh launches exclude what
        was promised less the stake (ratio)."""
        return bool((self.high >= self.promised + np.log1p(-stake)).all())


def proof(
    belief: Belief,
    lead: NDArray[np.int64],
    winner: Floats,
    other: Floats,
    against: NDArray[np.int64] | None = None,
) -> Proof:
    """Return what fresh launches prove of the arms ``lead`` against others (places,), the baseline
    where nothing is said. ``winner`` and ``other`` (launches, places): their log speeds.

    The scatter is the one that the whole search has seen; of each size that is still likely, the
    fresh launches say how well it fits.
    """
    places = np.arange(len(lead))
    expected = belief.expected
    gain = winner.mean(axis=0) - other.mean(axis=0)
    share = 1 / len(winner) + 1 / len(other)
    spread = np.sqrt(share * (belief.noise + belief.shared[:, None]))
    weight = belief.weight * _fit(belief, winner) * _fit(belief, other)
    reach = _reach(weight / weight.sum(), spread)
    rival = np.full(len(lead), BASELINE) if against is None else against
    promised = expected[lead, places] - expected[rival, places]
    return Proof(promised, gain, gain - reach, gain + reach)


def _fit(belief: Belief, launches: Floats) -> Floats:
    """Return (sizes,): how well each size of the noise explains the scatter of an arm's
    launches."""
    off = launches - launches.mean(axis=0)
    inverse = 1 / belief.noise
    outer = 1 + belief.shared * inverse.sum(axis=1)
    square = np.einsum("lp,sp->s", off**2, inverse)
    drawn = ((off @ inverse.T) ** 2).sum(axis=0)
    det = np.log(outer) - np.log(inverse).sum(axis=1)
    told = -0.5 * (square - belief.shared / outer * drawn + (len(launches) - 1) * det)
    return np.asarray(np.exp(told - told.max()))


def _reach(weight: Floats, spread: Floats) -> Floats:
    """Return (places,): the half width that leaves 1 - LEVEL of the mixture outside."""
    low = np.zeros(spread.shape[1])
    high = spread.max(axis=0) * -ndtri((1 - LEVEL) / 2)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        outside = 2 * weight @ ndtr(-middle / spread)
        low, high = (
            np.where(outside > 1 - LEVEL, middle, low),
            np.where(outside > 1 - LEVEL, high, middle),
        )
    return np.asarray(high)
