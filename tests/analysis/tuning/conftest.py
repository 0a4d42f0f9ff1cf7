"""A study with a known truth: what a server of simple laws would have measured.

The laws are a fake, named as such: ``FakeServer`` knows the time of a step, of a first token and
the acceptance by position, so that a test can ask what an analysis makes of its figures.
"""

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
import pytest

FACTS: dict[str, Any] = {
    "study": "known", "model": "org/target", "engine": "vllm", "engine_version": "0.32.0",
    "gpu": "H200", "gpu_count": 1, "tensor_parallel_size": 1, "temperature": 0.0,
    "server_args": '{"max_model_len": 4096}', "comparable_as": "canonical",
    "reported_definition": "guidellm>=0.7.4", "load_profile": "concurrent", "evidence": "simulated",
    "status": "good", "load_generator": "guidellm", "seed": None, "started_at": None,
}  # fmt: skip


@dataclass(frozen=True)
class FakeServer:
    """Laws in ms: a step verifies K + 1 tokens of each of ``c`` sequences; of those asked for,
    ``occupancy`` are in flight."""

    weights: float = 4.0
    drafting: float = 0.4
    draft_token: float = 0.9
    sequence: float = 0.05
    drafted: float = 0.06
    prompt_token: float = 0.002
    occupancy: float = 1.0
    acceptance: tuple[float, ...] = (0.75, 0.7, 0.66, 0.62, 0.6, 0.58)
    lengths: dict[str, tuple[int, int]] = field(default_factory=lambda: {"code": (100, 200)})

    def rates(self, k: int) -> tuple[float, ...]:
        """r_1 … r_k."""
        return tuple(np.cumprod(self.acceptance[:k]).tolist())

    def length(self, k: int) -> float:
        """Tokens of a step."""
        return 1 + sum(self.rates(k))

    def step(self, c: float, k: int, dataset: str) -> float:
        """ms of a step: what each of its K + 1 tokens costs, and the prompts taken in meanwhile."""
        prompt, output = self.lengths[dataset]
        decoding = self.weights + self.drafting * (k > 0) + self.draft_token * k
        prefill = self.prompt_token * c * self.length(k) * prompt / output
        return decoding + self.sequence * c + self.drafted * c * k + prefill

    def measured(self, c: int, k: int, dataset: str) -> dict[str, float]:
        """The means that a load generator would report, in the catalogue's units."""
        prompt, output = self.lengths[dataset]
        batch = c * self.occupancy
        itl = self.step(batch, k, dataset) / self.length(k)
        ttft = 8 + 0.5 * batch + 3 * (k > 0) + 0.02 * prompt
        latency = (ttft + (output - 1) * itl) / 1000
        found = {
            "itl": itl, "ttft": ttft, "request_latency": latency, "prompt_tokens": prompt,
            "output_tokens": output, "achieved_concurrency": batch,
            "output_throughput": batch * output / latency,
        }  # fmt: skip
        return found | ({"mean_acceptance_length": self.length(k)} if k else {})


@dataclass(frozen=True)
class Frames:
    """What the queries of these names return."""

    cells: pd.DataFrame
    measurements: pd.DataFrame
    acceptance: pd.DataFrame
    positions: pd.DataFrame


@dataclass(frozen=True)
class Plan:
    """Arms by family and K (0: the baseline), and the grid."""

    server: FakeServer = FakeServer()
    ks: tuple[int, ...] = (0, 1, 2, 3, 4)
    loads: tuple[int, ...] = (1, 4, 16, 64)
    repeats: int = 1
    noise: float = 0.0
    method: str = "draft_model"


def frames(plan: Plan, seed: int = 0) -> Frames:
    """Every cell of the plan, its throughput and latencies with log-normal noise."""
    random = np.random.default_rng(seed)
    cells, measured, accepted, positions = [], [], [], []
    grid = product(plan.server.lengths, plan.ks, plan.loads, range(plan.repeats))
    for number, (dataset, k, c, repeat) in enumerate(grid):
        cell_id = f"{plan.method[:4]}{number:016d}"
        cells.append(_cell(cell_id, plan.method, k) | {
            "dataset": dataset, "concurrency": c, "repeat": repeat, "prompt_set_hash": f"{c}",
        })  # fmt: skip
        factor = float(np.exp(random.normal(0, plan.noise)))
        measured += _measurements(cell_id, plan.server.measured(c, k, dataset), factor)
        if k:
            accepted.append(_acceptance(cell_id, plan.server, k))
            rates = plan.server.rates(k)
            positions += [(cell_id, "counters", i, rate) for i, rate in enumerate(rates)]
    return Frames(
        pd.DataFrame(cells),
        pd.DataFrame(measured, columns=["cell_id", "origin", "metric", "statistic", "value"]),
        pd.DataFrame(accepted, columns=["cell_id", "source", "drafts", "draft_tokens",
                                        "accepted_tokens", "rate", "mean_length"]),
        pd.DataFrame(positions, columns=["cell_id", "source", "position", "rate"]),
    )  # fmt: skip


def _cell(cell_id: str, method: str, k: int) -> dict[str, Any]:
    config = {"method": method, "model": "org/draft", "num_speculative_tokens": k}
    return FACTS | {
        "cell_id": cell_id,
        "spec_method": method if k else "none",
        "num_speculative_tokens": k or None,
        "draft_model": "org/draft" if k else None,
        "draft_revision": None,
        "speculative_config": json.dumps(config) if k else None,
        "arm_label": f"{method} K={k}" if k else "baseline",
    }


def _measurements(
    cell_id: str, values: dict[str, float], factor: float
) -> Iterable[tuple[str, str, str, str, float]]:
    for metric, value in values.items():
        noisy = {"output_throughput": value * factor, "itl": value / factor, "ttft": value / factor}
        yield cell_id, "canonical", metric, "mean", noisy.get(metric, value)


def _acceptance(cell_id: str, server: FakeServer, k: int) -> tuple[Any, ...]:
    drafts, accepted = 1000, round(1000 * (server.length(k) - 1))
    return (cell_id, "counters", drafts, drafts * k, accepted, accepted / (drafts * k),
            1 + accepted / drafts)  # fmt: skip


@pytest.fixture
def fake_server() -> type[FakeServer]:
    """The laws, to be changed by keyword."""
    return FakeServer


@pytest.fixture
def study() -> Callable[..., Frames]:
    """``study(ks=…, loads=…, repeats=…, noise=…, server=…, seed=…)``: frames as the queries give."""

    def build(seed: int = 0, **changes: Any) -> Frames:
        return frames(Plan(**changes), seed)

    return build
