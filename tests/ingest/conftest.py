"""Small reports and results in the shapes that the load generators write, and a way to ingest."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from commands.keeping.ingest import ingest
from warehouse import queries
from warehouse.filters import Filters
from warehouse.storage.current import current_generation
from warehouse.store import Reader

START = 1_795_252_000.0


def _request(n: int, start: float) -> dict[str, Any]:
    body = {"model": "tiny", "messages": [{"role": "user", "content": f"Question {n}?"}]}
    timings = {
        "targeted_start": start, "queued": start, "dequeued": start, "scheduled_at": start,
        "resolve_start": start, "request_start": start, "first_request_iteration": start + 0.1,
        "first_token_iteration": start + 0.1, "first_output_token_iteration": start + 0.1,
        "last_token_iteration": start + 0.9, "last_request_iteration": start + 0.9,
        "request_iterations": 10, "token_iterations": 9, "request_end": start + 0.95,
        "resolve_end": start + 0.95, "finalized": start + 0.96,
    }  # fmt: skip
    return {
        "type_": "generative_request_stats",
        "request_id": f"r{n}",
        "response_id": f"c{n}",
        "request_args": json.dumps({"method": None, "stream": True, "body": body}),
        "output": f"Answer {n}.",
        "info": {"request_id": f"r{n}", "status": "completed", "timings": timings, "error": None},
        "input_metrics": {"text_tokens": 12, "total_tokens": 12},
        "output_metrics": {"text_tokens": 9, "total_tokens": 9},
        "response_metrics": None,
        "request_start_time": start,
        "request_end_time": start + 0.95,
    }


def _distribution(mean: float) -> dict[str, Any]:
    percentiles = dict.fromkeys(
        ("p001", "p01", "p05", "p10", "p25", "p50", "p75", "p90", "p95", "p99", "p999"), mean
    )
    one = {"mean": mean, "median": mean, "mode": mean, "variance": 0.0, "std_dev": 0.0,
           "min": mean, "max": mean, "count": 20, "total_sum": mean * 20,
           "percentiles": percentiles, "pdf": None}  # fmt: skip
    return {"successful": one, "errored": None, "incomplete": None, "total": one}


def _benchmark(level: int, index: int, count: int) -> dict[str, Any]:
    base = START + 100.0 * index
    made = {"successful": count, "errored": 0, "incomplete": 0, "total": count}
    end = base + (count - 1) // level + 0.95
    requests = [_request(1000 * index + i, base + i // level) for i in range(count)]
    return {
        "type_": "generative_benchmark",
        "config": {
            "id_": f"cell-{index}", "run_id": "run-1", "run_index": index,
            "strategy": {"type_": "concurrent", "streams": level, "max_concurrency": level},
            "constraints": {"max_requests": {"type_": "max_requests", "args": {}}},
            "profile": {"kind": "concurrent", "streams": [level]},
            "requests": {}, "environment": {},
            "backend": {"kind": "openai_http", "target": "http://127.0.0.1:8000", "model": "tiny",
                        "request_format": "/v1/chat/completions"},
        },
        "scheduler_state": {
            "start_time": base, "end_time": end, "created_requests": count,
            "processed_requests": count, "successful_requests": count, "errored_requests": 0,
            "cancelled_requests": 0, "start_requests_time": base, "end_requests_time": end,
            "end_processing_constraints": {"max_requests": {}},
        },
        "scheduler_metrics": {
            "start_time": base, "request_start_time": base, "measure_start_time": base,
            "measure_end_time": end, "request_end_time": end, "end_time": end,
            "requests_made": made, "strategy_type": "concurrent",
        },
        "metrics": {
            "request_totals": made,
            "requests_per_second": _distribution(level),
            "request_concurrency": _distribution(level),
            "request_latency": _distribution(0.95),
            "prompt_token_count": _distribution(12),
            "output_token_count": _distribution(9),
            "time_to_first_token_ms": _distribution(100),
            "time_per_output_token_ms": _distribution(100),
            "inter_token_latency_ms": _distribution(100),
            "output_tokens_per_second": _distribution(9 * level),
            "tokens_per_second": _distribution(21 * level),
        },
        "requests": {"successful": requests, "errored": [], "incomplete": [], "total": None},
        "warnings": [], "start_time": base, "end_time": end, "duration": end - base,
        "warmup_duration": 0.0, "cooldown_duration": 0.0,
    }  # fmt: skip


@pytest.fixture(scope="session")
def report() -> Callable[..., dict[str, Any]]:
    """A GuideLLM 0.8.1 report: ``report(levels=(2, 4), count=20)`` as a dictionary."""

    def build(levels: tuple[int, ...] = (4,), count: int = 20) -> dict[str, Any]:
        return {
            "metadata": {"version": 2, "guidellm_version": "0.8.1", "python_version": "3.11.7"},
            "config": {"spec": {"backend": {"kind": "openai_http", "model": "tiny"}}},
            "benchmarks": [_benchmark(level, i, count) for i, level in enumerate(levels)],
            "conclusions": [],
        }

    return build


@pytest.fixture(scope="session")
def bench() -> Callable[..., dict[str, Any]]:
    """A ``vllm bench serve`` result; ``bench(detailed=True)`` adds the per-request lists."""

    def build(detailed: bool = False, **changes: Any) -> dict[str, Any]:
        result: dict[str, Any] = {
            "date": "20261121-091924", "endpoint_type": "openai", "backend": "openai",
            "label": None, "model_id": "tiny", "tokenizer_id": "models/tiny", "num_prompts": 4,
            "request_rate": "inf", "burstiness": 1.0, "max_concurrency": 2, "duration": 2.0,
            "completed": 4, "failed": 0, "total_input_tokens": 40, "total_output_tokens": 36,
            "request_throughput": 2.0, "request_goodput": None, "output_throughput": 18.0,
            "total_token_throughput": 38.0, "mean_ttft_ms": 100.0, "median_ttft_ms": 100.0,
            "p99_ttft_ms": 110.0, "mean_tpot_ms": 50.0, "mean_itl_ms": 80.0, "p99_itl_ms": 80.0,
            "mean_e2el_ms": 500.0, "spec_decode_acceptance_rate": 65.0,
            "spec_decode_acceptance_length": 2.3, "spec_decode_num_drafts": 10,
            "spec_decode_draft_tokens": 20, "spec_decode_accepted_tokens": 13,
            "spec_decode_per_position_acceptance_rates": [0.8, 0.5],
        }  # fmt: skip
        if detailed:
            result |= {
                "input_lens": [10] * 4, "output_lens": [9] * 4, "ttfts": [0.1] * 4,
                "itls": [[0.08] * 5] * 4, "latencies": [0.5] * 4,
                "start_times": [10.0, 10.0, 10.5, 10.5], "errors": [""] * 4,
                "generated_texts": [f"kept only if asked {i}" for i in range(4)],
            }  # fmt: skip
        return result | changes

    return build


@dataclass
class Ran:
    """How an ingest ended."""

    status: int
    out: str
    err: str

    @property
    def json(self) -> dict[str, Any]:
        answer: dict[str, Any] = json.loads(self.out)
        return answer

    @property
    def reason(self) -> str:
        """Why the one rejected path was rejected."""
        (rejected,) = self.json["rejected"]
        return str(rejected["reason"])


def as_rows(table: Any) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = table.to_pylist()
    return rows


class Ingest:
    """The command on a warehouse of its own."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def __call__(self, *arguments: object) -> Ran:
        words = [*map(str, arguments), "--warehouse", str(self.root)]
        result = CliRunner().invoke(ingest, words, catch_exceptions=False)
        return Ran(result.exit_code, result.stdout, result.stderr)

    @property
    def generation(self) -> int | None:
        return current_generation(self.root)

    def cells(self) -> list[dict[str, Any]]:
        with Reader(self.root) as reader:
            return as_rows(queries.cells(reader, Filters()))

    def of_cell(self, query: Callable[..., Any], cell_id: str) -> list[dict[str, Any]]:
        """Rows of a query about one cell, e.g. ``queries.samples``."""
        with Reader(self.root) as reader:
            return as_rows(query(reader, cell_id))

    def of_all(self, query: Callable[..., Any]) -> list[dict[str, Any]]:
        """Rows of a query that takes filters, e.g. ``queries.acceptance``."""
        with Reader(self.root) as reader:
            return as_rows(query(reader, Filters()))

    def flags(self, cell_id: str) -> set[str]:
        with Reader(self.root) as reader:
            return {row["name"] for row in as_rows(queries.flags(reader, [cell_id]))}

    def stored_bytes(self) -> bytes:
        """Everything that lies in the warehouse, one file after the other."""
        return b"".join(p.read_bytes() for p in sorted(self.root.rglob("*")) if p.is_file())


@pytest.fixture
def run(tmp_path: Path) -> Ingest:
    """``run(path, "--json")`` ingests into a warehouse of this test."""
    return Ingest(tmp_path / "warehouse")


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str, Any], Path]:
    """``write("a.json", value)`` puts a value as JSON, or text or bytes as they are, into a file."""

    def put(name: str, value: Any) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if not isinstance(value, bytes):
            value = (value if isinstance(value, str) else json.dumps(value)).encode()
        path.write_bytes(value)
        return path

    return put
