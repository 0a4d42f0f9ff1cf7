"""Generated studies whose truth is known.

The logarithm of a cell's speed is: what its arm truly does at this load + the drift at the time its
server started + what its launch shares over all loads + the cell's own noise. Arms are interleaved:
one launch of each arm makes a round, and another arm comes first in the next: where the same one
always came first, a drift would be a difference between the arms.
"""

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
#: What the load generator leaves: all requests of a concurrency or of a Poisson rate; few of them
#: and what it reports of all; a default file of ``vllm bench serve``.
Kind = Literal["complete", "poisson", "sampled", "vllm bench"]

#: So many requests at once (or so many a second) by the number of loads.
LOADS: dict[int, tuple[int, ...]] = {
    3: (1, 4, 16), 4: (1, 2, 8, 32), 5: (1, 2, 4, 8, 16), 6: (1, 2, 4, 8, 16, 32),
}  # fmt: skip


@dataclass(frozen=True)
class Family:
    """``gains`` (arms without the baseline, loads): true improvements of the speed, as ratios;
    ``scatter``: standard deviation of what each study, arm and load adds to their logarithms.
    ``noise``: standard deviation of a cell's logarithm at the first and the last load, in even
    steps; ``launch``: of what a launch shares; ``drift``: change of the logarithm from a launch to the
    next. ``methods``: whether each arm is a method of its own; else they are one method's K."""

    name: str
    gains: tuple[tuple[float, ...], ...]
    repeats: int = 3
    noise: tuple[float, float] = (0.05, 0.05)
    launch: float = 0.0
    drift: float = 0.0
    scatter: float = 0.0
    kind: Kind = "sampled"
    methods: bool = False

    @property
    def loads(self) -> tuple[int, ...]:
        return LOADS[len(self.gains[0])]


@dataclass(frozen=True)
class Drawn:
    """``truth`` (trials, arms, loads): true log ratios, the baseline's 0 first. (…, rounds): logarithms
    of the ``speed`` and of the time to the ``first`` token, with all that chance and drift add."""

    family: Family
    truth: Floats
    speed: Floats
    first: Floats

    def some(self, trials: slice) -> "Drawn":
        return replace(
            self, truth=self.truth[trials], speed=self.speed[trials], first=self.first[trials]
        )


def drawn(family: Family, trials: int, seed: int = 0) -> Drawn:
    """So many studies of a family; the time to the first token has no true effect."""
    random = np.random.default_rng([seed, *family.name.encode()])
    gains = np.log1p(np.array(family.gains))
    own = gains + family.scatter * random.standard_normal((trials, *gains.shape))
    truth = np.concatenate([np.zeros((trials, 1, gains.shape[1])), own], axis=1)
    shape = (*truth.shape, family.repeats)
    speed = truth[..., None] + _chance(family, shape, random)
    return Drawn(family, truth, speed, -_chance(family, shape, random))


def _chance(family: Family, shape: tuple[int, ...], random: np.random.Generator) -> Floats:
    trials, arms, loads, repeats = shape
    noise = np.linspace(*family.noise, loads)[:, None] * random.standard_normal(shape)
    launch = family.launch * random.standard_normal((trials, arms, 1, repeats))
    place = (np.arange(arms)[:, None] + np.arange(repeats)) % arms
    turn = np.arange(repeats) * arms + place
    return np.asarray(noise + launch + family.drift * turn[None, :, None, :])


def alike(
    gain: float | tuple[float, ...], arms: int = 4, loads: int = 6
) -> tuple[tuple[float, ...], ...]:
    """The same gains for every arm but the baseline."""
    one = gain if isinstance(gain, tuple) else (gain,) * loads
    return (one,) * (arms - 1)
