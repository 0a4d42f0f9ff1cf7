"""Acceptance by draft position, carried on to positions that were not measured.

With p_i the chance that a draft's i-th token is accepted given that those before it were,
r_i = p_1 · … · p_i of the drafts have it accepted and a step yields L = 1 + Σ r_i tokens
(Leviathan et al. 2023, with one p for all positions). Here p_i = p_(i-1) · g beyond the measured
positions: g, the conditional decay, is fitted and never above 1, because a p that rises within a
draft (easy texts survive longest) cannot be trusted to go on rising.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.optimize import least_squares

from warehouse.errors import InvalidInput

Basis = Literal["positions", "lengths", "one length"]


@dataclass(frozen=True)
class Decay:
    """How acceptance falls from one draft position to the next. ``conditional``: p_1 … p_n,
    measured or fitted. ``ratio``: g, in (0, 1]. ``basis``: what it rests on; ``one length`` assumes
    that p is the same at all positions."""

    conditional: tuple[float, ...]
    ratio: float
    basis: Basis

    def by_position(self, k: int) -> tuple[float, ...]:
        """Return r_1 … r_k: the share of drafts whose token at each position is accepted (0-1)."""
        steps = max(k - len(self.conditional), 0)
        beyond = self.conditional[-1] * self.ratio ** np.arange(1, steps + 1)
        return tuple(np.cumprod([*self.conditional, *beyond])[:k].tolist())

    def mean_length(self, k: int) -> float:
        """Return L: the tokens of a verification step with k draft tokens, bonus token included."""
        return 1 + sum(self.by_position(k))


def conditional(by_position: Sequence[float]) -> tuple[float, ...]:
    """Return p_i = r_i / r_(i-1), with p_1 = r_1; the list ends where nothing was accepted any
    more."""
    rates = [1.0]
    for rate in by_position:
        if rates[-1] <= 0:
            break
        rates.append(rate)
    return tuple(b / a for a, b in zip(rates, rates[1:], strict=False))


def from_positions(by_position: Sequence[float]) -> Decay:
    """Fit a decay to measured r_1, r_2, …; raises InvalidInput for none.

    g is the slope of log p over the position, weighted by r_(i-1): only drafts that got so far say
    anything about position i.
    """
    known = [p for p in conditional(by_position) if p > 0]
    if not known:
        raise InvalidInput(
            "No draft token was accepted at any position, so there is no decay to fit; "
            "check the draft model."
        )
    return Decay(tuple(known), _slope(known), "positions")


def from_lengths(lengths: Mapping[int, float]) -> Decay:
    """Fit a decay to mean acceptance lengths by K, where positions were not recorded.

    Least squares over (p_1, g); two K are met exactly where any p_1 and g can, one K takes g = 1.
    Raises InvalidInput for no K, or for a length that K cannot have.
    """
    if not lengths:
        raise InvalidInput("No mean acceptance length is known, so there is no decay to fit.")
    for k, length in lengths.items():
        if not 1 < length <= k + 1:
            raise InvalidInput(
                f"A mean acceptance length of {length:g} is impossible with K = {k}: it lies above "
                f"1 and at most at {k + 1}."
            )
    longest = max(lengths)
    first, ratio = _solve(lengths)
    p = tuple(first * ratio**i for i in range(longest))
    return Decay(p, ratio, "lengths" if len(lengths) > 1 else "one length")


def _slope(p: Sequence[float]) -> float:
    if len(p) < 2:
        return 1.0
    reached = np.cumprod([1.0, *p[:-1]])
    slope = np.polyfit(np.arange(len(p)), np.log(p), 1, w=np.sqrt(reached))[0]
    return float(min(np.exp(slope), 1.0))


def _solve(lengths: Mapping[int, float]) -> tuple[float, float]:
    """Return (p_1, g) whose lengths come closest; both in (0, 1]."""

    ks = np.array(list(lengths))
    wanted = np.array(list(lengths.values())) - 1
    steps = np.arange(ks.max())

    def misses(guess: np.ndarray) -> np.ndarray:
        ratio = guess[1] if len(guess) > 1 else 1.0
        by_position = np.cumprod(guess[0] * ratio**steps)
        return np.asarray(np.cumsum(by_position)[ks - 1] - wanted)

    start = [0.6, 0.9][: len(lengths)]
    # Far tighter than the default: with two K the answer is exact and tests say so.
    found = least_squares(misses, start, bounds=(1e-6, 1.0), xtol=1e-12, ftol=1e-12, gtol=1e-12).x
    return float(found[0]), float(found[1]) if len(found) > 1 else 1.0
