"""How far chance reaches where a variance is the sum of two that are known differently well.

The variance of a difference at one load has two parts: what a launch shares over its loads, known
with few degrees of freedom, and the rest, known with more. Student's t of each is averaged by the
share that it has in the variance (Cochran and Cox 1957, Experimental Designs, section 4.14), which
holds where one set of degrees of freedom for the sum (Satterthwaite) promises too much in the far
tail: there the part that is known worse decides.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtr, stdtrit

Floats = NDArray[np.float64]

#: So many bring the end to within a billionth of the distance between the ends of both parts.
_HALVINGS = 30


@dataclass(frozen=True)
class Tails:
    """Arrays of one shape: ``share`` (0-1) of the variance that is known with ``dof`` degrees of
    freedom; the rest is known with ``rest_dof``. ``dof`` is 0 where nothing repeats."""

    share: Floats
    dof: Floats
    rest_dof: Floats

    @property
    def known(self) -> NDArray[np.bool_]:
        """Whether something repeats, at each place."""
        return np.asarray(self.dof > 0)

    def above(self, t: Floats) -> Floats:
        """Return the probability (0-1) of an error above ``t`` standard errors; NaN where not
        known."""
        first, rest = (stdtr(np.maximum(dof, 1), -t) for dof in (self.dof, self.rest_dof))
        return np.where(self.known, self.share * first + (1 - self.share) * rest, np.nan)

    def reach(self, rate: Floats | float) -> Floats:
        """Return the standard errors that leave ``rate`` (0-1) outside, half on each side; NaN
        where not known."""
        half = np.broadcast_to(np.asarray(rate, dtype=np.float64) / 2, self.share.shape)
        ends = [stdtrit(np.maximum(dof, 1), 1 - half) for dof in (self.dof, self.rest_dof)]
        low, high = np.minimum(*ends), np.maximum(*ends)
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            inside = self.above(middle) > half
            low, high = np.where(inside, middle, low), np.where(inside, high, middle)
        return np.where(self.known, high, np.nan)

    def at(self, place: Any) -> "Tails":
        """Return the tails at the given places of the arrays only."""
        return Tails(self.share[place], self.dof[place], self.rest_dof[place])


def certain(shape: tuple[int, ...], dof: float) -> Tails:
    """Return tails of Student's t with ``dof`` degrees of freedom everywhere."""
    return Tails(np.ones(shape), np.full(shape, dof), np.full(shape, dof))
