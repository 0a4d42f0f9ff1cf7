"""Studies whose one load mixes several kinds of prompts, as the runner leaves them; what is true of them is known.

Each token of a draft is accepted with a chance of its kind. A step with K draft tokens costs 1 + COST x K, with more
than AT_ONCE requests in flight in proportion more. Answers are those of temperature 0: a prompt is accepted alike in
every launch.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tests.commands import made
from warehouse.contract import flatten_messages, hash_text

#: What a draft token costs of a step, a step in s, tokens of an answer; how much launches and requests scatter.
COST, STEP, OUTPUT = 0.08, 0.02, 96
OF_LAUNCH, OF_REQUEST = 0.01, 0.04
#: Prompts of each kind, requests at once.
PROMPTS, AT_ONCE = 24, 8
#: Chances of a token in which one K is best for both kinds; each kind has its own best K.
ALIKE = {"coding": 0.8, "math": 0.8}
APART = {"coding": 0.9, "writing": 0.3}
#: One draft token and five are as good for either kind.
EVEN = {"coding": 0.49, "writing": 0.49}


@dataclass(frozen=True)
class MixedStudy:
    """``chance``: kind -> chance of a draft token; ``prompts``: of each kind, PROMPTS unless said."""

    name: str
    chance: Mapping[str, float]
    seed: int = 0
    launches: int = 3
    arms: tuple[int, ...] = (0, 1, 5)
    prompts: Mapping[str, int] | None = None
    counted: bool = True
    told: bool = True
    of_launch: float = OF_LAUNCH
    loads: tuple[int, ...] = (AT_ONCE,)

    def asked(self) -> list[tuple[str, str]]:
        """Kind and text of every prompt."""
        return [
            (kind, f"{self.name}: {kind} question {number}?")
            for kind in self.chance
            for number in range((self.prompts or {}).get(kind, PROMPTS))
        ]

    def length(self, kind: str, k: int) -> float:
        """Tokens that a step yields in the long run."""
        return float(sum(self.chance[kind] ** i for i in range(k + 1)))

    def gain(self, kind: str, k: int, other: int = 0) -> float:
        """How much less time passes between tokens with K than with another."""
        paces = [(1 + COST * one) / self.length(kind, one) for one in (k, other)]
        return 1 - paces[0] / paces[1]


def hashed(text: str) -> str:
    """The hash of a prompt that is sent as a chat of one turn."""
    return hash_text(flatten_messages([("user", text)]))


def write(study: MixedStudy, results: Path) -> Path:
    """Every cell as a drop; returns the study's folder."""
    scatter = np.random.default_rng(study.seed)
    started = 1_700_000_000.0
    for launch in range(study.launches):
        for k in study.arms:
            slow = float(np.exp(scatter.normal(0, study.of_launch)))
            for load in study.loads:
                place = results / study.name / f"k{k}-c{load}-r{launch}"
                said = made.record(study.name, "mixed", k, load, launch)
                if study.told:
                    said["prompt_categories"] = {hashed(text): kind for kind, text in study.asked()}
                made.write(
                    place, said, _requests(study, (k, load), slow, scatter, started), started
                )
                started += 600
    return results / study.name


def _requests(
    study: MixedStudy,
    at: tuple[int, int],
    slow: float,
    scatter: np.random.Generator,
    started: float,
) -> list[dict[str, Any]]:
    k, load = at
    asked, streams = study.asked(), [started] * load
    order = np.random.default_rng(study.seed).permutation(len(asked))
    rows = []
    for number in order:
        kind, text = asked[number]
        steps = _steps(study.chance[kind], k, np.random.default_rng((study.seed, int(number))))
        # A draft token costs the more of a step the more requests are in flight.
        pace = (
            STEP
            * (1 + COST * k * load / AT_ONCE)
            * slow
            * float(np.exp(scatter.normal(0, OF_REQUEST)))
        )
        begin = min(streams)
        first, last = begin + 0.05, begin + 0.05 + len(steps) * pace
        streams[streams.index(begin)] = last
        drafted = _drafted(steps if k and study.counted else [], k)
        rows.append(made.request(text, (begin, first, last), 64, OUTPUT) | drafted)
    return rows


def _steps(chance: float, k: int, scatter: np.random.Generator) -> list[int]:
    """Accepted tokens of each step until the answer is whole."""
    steps, left = [], OUTPUT - 1
    while left > 0:
        refused = scatter.random(k) >= chance
        steps.append(int(np.argmax(refused)) if refused.any() else k)
        left -= steps[-1] + 1
    return steps


def _drafted(steps: list[int], k: int) -> dict[str, Any]:
    """What a report says of the drafts of a request, where the server told."""
    counts = {
        "num_spec_steps": len(steps), "num_draft_tokens": k * len(steps),
        "num_accepted_draft_tokens": sum(steps),
        "acceptance_histogram": [steps.count(n) for n in range(k + 1)],
    }  # fmt: skip
    return {"response_metrics": {"speculative_decoding": counts}} if steps else {}
