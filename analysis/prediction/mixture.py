"""Many candidates' predictions as one distribution, and what it holds between two bounds."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr

from analysis.prediction.rows import Floats

#: How many of a hundred measurements a band is meant to hold.
LEVEL = 0.9
#: The quantile of a normal distribution at the upper end of a band.
EDGE = 1.6448536269514722
_HALVINGS = 14


@dataclass(frozen=True, eq=False)
class Spread:
    """The middle of a band and its ends, one value a row."""

    low: Floats
    middle: Floats
    high: Floats

    def times(self, factor: Floats | float) -> "Spread":
        """Return low, middle and high multiplied by a factor."""
        return Spread(self.low * factor, self.middle * factor, self.high * factor)


@dataclass(frozen=True, eq=False)
class Mixture:
    """Normal distributions with their weights, candidates × rows; weights of a row add up to 1."""

    means: Floats
    deviations: Floats
    weights: Floats

    def mean(self) -> Floats:
        """Return the weighted mean of each row."""
        return np.asarray((self.weights * self.means).sum(axis=0))

    def spread(self) -> Spread:
        """Return the median of each row and the ends of its band; above zero, as times are."""
        tail = (1 - LEVEL) / 2
        quantiles = self._quantiles(np.array([tail, 0.5, 1 - tail]))
        low, middle, high = np.maximum(quantiles, 1e-9)
        return Spread(low, middle, high)

    def _quantiles(self, levels: Floats) -> Floats:
        """Return quantiles, levels × rows, by halving the interval in which they must lie."""
        reach = 4 * EDGE * self.deviations
        shape = (len(levels), self.means.shape[1])
        low = np.broadcast_to((self.means - reach).min(axis=0), shape)
        high = np.broadcast_to((self.means + reach).max(axis=0), shape)
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            below = self._below(middle) < levels[:, None]
            low, high = np.where(below, middle, low), np.where(below, high, middle)
        return np.asarray((low + high) / 2)

    def _below(self, values: Floats) -> Floats:
        """Return the chance of less than each value; levels × rows."""
        chances = ndtr((values[:, None, :] - self.means) / self.deviations)
        weights = np.broadcast_to(self.weights, self.means.shape)
        return np.asarray(np.einsum("cr,lcr->lr", weights, chances))


def mixed(parts: Sequence[tuple[float, Mixture]]) -> Mixture:
    """Join several mixtures of the same rows into one, each with its weight."""
    return Mixture(
        np.concatenate([part.means for _, part in parts]),
        np.concatenate([part.deviations for _, part in parts]),
        np.concatenate([weight * part.weights for weight, part in parts]),
    )
