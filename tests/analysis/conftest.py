"""A warehouse cell with nothing to complain about, and rows of cells for matching."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pandas as pd
import pytest

from analysis.matching.fields import MATCH_FIELDS
from warehouse.contract import Facts
from warehouse.rows import Acceptance, Cell, Measurement

#: 8 streams with a token every 10 ms give 800 tok/s at most; 700 were measured.
MEASURED = {
    ("output_throughput", "mean"): 700.0,
    ("itl", "mean"): 10.0,
    ("ttft", "max"): 100.0,
    ("achieved_concurrency", "mean"): 7.9,
    ("output_tokens", "p50"): 100.0,
}


def measurements(changes: dict[tuple[str, str], float] | None = None) -> tuple[Measurement, ...]:
    values = {**MEASURED, **(changes or {})}
    return tuple(Measurement("canonical", m, s, v) for (m, s), v in values.items())


@pytest.fixture
def good_cell() -> Callable[..., Cell]:
    """``good_cell(facts={…}, measured={…}, **changes)``: an eagle3 cell that earns no flag.

    100 drafts of 3 tokens, 210 accepted: rate 0.7, mean length 3.1, positions 0.9 + 0.7 + 0.5.
    """

    def build(
        facts: dict[str, Any] | None = None,
        measured: dict[tuple[str, str], float] | None = None,
        **changes: Any,
    ) -> Cell:
        given = {
            "concurrency": 8, "spec_method": "eagle3", "num_speculative_tokens": 3,
            "temperature": 0.0, "evidence": "gpu", "prompt_set_hash": "a" * 32,
        }  # fmt: skip
        values: dict[str, Any] = {
            "cell_id": "c" * 20, "index": 0, "facts": Facts(**{**given, **(facts or {})}),
            "load_generator": "guidellm", "load_generator_version": "0.8.1",
            "schema_generation": "G4", "reported_definition": "guidellm>=0.7.4", "run_id": "run",
            "started_at": datetime(2026, 1, 2, tzinfo=UTC), "duration": 60.0,
            "requests_made": 40, "completed": 40, "errored": 0, "incomplete": 0,
            "requests_complete": True, "stop_reason": "max_requests", "status": "good",
            "measurements": measurements(measured),
            "acceptance": (Acceptance("counters", 100, 300, 210, 0.7, 3.1, (0.9, 0.7, 0.5)),),
        }  # fmt: skip
        return Cell(**{**values, **changes})

    return build


#: Every match field known; ``rate`` is unknown, as in any closed loop.
KNOWN: dict[str, Any] = {
    **{name: "same" for name in MATCH_FIELDS if name != "load"},
    "gpu_count": 1, "tensor_parallel_size": 1, "prefix_caching": True, "temperature": 0.0,
    "top_p": 1.0, "seed": 7, "max_tokens": 128, "ignore_eos": False, "rate": None,
    "concurrency": 8, "load_profile": "concurrent", "comparable_as": "canonical",
}  # fmt: skip


@pytest.fixture
def row() -> Callable[..., dict[str, Any]]:
    """``row(cell_id, method, **changes)``: one cell as match() takes it."""

    def build(cell_id: str, method: str | None = "none", **changes: Any) -> dict[str, Any]:
        own = {
            "cell_id": cell_id, "spec_method": method, "status": "good", "repeat": 0,
            "started_at": pd.Timestamp("2026-01-02", tz="UTC"),
        }  # fmt: skip
        return {**KNOWN, **own, **changes}

    return build
