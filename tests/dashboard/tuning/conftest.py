"""A warehouse in which K was varied: what a fake server of simple laws would have measured.

Two datasets with prompts of different length, a draft model with K = 1 to 4, five loads, three
repeats with a little noise. The laws are a fake, so every cell is marked as simulated.
"""

from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.dashboard.conftest import cell, opened, source
from warehouse.contract import Facts
from warehouse.rows import Acceptance, Cell, Measurement
from warehouse.store import open_writer

LOADS = (1, 4, 16, 64, 128)
REPEATS = 3
NOISE = 0.01
#: Dataset -> prompt tokens, output tokens, chance that a position is accepted after the one before.
DATASETS = {"code": (100, 200, 0.85), "chat": (400, 200, 0.62)}
RATES = ("output_throughput", "total_throughput", "achieved_concurrency", "mean_acceptance_length")


def laws(dataset: str, k: int, load: int) -> dict[str, float]:
    """Means in the catalogue's units: a step verifies K + 1 tokens of each sequence."""
    prompt, output, chance = DATASETS.get(dataset, DATASETS["code"])
    length = 1 + sum(chance**i for i in range(1, k + 1))
    step = 4 + 0.4 * (k > 0) + 0.35 * k + 0.05 * load + 0.05 * load * k
    itl = step / length
    ttft = 8 + 0.5 * load + 3 * (k > 0) + 0.02 * prompt
    latency = (ttft + (output - 1) * itl) / 1000
    rate = load * output / latency
    found = {
        "itl": itl, "ttft": ttft, "tpot": latency * 1000 / output, "request_latency": latency,
        "prompt_tokens": prompt, "output_tokens": output, "achieved_concurrency": load,
        "output_throughput": rate, "total_throughput": rate * (prompt + output) / output,
    }  # fmt: skip
    return found | ({"mean_acceptance_length": length} if k else {})


def measurements(means: dict[str, float], factor: float) -> tuple[Measurement, ...]:
    """``factor``: how much faster this repeat was; latencies get percentiles too."""
    rows = []
    for metric, value in means.items():
        noisy = {"prompt_tokens": value, "output_tokens": value, "achieved_concurrency": value,
                 "mean_acceptance_length": value}  # fmt: skip
        speed = noisy.get(metric, value * factor if metric in RATES else value / factor)
        rows.append(Measurement("canonical", metric, "mean", speed))
        if metric not in RATES:
            rows += [Measurement("canonical", metric, s, speed * f)
                     for s, f in (("p50", 0.98), ("p95", 1.4), ("p99", 1.9))]  # fmt: skip
    return tuple(rows)


def acceptance(dataset: str, k: int) -> tuple[Acceptance, ...]:
    """Counters of 1,000 drafts."""
    if not k:
        return ()
    positions = tuple(DATASETS.get(dataset, DATASETS["code"])[2] ** i for i in range(1, k + 1))
    accepted = round(1000 * sum(positions))
    return (Acceptance("counters", 1000, 1000 * k, accepted, accepted / (1000 * k),
                       1 + accepted / 1000, positions),)  # fmt: skip


def tuned_cell(source_id: str, index: int, known: Facts, factor: float) -> Cell:
    """One measured cell."""
    dataset, k = str(known.dataset), known.num_speculative_tokens or 0
    return cell(
        source_id, index, known, run_id="simulated", requests_made=100, completed=100,
        measurements=measurements(laws(dataset, k, known.concurrency or 1), factor),
        acceptance=acceptance(dataset, k), samples=(), requests=None,
    )  # fmt: skip


def arm(k: int, name: str = "tiny-draft") -> dict[str, Any]:
    """The facts of an arm; K = 0 is the baseline."""
    if not k:
        return {"spec_method": "none"}
    return {"spec_method": "draft_model", "num_speculative_tokens": k, "draft_model": name}


def fill_study(
    root: Path, ks: tuple[int, ...] = (0, 1, 2, 3, 4), launches: bool = False, **changes: Any
) -> None:
    """Add every cell of the study to the warehouse at ``root``. ``launches``: whether it is stated that
    each repeat of an arm was a server start of its own; without, nothing is more than likely."""
    random = np.random.default_rng(5)
    base: dict[str, Any] = {
        "model": "lab/target", "engine": "vllm", "engine_version": "0.32.0", "gpu": "H200",
        "gpu_count": 1, "tensor_parallel_size": 1, "load_profile": "concurrent",
        "evidence": "simulated", "precision": "bfloat16", "request_format": "chat_completions",
    }  # fmt: skip
    origin = source(repr((ks, changes)), path="results/simulated.json")
    cells = [
        tuned_cell(
            origin.source_id,
            index,
            Facts(**base | {"dataset": dataset, "concurrency": load, "repeat": repeat,
                            "prompt_set_hash": f"{load:032x}"} | arm(k) | changes
                  | ({"launch": f"{k} {repeat}"} if launches else {})),
            float(np.exp(random.normal(0, NOISE))),
        )
        for index, (dataset, k, load, repeat) in enumerate(
            product(DATASETS, ks, LOADS, range(1, REPEATS + 1))
        )
    ]  # fmt: skip
    with open_writer(root) as writer:
        writer.add(origin, iter(cells))
        writer.commit()


@pytest.fixture(scope="session")
def tuned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The warehouse of the study."""
    root = tmp_path_factory.mktemp("tuned")
    fill_study(root)
    return root


@pytest.fixture
def tuned_warehouse(tuned: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The study as the warehouse that the dashboard opens."""
    yield from opened(tuned, monkeypatch)


@pytest.fixture
def add_study() -> Callable[..., None]:
    """``fill_study`` as a fixture."""
    return fill_study
