"""Fixtures that every part shares: a place for a warehouse, and real rows to put into it."""

import gc
import hashlib
import json
import os
import shutil
import signal
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import zstandard
from click.testing import CliRunner
from filelock import FileLock
from hypothesis import settings

from warehouse.contract import Facts
from warehouse.rows import REQUEST_SCHEMA, Acceptance, Cell, Flag, Measurement, Sample, Source

# How long an example takes says how busy the machine is, never whether the code is right.
settings.register_profile("draftboard", deadline=None)
settings.load_profile("draftboard")

# A shell switches Ctrl-C off in what it starts in the background, for every child too: tests that
# interrupt a command would wait for ever there.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

ROOT = Path(__file__).parents[1]
#: A small recorded study that tests read: real measurements of a tiny model.
RECORDED = ROOT / "tests" / "fixtures" / "lab-first"


def pytest_collection_finish() -> None:
    """Keep what was collected and imported: Streamlit looks for garbage after every run of a page."""
    gc.collect()
    gc.freeze()


@dataclass(frozen=True)
class Drop:
    """One recorded drop: what its record says, and the packed report beside it."""

    facts: dict[str, Any]
    report: Path

    @property
    def levels(self) -> int:
        """How many cells are in the report."""
        raw = zstandard.ZstdDecompressor().decompress(self.report.read_bytes())
        return len(json.loads(raw)["benchmarks"])

    @property
    def stated(self) -> tuple[str, ...]:
        """What the report itself does not say, as ``--set`` takes it."""
        names = ("dataset", "gpu", "tensor_parallel_size", "spec_method", "num_speculative_tokens")
        return tuple(f"{n}={self.facts[n]}" for n in names if self.facts.get(n) is not None)


def recorded_drop(dataset: str, method: str, k: int | None = None) -> Drop:
    """The first recorded drop of an arm on a dataset."""
    for record in sorted(RECORDED.rglob("record.json")):
        facts = json.loads(record.read_text(encoding="utf-8"))
        arm = (facts["dataset"], facts["spec_method"], facts.get("num_speculative_tokens"))
        if arm == (dataset, method, k):
            return Drop(facts, next(record.parent.glob("*guidellm*.json.zst")))
    raise LookupError(f"no recorded drop of {method} on {dataset} below {RECORDED}")


FACTS: dict[str, Any] = {
    "study": "fixture",
    "model": "tiny",
    "precision": "bfloat16",
    "engine": "vllm",
    "engine_version": "0.24.0",
    "gpu": "H200",
    "gpu_count": 1,
    "tensor_parallel_size": 1,
    "dataset": "HumanEval",
    "prompt_set_hash": "0" * 32,
    "request_format": "chat_completions",
    "server_args": {"max_model_len": 4096},
    "temperature": 0.0,
    "load_profile": "concurrent",
    "concurrency": 8,
    "spec_method": "none",
}


def made_once(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], None]) -> Path:
    """A folder of this run of the tests, filled by the first worker that asks, read by all."""
    base = factory.getbasetemp()
    place = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / name
    partial = place.with_suffix(".partial")
    with FileLock(place.with_suffix(".lock")):
        if not place.exists():
            shutil.rmtree(partial, ignore_errors=True)
            partial.mkdir()
            make(partial)
            partial.rename(place)
    return place


def _taken_in(results: Path) -> Callable[[Path], None]:
    """Fills ``data/warehouse`` of a folder, as the command does."""
    from draftboard import cli

    def ingest(place: Path) -> None:
        words = ["ingest", str(results), "--warehouse", str(place / "data" / "warehouse")]
        done = CliRunner().invoke(cli, words)
        assert done.exit_code == 0, done.output

    return ingest


@pytest.fixture(scope="session")
def examples(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A warehouse of ``examples/``, which nobody may change: ``data/warehouse`` of its folder."""
    made = made_once(tmp_path_factory, "examples", _taken_in(ROOT / "examples"))
    return made / "data" / "warehouse"


@pytest.fixture(scope="session")
def first_lab(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A warehouse of the first recorded lab run, which nobody may change."""
    return made_once(tmp_path_factory, "first-lab", _taken_in(RECORDED)) / "data" / "warehouse"


@pytest.fixture
def warehouse_path(tmp_path: Path) -> Path:
    """A place for a warehouse; nothing is there yet."""
    return tmp_path / "warehouse"


def _requests(cell_id: str, count: int = 20) -> pa.Table:
    """Requests that start 0.1 s apart, 100 + i ms to the first token, 2 s long, 101 tokens."""
    start = [1_700_000_000 + 0.1 * i for i in range(count)]
    first = [s + 0.1 + 0.001 * i for i, s in enumerate(start)]
    columns: dict[str, list[Any]] = {
        "cell_id": [cell_id] * count,
        "index": list(range(count)),
        "status": ["completed"] * count,
        "in_window": [True] * count,
        "start": start,
        "first_token": first,
        "last_token": [s + 2.0 for s in start],
        "end": [s + 2.0 for s in start],
        "prompt_tokens": [50 + i for i in range(count)],
        "output_tokens": [101] * count,
        "ttft": [100.0 + i for i in range(count)],
        "itl": [(1.9 - 0.001 * i) * 10 for i in range(count)],
        "tpot": [2000 / 101] * count,
        "request_latency": [2.0] * count,
        "prompt_hash": [f"{i:032x}" for i in range(count)],
    }
    empty = [None] * count
    return pa.table(
        [pa.array(columns.get(f.name, empty), f.type) for f in REQUEST_SCHEMA],
        schema=REQUEST_SCHEMA,
    )


def _source(name: str = "report", **changes: Any) -> Source:
    values: dict[str, Any] = {
        "source_id": hashlib.sha256(name.encode()).hexdigest(),
        "path": f"{name}.json",
        "format": "guidellm",
        "bytes": 1000,
        "provenance": "made by a test",
        "commands": {"vllm": ["vllm serve tiny"]},
    }
    return Source(**{**values, **changes})


def _measurements(scale: float) -> tuple[Measurement, ...]:
    return (
        Measurement("canonical", "output_throughput", "mean", 1000.0 * scale),
        Measurement("reported", "output_throughput", "mean", 1010.0 * scale),
        Measurement("canonical", "ttft", "p50", 100.0 / scale),
        Measurement("reported", "ttft", "p99", 300.0 / scale),
    )


def _cell(
    source: Source, index: int = 0, scale: float = 1.0, facts: Any = None, **changes: Any
) -> Cell:
    cell_id = hashlib.sha256(f"{source.source_id}:{index}".encode()).hexdigest()[:20]
    given = Facts(**{**FACTS, "concurrency": 2**index, **(facts or {})})
    values: dict[str, Any] = {
        "cell_id": cell_id,
        "index": index,
        "facts": given,
        "load_generator": "guidellm",
        "load_generator_version": "0.8.1",
        "schema_generation": "G4",
        "reported_definition": "guidellm>=0.7.4",
        "run_id": f"run-{source.source_id[:6]}",
        "started_at": datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
        "duration": 60.0,
        "requests_made": 20,
        "completed": 20,
        "errored": 0,
        "incomplete": 0,
        "requests_complete": True,
        "stop_reason": "max_requests",
        "status": "good",
        "measurements": _measurements(scale),
        "acceptance": ()
        if given.spec_method in (None, "none")
        else (Acceptance("counters", 100, 300, 210, 0.7, 3.1, (0.9, 0.7, 0.5)),),
        "flags": (Flag("short_window", "warning", "The window is short."),),
        "samples": (Sample(1.0, "vllm:num_requests_running", 8.0),),
        "requests": _requests(cell_id),
    }
    return Cell(**{**values, **changes})


@pytest.fixture(scope="session")
def make_source() -> Callable[..., Source]:
    """``make_source(name, **changes)``: a source whose identity follows from its name."""
    return _source


@pytest.fixture(scope="session")
def make_cell() -> Callable[..., Cell]:
    """``make_cell(source, index, scale, facts={…}, **changes)``: a whole cell with 20 requests."""
    return _cell


@pytest.fixture(scope="session")
def make_requests() -> Callable[..., pa.Table]:
    """``make_requests(cell_id, count)``: request rows."""
    return _requests


@pytest.fixture(scope="session")
def filled_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What ``filled`` is a copy of: nobody else touches it."""
    from warehouse.store import open_writer

    root = tmp_path_factory.mktemp("filled") / "warehouse"
    with open_writer(root) as writer:
        for name, method, k, scale in (("base", "none", None, 1.0), ("spec", "eagle3", 3, 1.5)):
            source = _source(name)
            facts = {"spec_method": method, "num_speculative_tokens": k}
            writer.add(source, (_cell(source, i, scale, facts) for i in range(3)))
        writer.commit()
    return root


@pytest.fixture
def filled(filled_once: Path, warehouse_path: Path) -> Path:
    """A warehouse with a baseline and an eagle3 report of three concurrency levels each."""
    shutil.copytree(filled_once, warehouse_path)
    return warehouse_path
