"""A small real warehouse for the pages: two datasets, a baseline, two speculative arms."""

import hashlib
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from warehouse.contract import Facts
from warehouse.rows import (
    REQUEST_SCHEMA,
    Acceptance,
    Cell,
    Flag,
    Measurement,
    Rejection,
    Sample,
    Source,
)
from warehouse.store import open_writer

LEVELS = (1, 2, 4, 8, 16)
START = datetime(2026, 11, 2, 12, 0, tzinfo=UTC)
BASELINE: dict[str, Any] = {"spec_method": "none"}
DRAFT: dict[str, Any] = {
    "spec_method": "draft_model",
    "num_speculative_tokens": 3,
    "draft_model": "tiny-draft",
}
EAGLE: dict[str, Any] = {"spec_method": "eagle3", "num_speculative_tokens": 5}
#: Share of the baseline's speed that an arm gains at concurrency 1, and loses per doubling.
GAINS = {"none": (0.0, 0.0), "draft_model": (0.42, 0.09), "eagle3": (0.7, 0.08)}


def facts(**changes: Any) -> Facts:
    """One valid set of facts; name what matters."""
    values: dict[str, Any] = {
        "model": "lab/tiny-target",
        "engine": "vllm",
        "engine_version": "0.25.1",
        "gpu": "H200",
        "gpu_count": 1,
        "tensor_parallel_size": 1,
        "dataset": "code",
        "load_profile": "concurrent",
        "concurrency": 1,
        "evidence": "cpu",
        "precision": "bfloat16",
        "request_format": "chat_completions",
        "prompt_set_hash": "a" * 32,
        **BASELINE,
    }
    return Facts(**(values | changes))


def measurements(speed: float, concurrency: int) -> tuple[Measurement, ...]:
    """All charted metrics of a server that is ``speed`` times as fast as the baseline."""
    rate = 60 * concurrency**0.8 * speed
    itl = 1000 * concurrency / rate
    means = {
        "output_throughput": rate,
        "total_throughput": rate * 3,
        "request_throughput": rate / 128,
        "ttft": 40 + 3 * concurrency,
        "itl": itl,
        "tpot": itl + 1,
        "request_latency": itl * 128 / 1000,
        "achieved_concurrency": concurrency * 0.97,
        "error_rate": 0.0,
    }
    spread = {"mean": 1.0, "p50": 0.98, "p90": 1.3, "p95": 1.5, "p99": 2.0}
    rates = ("output_throughput", "total_throughput", "request_throughput", "achieved_concurrency")
    return tuple(
        Measurement("canonical", metric, statistic, value * factor)
        for metric, value in means.items()
        for statistic, factor in spread.items()
        if statistic == "mean" or (metric not in rates and metric != "error_rate")
    )


def requests(cell_id: str, count: int = 20) -> pa.Table:
    """Completed requests, one a second, whose latencies grow a little."""
    rows = [
        dict.fromkeys(REQUEST_SCHEMA.names)
        | {
            "cell_id": cell_id,
            "index": i,
            "status": "completed",
            "in_window": True,
            "start": float(i),
            "first_token": i + 0.05,
            "last_token": i + 1.0,
            "end": i + 1.0,
            "prompt_tokens": 100,
            "output_tokens": 128,
            "ttft": 50.0 + i,
            "itl": 7.0 + i / 10,
            "tpot": 8.0 + i / 10,
            "request_latency": 1.0 + i / 50,
        }
        for i in range(count)
    ]
    return pa.Table.from_pylist(rows, schema=REQUEST_SCHEMA)


def cell(source_id: str, index: int, known: Facts, **changes: Any) -> Cell:
    """A measured cell with its requests."""
    gain, loss = GAINS.get(known.spec_method or "none", (0.1, 0.0))
    concurrency = known.concurrency or 1
    speed = 1 + gain - loss * (concurrency.bit_length() - 1)
    cell_id = hashlib.sha256(f"{source_id}:{index}".encode()).hexdigest()[:20]
    values: dict[str, Any] = {
        "cell_id": cell_id,
        "index": index,
        "facts": known,
        "load_generator": "guidellm",
        "load_generator_version": "0.8.1",
        "schema_generation": "G4",
        "reported_definition": "guidellm>=0.7.4",
        "run_id": f"run-{source_id[:6]}",
        "started_at": START + timedelta(minutes=index),
        "duration": 60.0,
        "requests_made": 20,
        "completed": 20,
        "errored": 0,
        "incomplete": 0,
        "requests_complete": True,
        "stop_reason": None,
        "status": "good",
        "measurements": measurements(speed, concurrency),
        "acceptance": _acceptance(known),
        "flags": changes.pop("flags", ()),
        "samples": tuple(
            Sample(float(i), "vllm:num_requests_running", float(i % 5)) for i in range(9)
        ),
        "requests": requests(cell_id),
    }
    return Cell(**(values | changes))


def _acceptance(known: Facts) -> tuple[Acceptance, ...]:
    if known.spec_method == "none":
        return ()
    return (Acceptance("counters", 100, 300, 180, 0.6, 2.8, (0.8, 0.6, 0.4)),)


def source(name: str, **changes: Any) -> Source:
    """A source whose identity is the hash of its name."""
    values: dict[str, Any] = {
        "source_id": hashlib.sha256(name.encode()).hexdigest(),
        "path": f"results/{name}.json",
        "format": "guidellm",
        "bytes": 12345,
        "provenance": "Made for the tests.",
        "commands": {"vllm": ["vllm", "serve", "lab/tiny-target"]},
        "environment": {"cpu": "test"},
    }
    return Source(**(values | changes))


def fill(root: Path, name: str, known: list[Facts], **changes: Any) -> None:
    """Add one source with one cell per set of facts to the warehouse at ``root``."""
    origin = source(name)
    with open_writer(root) as writer:
        writer.add(origin, (cell(origin.source_id, i, f, **changes) for i, f in enumerate(known)))
        writer.commit()


def study() -> dict[str, list[Facts]]:
    """Name of a source -> its cells: each arm on each dataset at each level."""
    return {
        f"{dataset}-{arm['spec_method']}": [
            facts(dataset=dataset, concurrency=level, **arm) for level in LEVELS
        ]
        for dataset in ("code", "structured")
        for arm in (BASELINE, DRAFT, EAGLE)
    }


@pytest.fixture(scope="session")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A warehouse with the study, a cell without a partner, a flag and a rejection."""
    root = tmp_path_factory.mktemp("warehouse")
    for name, known in study().items():
        fill(root, name, known)
    doubt = Flag("short_run", "warning", "Only 20 requests were measured.")
    fill(root, "lonely", [facts(gpu="B200", model="<b>*bold*</b> $x$", **EAGLE)], flags=(doubt,))
    with open_writer(root) as writer:
        writer.reject(Rejection("results/broken.json", "Not a result: the file is empty."))
        writer.commit()
    return root


@pytest.fixture
def warehouse(filled: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The filled warehouse as the one that the dashboard opens."""
    yield from opened(filled, monkeypatch)


@pytest.fixture
def empty_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A path without a warehouse, as the one that the dashboard opens."""
    yield from opened(tmp_path / "none", monkeypatch)


@pytest.fixture(scope="session")
def ingest_cells() -> Callable[[Path, str, str], None]:
    """Adds one source of a name to a warehouse: one baseline cell on a dataset."""
    return lambda root, name, dataset: fill(root, name, [facts(dataset=dataset)])


@pytest.fixture(scope="session")
def fill_cells() -> Callable[..., None]:
    """``fill`` as a fixture."""
    return fill


@pytest.fixture(scope="session")
def make_facts() -> Callable[..., Facts]:
    """``facts`` as a fixture."""
    return facts


def opened(root: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """``root`` as the warehouse that the dashboard opens, until the test is over.

    What was answered of it is kept for the next test, as a server keeps it for the next session.
    """
    monkeypatch.setenv("DRAFTBOARD_WAREHOUSE", str(root))
    yield root
