"""GenAI-Perf: a report written after its ``statistics.py`` and ``json_exporter.py``."""

from pathlib import Path
from typing import Any

import pytest

from ingest.discovery import find_units
from ingest.model import Unit
from tests.ingest.readers.reading import cell, load, values, written
from warehouse.errors import InvalidInput


def distribution(unit: str, avg: float) -> dict[str, Any]:
    points = {f"p{p}": avg for p in (1, 5, 10, 25, 50, 75, 90, 95, 99)}
    return {"unit": unit, "avg": avg, **points, "min": avg, "max": avg, "std": 0.0}


def report(**stimulus: Any) -> dict[str, Any]:
    return {
        "request_throughput": {"unit": "requests/sec", "avg": 2.0},
        "request_latency": distribution("ms", 1500.0),
        "time_to_first_token": distribution("ms", 100.0),
        "time_to_second_token": distribution("ms", 20.0),
        "inter_token_latency": distribution("ms", 15.0),
        "output_token_throughput": {"unit": "tokens/sec", "avg": 190.0},
        "output_token_throughput_per_user": distribution("tokens/sec/user", 66.0),
        "output_sequence_length": distribution("tokens", 95.0),
        "input_sequence_length": distribution("tokens", 200.0),
        "request_count": {"unit": "count", "avg": 40.0},
        "input_config": {
            "model_names": ["tiny"], "subcommand": "profile",
            "endpoint": {"type": "chat", "backend": "vllm", "streaming": True},
            "perf_analyzer": {"stimulus": stimulus or {"concurrency": 4}},
            "input": {"file": None, "synthetic_tokens": {"mean": 200, "stddev": 0},
                      "output_tokens": {"mean": 100, "stddev": 0}},
            "tokenizer": {"name": "tiny"},
        },
    }  # fmt: skip


def test_its_words_and_units_become_ours(tmp_path: Path) -> None:
    found = cell(written(tmp_path / "profile_export_genai_perf.json", report()))
    told = values(found, "reported")
    assert told["ttft", "p99"] == 100.0
    assert told["itl", "p50"] == 15.0
    assert told["request_latency", "mean"] == pytest.approx(1.5)
    assert told["output_throughput", "mean"] == 190.0
    assert told["output_tokens", "mean"] == 95.0
    facts = found.facts
    assert (facts.model, facts.engine, facts.dataset) == ("tiny", "vllm", "synthetic 200/100")
    assert (facts.request_format, load(found)) == ("chat_completions", "4 at once")
    assert (found.completed, found.load_generator) == (40, "genai-perf")


def test_a_rate_is_even(tmp_path: Path) -> None:
    path = written(tmp_path / "p_genai_perf.json", report(request_rate=4.0))
    assert load(cell(path)) == "4 requests/s"


def test_what_it_was_made_from_is_passed_over_in_a_folder(tmp_path: Path) -> None:
    written(tmp_path / "profile_export_genai_perf.json", report())
    written(tmp_path / "inputs.json", {"data": []})
    raw = {"service_kind": "openai", "endpoint": "v1", "experiments": [
        {"requests": [{"timestamp": 1, "response_timestamps": [2]}]}]}  # fmt: skip
    written(tmp_path / "profile_export.json", raw)
    (tmp_path / "profile_export_genai_perf.csv").write_text("Metric,avg,min,max\n")
    (unit,) = find_units([tmp_path])
    assert isinstance(unit, Unit)
    assert unit.path.name == "profile_export_genai_perf.json"
    with pytest.raises(InvalidInput, match=r"give the report .*profile_export_genai_perf\.json"):
        cell(tmp_path / "profile_export.json")
