"""LLMPerf: a summary and its requests, written after ``token_benchmark_ray.py``."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ingest.discovery import find_units
from ingest.model import Unit
from tests.ingest.readers.reading import cell, load, values, written
from warehouse.errors import InvalidInput

RESPONSES: list[dict[str, Any]] = [
    {"error_code": None, "error_msg": "", "inter_token_latency_s": 0.05, "ttft_s": 0.1 * n,
     "end_to_end_latency_s": 1.0 + n, "request_output_throughput_token_per_s": 10.0,
     "number_total_tokens": 60, "number_output_tokens": 10 * n, "number_input_tokens": 50}
    for n in (1, 2, 3)
] + [{"error_code": 500, "error_msg": "gone", "inter_token_latency_s": 0, "ttft_s": 0,
      "end_to_end_latency_s": 0, "request_output_throughput_token_per_s": 0,
      "number_total_tokens": 50, "number_output_tokens": 0, "number_input_tokens": 50}]  # fmt: skip


def summary() -> dict[str, Any]:
    """What ``metrics_summary`` makes of them over 10 s, flattened; numpy's integers become texts."""
    said: dict[str, Any] = {
        "version": "2023-08-31", "name": "tiny_50_20_summary", "model": "tiny",
        "mean_input_tokens": 50, "stddev_input_tokens": 5, "mean_output_tokens": 20,
        "stddev_output_tokens": 2, "num_concurrent_requests": 2,
        "results_num_requests_started": 4, "results_error_rate": 0.25, "results_number_errors": 1,
        "results_error_code_frequency": "{500: 1}",
        "results_mean_output_throughput_token_per_s": 6.0, "results_num_completed_requests": 3,
        "results_num_completed_requests_per_min": 18.0, "timestamp": 1_700_000_010,
    }  # fmt: skip
    for name in ("inter_token_latency_s", "ttft_s", "end_to_end_latency_s", "number_input_tokens",
                 "number_output_tokens"):  # fmt: skip
        own = np.array([one[name] for one in RESPONSES[:3]])
        for p in (25, 50, 75, 90, 95, 99):
            said[f"results_{name}_quantiles_p{p}"] = float(np.percentile(own, p))
        said[f"results_{name}_mean"] = float(own.mean())
        extremes = (
            (str(own.min()), str(own.max()))
            if name.startswith("number")
            else (own.min(), own.max())
        )
        said[f"results_{name}_min"], said[f"results_{name}_max"] = extremes
        said[f"results_{name}_stddev"] = float(own.std(ddof=1))
    return said


@pytest.fixture
def path(tmp_path: Path) -> Path:
    written(tmp_path / "tiny_50_20_individual_responses.json", RESPONSES)
    return written(tmp_path / "tiny_50_20_summary.json", summary())


def test_its_words_and_units_become_ours(path: Path) -> None:
    found = cell(path)
    told = values(found, "reported")
    assert told["ttft", "p50"] == pytest.approx(200.0)
    assert told["request_latency", "mean"] == pytest.approx(3.0)
    assert told["output_tokens", "max"] == 30
    assert told["output_throughput", "mean"] == 6.0
    assert told["request_throughput", "mean"] == pytest.approx(0.3)
    assert told["error_rate", "mean"] == 0.25
    # Its latency between tokens counts the first one in: it is neither of ours.
    assert not {"itl", "tpot", "chunk_gap"} & {metric for metric, _ in told}
    assert (found.completed, found.errored, found.duration) == (3, 1, pytest.approx(10.0))
    assert found.started_at is not None
    assert found.started_at.timestamp() == pytest.approx(1_700_000_000)
    assert (found.facts.model, found.facts.dataset) == ("tiny", "sonnet 50/20")
    assert load(found) == "2 at once"


def test_its_requests_are_taken_in_with_the_summary(path: Path) -> None:
    (unit,) = find_units([path.parent])
    assert isinstance(unit, Unit)
    found = cell(unit.path)
    assert found.requests is not None
    assert found.requests["error"].to_pylist() == [None, None, None, "500 gone"]
    told, mine = values(found, "reported"), values(found, "canonical")
    for line in (("ttft", "mean"), ("request_latency", "mean"), ("output_tokens", "mean")):
        assert mine[line] == pytest.approx(told[line])
    # (1.9 + 2.8 + 3.7) s after the first token for 9 + 19 + 29 tokens.
    assert mine["itl", "mean"] == pytest.approx(8.4 / 57 * 1000)
    assert ("output_throughput", "mean") not in mine


@pytest.mark.parametrize("tokens", [12.5, 1e12])
def test_tokens_of_a_request_that_are_no_count_are_named(path: Path, tokens: float) -> None:
    rows = [RESPONSES[0] | {"number_output_tokens": tokens}, *RESPONSES[1:]]
    written(path.parent / "tiny_50_20_individual_responses.json", rows)
    with pytest.raises(InvalidInput, match="output_tokens.* a number is too large, or has a frac"):
        cell(path)


def test_its_requests_alone_are_named_and_refused(path: Path) -> None:
    path.unlink()
    with pytest.raises(InvalidInput, match=r"LLMPerf.*summary\.json"):
        cell(path.parent / "tiny_50_20_individual_responses.json")
