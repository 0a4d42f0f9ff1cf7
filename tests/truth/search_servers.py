"""Generated servers with several methods, of which the best arm is known at each load.

The forms are those of ``k_studies``: a step costs (1 + (load x (K + 1) / bend)^sharp)^(1 / sharp) plus
the method's cost for each drafted token and, where a family says so, of drafting at all. The search
knows none of them, neither the noise.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from analysis.search.space import MeasuredLaunch
from tests.truth.k_studies import COUNTED, K_LOADS, KS
from tests.truth.studies import Floats

LOADS = K_LOADS
#: Standard deviation of the logarithm by which a longer draft's positions are off for a shorter one.
DERIVED = 0.004


class Chance(Protocol):
    """What a family says of its servers."""

    loads: int
    methods: int
    noise: float
    launch: float
    alike: bool
    start: float

    @property
    def name(self) -> str: ...


@dataclass
class Server:
    """``truth`` (arms, loads): log speeds, the baseline's row first; ``length`` (arms, loads) and
    ``by_position`` (arms, loads, positions) as counted."""

    truth: Floats
    length: Floats
    by_position: Floats
    noise: float
    shared: float
    random: np.random.Generator

    def launch(self, arm: int, places: NDArray[np.bool_]) -> MeasuredLaunch:
        """Measure an arm at some loads."""
        return MeasuredLaunch(arm, np.where(places, self.truth[arm] + self._chance(), np.nan))

    def table(self, arms: NDArray[np.int64]) -> Floats:
        """Measure the arm that has its own K at each load."""
        return self.truth[arms, np.arange(len(arms))] + self._chance()

    def _chance(self) -> Floats:
        own = self.noise * self.random.standard_normal(self.truth.shape[1])
        return np.asarray(self.shared * self.random.standard_normal() + own)


def servers(family: Chance, trials: int, seed: int = 0) -> Iterator[Server]:
    """So many servers, each with its bend, and methods with their acceptance and cost."""
    random = np.random.default_rng([seed, *family.name.encode()])
    for _ in range(trials):
        yield _server(family, random)


def _server(family: Chance, random: np.random.Generator) -> Server:
    loads = np.array(LOADS[family.loads], dtype=np.float64)
    bend, sharp = np.exp(random.uniform(np.log(16), np.log(256))), random.choice([1.5, 3.0, 8.0])
    speeds, lengths, positions = [], [], []
    for _ in range(family.methods):
        accepted, cost = random.uniform(0.35, 0.9), random.uniform(0.02, 0.12)
        start = random.uniform(0.0, family.start) if family.start else 0.0
        for k in KS:
            step = (1 + (loads * (k + 1) / bend) ** sharp) ** (1 / sharp) + cost * k
            step += start if k else 0.0
            length = (1 - accepted ** (k + 1)) / (1 - accepted)
            speeds.append(np.log(length / step))
            lengths.append(np.full(len(loads), length))
            at = np.arange(1, max(KS) + 1)
            positions.append(np.tile(np.where(at <= k, accepted**at, np.nan), (len(loads), 1)))
    # The baseline is one, whatever the methods are.
    kept = [0, *(at for at in range(len(speeds)) if at % len(KS))]
    truth, length = np.array(speeds)[kept], np.array(lengths)[kept]
    truth = np.zeros(truth.shape) if family.alike else truth - truth[:1]
    length = np.ones(length.shape) if family.alike else length
    counted = np.exp(COUNTED * random.standard_normal(length.shape))
    counted[0] = 1.0
    rates = np.array(positions)[kept] * (0.0 if family.alike else 1.0)
    off = np.exp(DERIVED * random.standard_normal((len(truth), len(loads), 1)))
    return Server(truth, length * counted, rates * off, family.noise, family.launch, random)
