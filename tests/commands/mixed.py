"""Studies whose one load mixes several kinds of prompts, as the runner leaves them; what is true of them is known.

Each token of a draft is accepted with a chance of its kind. A step with K draft tokens costs 1 + COST x K, with more
than AT_ONCE requests in flight in proportion more. Answers are those of temperature 0: a prompt is accepted alike in
every launch.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

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
                place.mkdir(parents=True)
                requests = _requests(study, (k, load), slow, scatter, started)
                (place / "record.json").write_text(json.dumps(_record(study, k, load, launch)))
                (place / "guidellm.json").write_text(json.dumps(report(requests, load, started)))
                started += 600
    return results / study.name


def _record(study: MixedStudy, k: int, load: int, launch: int) -> dict[str, Any]:
    said = {
        "schema_version": 1, "study": study.name, "repeat": launch, "launch": f"r{launch}-k{k}",
        "arm": f"k{k}", "model": "acme/chat-8b", "gpu": "H100", "gpu_count": 1, "tensor_parallel_size": 1,
        "engine": "vllm", "engine_version": "0.32.0", "dataset": "mixed", "evidence": "simulated",
        "concurrency": load, "load_profile": "concurrent", "spec_method": "none", "temperature": 0.0,
    }  # fmt: skip
    if k:
        said |= {
            "spec_method": "draft_model",
            "num_speculative_tokens": k,
            "draft_model": "acme/draft",
        }
    if study.told:
        said["prompt_categories"] = {hashed(text): kind for kind, text in study.asked()}
    return said


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
        rows.append(_request(text, (begin, first, last), steps if k and study.counted else [], k))
    return rows


def _steps(chance: float, k: int, scatter: np.random.Generator) -> list[int]:
    """Accepted tokens of each step until the answer is whole."""
    steps, left = [], OUTPUT - 1
    while left > 0:
        refused = scatter.random(k) >= chance
        steps.append(int(np.argmax(refused)) if refused.any() else k)
        left -= steps[-1] + 1
    return steps


def _request(
    text: str, times: tuple[float, float, float], steps: list[int], k: int
) -> dict[str, Any]:
    begin, first, last = times
    body = {
        "messages": [{"role": "user", "content": text}],
        "max_tokens": OUTPUT,
        "temperature": 0.0,
    }
    timings = {"request_start": begin, "first_token_iteration": first, "last_token_iteration": last,
               "token_iterations": OUTPUT, "request_end": last}  # fmt: skip
    drafted = {
        "num_spec_steps": len(steps), "num_draft_tokens": k * len(steps),
        "num_accepted_draft_tokens": sum(steps),
        "acceptance_histogram": [steps.count(n) for n in range(k + 1)],
    }  # fmt: skip
    said = {"response_metrics": {"speculative_decoding": drafted}} if steps else {}
    return {
        "request_args": json.dumps({"body": body}), "info": {"status": "completed", "timings": timings},
        "prompt_tokens": 64, "output_tokens": OUTPUT, **said,
    }  # fmt: skip


def report(requests: list[dict[str, Any]], load: int, started: float) -> dict[str, Any]:
    """A report of GuideLLM 0.8 with one level."""
    end = max(one["info"]["timings"]["request_end"] for one in requests)
    made = {"successful": len(requests), "errored": 0, "incomplete": 0, "total": len(requests)}
    benchmark = {
        "type_": "generative_benchmark",
        "config": {"strategy": {"type_": "concurrent", "streams": load}, "backend": {"kind": "openai_http"}},
        "scheduler_metrics": {"measure_start_time": started, "measure_end_time": end, "requests_made": made},
        "metrics": {"request_totals": made},
        "requests": {"successful": requests, "errored": [], "incomplete": [], "total": None},
        "start_time": started, "end_time": end, "duration": end - started,
    }  # fmt: skip
    return {"metadata": {"version": 2, "guidellm_version": "0.8.1"}, "config": {},
            "benchmarks": [benchmark], "conclusions": []}  # fmt: skip
