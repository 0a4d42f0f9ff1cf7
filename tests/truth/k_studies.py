"""Generated servers of which the best number of draft tokens is known at each load.

A step costs max(1, load x (K + 1) / bend), smoothly, plus ``cost`` for each drafted token and
``overhead`` for drafting at all; a step yields the mean acceptance length. The choice knows none of
these forms.
"""

from dataclasses import dataclass

import numpy as np

from tests.truth.studies import Floats

#: K of the arms, 0 the baseline.
KS = (0, 1, 2, 3, 4, 5)
K_LOADS: dict[int, tuple[int, ...]] = {3: (1, 8, 64), 6: (1, 4, 16, 32, 64, 128)}
#: Standard deviation of the logarithm of an acceptance length: counted over thousands of drafts.
COUNTED = 0.002


@dataclass(frozen=True)
class KFamily:
    """``noise``: standard deviation of a cell's logarithm, ``launch``: of what a launch shares;
    ``overhead``: the most that drafting at all costs, as a share of a step at low load."""

    name: str
    loads: tuple[int, ...]
    repeats: int
    noise: float
    launch: float = 0.0
    overhead: float = 0.0


@dataclass(frozen=True)
class KDrawn:
    """(trials, K, loads): ``truth``, log speed against the baseline; ``length``: mean acceptance
    lengths as counted; ``speed`` (…, rounds): log speeds with everything that chance adds."""

    family: KFamily
    truth: Floats
    length: Floats
    speed: Floats


def drawn(family: KFamily, trials: int, seed: int = 0) -> KDrawn:
    """So many servers, each with its acceptance, cost of drafting and step."""
    random = np.random.default_rng([seed, *family.name.encode()])
    speed, length = _servers(family, trials, random)
    truth = speed - speed[:, :1]
    shape = (*truth.shape, family.repeats)
    noise = family.noise * random.standard_normal(shape)
    launch = family.launch * random.standard_normal((trials, len(KS), 1, family.repeats))
    counted = np.exp(COUNTED * random.standard_normal(length.shape))
    return KDrawn(family, truth, length * counted, truth[..., None] + noise + launch)


def _servers(family: KFamily, trials: int, random: np.random.Generator) -> tuple[Floats, Floats]:
    """Log speeds and acceptance lengths (trials, K, loads)."""
    shape = (trials, 1, 1)
    accepted, cost = random.uniform(0.35, 0.9, shape), random.uniform(0.02, 0.12, shape)
    bend = np.exp(random.uniform(np.log(16), np.log(256), shape))
    sharp = random.choice([1.5, 3.0, 8.0], shape)
    ks, loads = np.array(KS)[None, :, None], np.array(family.loads)[None, None, :]
    step = (1 + (loads * (ks + 1) / bend) ** sharp) ** (1 / sharp) + cost * ks
    if family.overhead:
        step = step + random.uniform(0, family.overhead, shape) * (ks > 0)
    length = (1 - accepted ** (ks + 1)) / (1 - accepted) * np.ones_like(step)
    return np.log(length / step), length
