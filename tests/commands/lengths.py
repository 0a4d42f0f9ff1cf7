"""Studies of one text at several lengths of prompt, as the runner leaves them; what is true of them is known.

A token of a draft is accepted with one chance at every length. A step with K draft tokens costs 1 + cost x K of one
without, and the cost is the length's own: so arms that pay for short prompts lose with long ones.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from analysis.evidence.words import EQUIVALENCE
from tests.commands import made
from tests.commands.mixed import OUTPUT, STEP

#: Requests of a cell; how much launches, and cells of a launch, scatter.
REQUESTS, OF_LAUNCH, OF_CELL = 16, 0.006, 0.004
#: What a draft token costs of a step by length of prompt: five tokens pay for short prompts and lose with long ones;
#: five are best at every length; one and five are nearly as good.
CROSSING = {512: 0.05, 8192: 0.2, 65536: 0.6}
LEVEL = {512: 0.05, 8192: 0.05, 65536: 0.06}


@dataclass(frozen=True)
class LengthStudy:
    """``costs``: tokens of a prompt -> what a draft token costs of a step. ``datasets``: the names of the lengths,
    where they are of different texts."""

    name: str
    costs: Mapping[int, float]
    chance: float = 0.75
    seed: int = 0
    launches: int = 3
    arms: tuple[int, ...] = (0, 1, 5)
    loads: tuple[int, ...] = (8,)
    of_launch: float = OF_LAUNCH
    datasets: Mapping[int, str] | None = None

    def dataset(self, tokens: int) -> str:
        return (self.datasets or {}).get(tokens, f"code-{tokens}t")

    def gain(self, tokens: int, k: int) -> float:
        """How many more output tokens a second there are with K, as a ratio."""
        length = sum(self.chance**i for i in range(k + 1))
        return float(length / (1 + self.costs[tokens] * k) - 1)

    def pays(self, tokens: int, k: int) -> bool:
        return self.gain(tokens, k) > EQUIVALENCE

    @property
    def one_suffices(self) -> bool:
        """Whether an arm is at every length within the margin of the best."""
        best = {tokens: max(self.gain(tokens, k) for k in self.arms) for tokens in self.costs}
        return any(
            all((1 + best[n]) / (1 + self.gain(n, k)) - 1 <= EQUIVALENCE for n in self.costs)
            for k in self.arms
        )


def write(study: LengthStudy, results: Path) -> Path:
    """Every cell as a drop; returns the study's folder."""
    scatter, started = np.random.default_rng(study.seed), 1_700_000_000.0
    for launch in range(study.launches):
        for k in study.arms:
            slow = scatter.normal(0, study.of_launch)
            for tokens, load in product(study.costs, study.loads):
                pace = (
                    STEP * np.exp(slow + scatter.normal(0, OF_CELL)) / (1 + study.gain(tokens, k))
                )
                place = results / study.name / f"k{k}-{tokens}-c{load}-r{launch}"
                said = made.record(study.name, study.dataset(tokens), k, load, launch)
                made.write(
                    place, said, _requests(study, tokens, load, float(pace), started), started
                )
                started += 600
    return results / study.name


def _requests(
    study: LengthStudy, tokens: int, load: int, pace: float, started: float
) -> list[dict[str, Any]]:
    rows, streams = [], [started] * load
    for number in range(max(REQUESTS, 2 * load)):
        begin = streams[number % load]
        streams[number % load] = last = begin + 0.05 + OUTPUT * pace
        text = f"{study.name} {tokens}: question {number}?"
        rows.append(made.request(text, (begin, begin + 0.05, last), tokens, OUTPUT))
    return rows
