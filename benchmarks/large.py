"""A large warehouse: 30,000 cells, 10 million requests, written through the store's own writer."""

import hashlib
import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from answers.ground import derive
from benchmarks.result import progress
from warehouse.catalogue import METRICS, STATISTICS
from warehouse.contract import Facts
from warehouse.rows import REQUEST_SCHEMA, Acceptance, Cell, Measurement, Source
from warehouse.storage.current import current_generation
from warehouse.store import open_writer

GRID: dict[str, tuple[Any, ...]] = {
    "model": ("gpt-oss-120b", "llama-4-70b", "qwen-4-32b", "mistral-8-24b"),
    "gpu": ("H100", "H200", "B200"),
    "dataset": ("SWE-bench", "humaneval", "math", "chat", "summaries", "structured"),
    "engine_version": ("0.31.0", "0.32.0"),
    "tensor_parallel_size": (1, 2, 4),
    "repeat": (0, 1, 2),
    "spec": (("none", None), ("eagle3", 1), ("eagle3", 3), ("eagle3", 5), ("mtp", 2), ("ngram", 3)),
    "concurrency": (1, 2, 4, 8, 16, 32, 64, 128, 192, 256),
}
#: What a study is of; each has all datasets, sizes, arms, loads and repeats of it.
STUDY = ("model", "gpu", "engine_version")
START = datetime(2026, 10, 1, tzinfo=UTC)
WINDOW = 120.0


@dataclass(frozen=True)
class Size:
    """How large: cells in all, cells in one source, requests in one cell."""

    cells: int = 30_000
    cells_per_source: int = 100
    requests: int = 334


QUICK = Size(cells=600, cells_per_source=20, requests=40)


def facts() -> Iterator[Facts]:
    """One after the other, every combination of the grid; the load varies fastest."""
    for values in itertools.product(*GRID.values()):
        said = dict(zip(GRID, values, strict=True))
        method, k = said.pop("spec")
        yield Facts(
            **said, study=" ".join(said[name] for name in STUDY), engine="vllm", spec_method=method, num_speculative_tokens=k,
            gpu_count=said["tensor_parallel_size"], evidence="simulated", load_profile="concurrent",
            prompt_set_hash=hashlib.sha256(said["dataset"].encode()).hexdigest()[:32],
        )  # fmt: skip


#: What every cell measures alike: answers as long as its requests say, whole ones, and no errors.
SOUND: dict[str, float] = {
    "output_tokens": 100.0, "error_rate": 0.0, "repeating_answers": 0.0, "json_answers": 0.0,
    "request_attainment": 1.0,
}  # fmt: skip


def measurements(factor: float) -> tuple[Measurement, ...]:
    """Some 105 canonical numbers and the 30 that a report says of TTFT and request latency."""
    kept = [(m, s) for m in METRICS.values() for s in (STATISTICS if m.distribution else ("mean",))]
    canonical = (
        Measurement("canonical", m.key, s, SOUND.get(m.key, factor * (i + 1)))
        for i, (m, s) in enumerate(kept)
    )
    reported = (Measurement("reported", m.key, s, factor * (i + 1)) for i, (m, s) in enumerate(kept)
                if m.key in {"ttft", "request_latency"})  # fmt: skip
    return (*canonical, *reported)


def requests(cell_id: str, count: int, factor: float) -> pa.Table:
    """The requests of one cell: plausible times, one row each."""
    start = np.linspace(0, WINDOW, count) + START.timestamp()
    latency = factor * (1 + 0.1 * np.sin(np.arange(count)))
    columns: dict[str, Any] = {
        "cell_id": pa.DictionaryArray.from_arrays(np.zeros(count, np.int32), [cell_id]),
        "status": pa.DictionaryArray.from_arrays(np.zeros(count, np.int8), ["completed"]),
        "index": np.arange(count, dtype=np.int32), "in_window": np.ones(count, bool),
        "start": start, "first_token": start + 0.1 * factor, "last_token": start + latency,
        "end": start + latency, "ttft": np.full(count, 100 * factor), "itl": latency * 10,
        "tpot": latency * 11, "request_latency": latency,
        "prompt_tokens": np.full(count, 512, np.int32), "output_tokens": np.full(count, 100, np.int32),
    }  # fmt: skip
    arrays = [pa.array(columns[f.name], f.type) if f.name in columns else pa.nulls(count, f.type)
              for f in REQUEST_SCHEMA]  # fmt: skip
    return pa.table(arrays, schema=REQUEST_SCHEMA)


def cell(source_id: str, index: int, said: Facts, count: int) -> Cell:
    """One cell with everything a page may ask for."""
    cell_id = hashlib.sha256(f"{source_id}:{index}".encode()).hexdigest()[:20]
    k = said.num_speculative_tokens
    factor = 1 + index % 17 / 10 + (said.concurrency or 1) / 64 - (0.2 if k else 0)
    rates = tuple(0.8 * 0.8**i for i in range(k or 0))
    counted = Acceptance("counters", 1000, 1000 * (k or 0), int(1000 * sum(rates)),
                         sum(rates) / (k or 1), 1 + sum(rates), rates)  # fmt: skip
    return Cell(
        cell_id=cell_id, index=index, facts=said, load_generator="guidellm",
        load_generator_version="0.8.1", schema_generation="G4",
        reported_definition="guidellm>=0.7.4", run_id=source_id[:12],
        started_at=START + timedelta(minutes=index), duration=WINDOW, requests_made=count,
        completed=count, errored=0, incomplete=0, requests_complete=True,
        stop_reason="max_requests", status="good", measurements=measurements(factor),
        acceptance=(counted,) if k else (), requests=requests(cell_id, count, factor),
    )  # fmt: skip


def large_warehouse(root: Path, size: Size) -> Path:
    """The warehouse at ``root``, written if it is not there yet; takes minutes at full size."""
    if current_generation(root) is not None:
        progress(f"using the warehouse at {root}")
        return root
    sources = -(-size.cells // size.cells_per_source)
    with open_writer(root) as writer:
        for number, batch in enumerate(batched(size)):
            if number % 25 == 0:
                progress(f"writing source {number} of {sources}")
            identity = hashlib.sha256(f"large:{number}".encode()).hexdigest()
            source = Source(identity, f"large/{number}.json", "guidellm", 0)
            writer.add(source, (cell(identity, i, f, size.requests) for i, f in enumerate(batch)))
        progress("publishing")
        writer.commit()
    progress("deriving, as ingest does")
    derive(root)
    return root


def batched(size: Size) -> Iterator[list[Facts]]:
    """The facts of each source."""
    every = itertools.islice(facts(), size.cells)
    while batch := list(itertools.islice(every, size.cells_per_source)):
        yield batch
