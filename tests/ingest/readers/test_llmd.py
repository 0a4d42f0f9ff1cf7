"""llm-d's benchmark reports, written after ``schema_v0_1.py`` and ``schema_v0_2.py``."""

import copy
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.ingest.readers.reading import cell, load, values
from warehouse.errors import InvalidInput

ONE: dict[str, Any] = {
    "version": "0.1",
    "scenario": {
        "host": {"type": ["replica", "replica"],
                 "accelerator": [{"model": "H100", "count": 2, "parallelism": {"tp": 2}}] * 2},
        "platform": {"engine": [{"name": "vllm", "version": "0.9.0", "args": {
            "--speculative-config": '{"method": "eagle3", "num_speculative_tokens": 3}'}}] * 2},
        "model": {"name": "meta/llama", "quantization": "fp8"},
        "load": {"name": "vllm-benchmark", "type": "long-input",
                 "args": {"num_prompts": 32, "request_rate": "inf", "max_concurrency": 8}},
    },
    "metrics": {
        "time": {"duration": 29.0, "start": 1749570571.0, "stop": 1749570600.0},
        "requests": {"total": 32, "failures": 2, "incomplete": 1,
                     "input_length": {"units": "count", "mean": 628.6, "p50": 364},
                     "output_length": {"units": "count", "mean": 31.8}},
        "latency": {
            "time_to_first_token": {"units": "ms", "mean": 80.0, "p0p1": 60.0, "p99p9": 190.0},
            "time_per_output_token": {"units": "s/token", "mean": 0.045, "p90": 0.05},
            "inter_token_latency": {"units": "ms/token", "mean": 90.0},
            "normalized_time_per_output_token": {"units": "ms/token", "mean": 48.0},
            "request_latency": {"units": "ms", "mean": 1500.0},
        },
        "throughput": {"output_tokens_per_sec": 30.0, "total_tokens_per_sec": 600.0,
                       "requests_per_sec": 1.0},
    },
}  # fmt: skip
TWO: dict[str, Any] = {
    "version": "0.2",
    "run": {"uid": "1", "time": {"start": "2026-01-05T18:00:42Z", "duration": "PT1M30.5S"}},
    "scenario": {
        "stack": [
            {"metadata": {"label": "vllm"}, "native": {"args": {"--max-model-len": 1024}},
             "standardized": {"kind": "inference_engine", "tool": "ghcr.io/vllm/vllm-openai",
                              "tool_version": "0.1", "role": "aggregate", "replicas": 2,
                              "model": {"name": "Qwen/Qwen3"},
                              "accelerator": {"model": "H200", "count": 4,
                                              "parallelism": {"tp": 4}}}},
            {"metadata": {"label": "epp"}, "native": {}, "standardized": {"kind": "generic", "tool": "x"}},
        ],
        "load": {"standardized": {"tool": "guidellm", "stage": 0, "source": "random",
                                  "input_seq_len": {"distribution": "fixed", "value": 1000},
                                  "output_seq_len": {"distribution": "fixed", "value": 100},
                                  "rate_qps": 10, "concurrency": float("inf")}},
    },
    "results": {"request_performance": {"aggregate": {
        "requests": {"total": 815, "failures": 0,
                     "input_length": {"units": "count", "mean": 1000.0},
                     "output_length": {"units": "count", "mean": 100.0}},
        "latency": {"time_to_first_token": {"units": "s", "mean": 0.04, "p95": 0.05},
                    "time_per_output_token": {"units": "ms/token", "mean": 12.0},
                    "inter_token_latency": {"units": "ms/token", "mean": 11.0},
                    "request_latency": {"units": "s", "mean": 1.2}},
        "throughput": {"output_token_rate": {"units": "tokens/s", "mean": 900.0},
                       "total_token_rate": {"units": "tokens/s", "mean": 9900.0},
                       "request_rate": {"units": "queries/s", "mean": 9.0}},
    }}},
}  # fmt: skip


@pytest.fixture(params=["yaml", "json"])
def write(tmp_path: Path, request: pytest.FixtureRequest) -> Any:
    """Writes a report in either form."""

    def made(said: Any) -> Path:
        path = tmp_path / f"report.{request.param}"
        dump = yaml.safe_dump if request.param == "yaml" else json.dumps
        path.write_text(dump(said), encoding="utf-8")
        return path

    return made


def test_version_0_1_is_read_with_its_units(write: Any) -> None:
    found = cell(write(ONE))
    told = values(found, "reported")
    assert told["ttft", "mean"] == pytest.approx(80.0)
    assert told["ttft", "p001"] == pytest.approx(60.0)
    assert told["ttft", "p999"] == pytest.approx(190.0)
    assert told["itl", "mean"] == pytest.approx(45.0)
    assert told["itl", "p90"] == pytest.approx(50.0)
    assert told["chunk_gap", "mean"] == pytest.approx(90.0)
    assert told["tpot", "mean"] == pytest.approx(48.0)
    assert told["request_latency", "mean"] == pytest.approx(1.5)
    assert told["output_throughput", "mean"] == 30.0
    assert told["prompt_tokens", "p50"] == 364
    assert (found.completed, found.errored, found.incomplete) == (29, 2, 1)
    assert found.duration == 29.0
    facts = found.facts
    assert (facts.model, facts.precision, facts.engine) == ("meta/llama", "fp8", "vllm")
    assert (facts.gpu, facts.gpu_count, facts.tensor_parallel_size) == ("H100", 4, 2)
    assert (facts.spec_method, facts.num_speculative_tokens) == ("eagle3", 3)
    assert load(found) == "8 at once"


def test_version_0_2_is_read_with_its_units(write: Any) -> None:
    found = cell(write(TWO))
    told = values(found, "reported")
    assert told["ttft", "p95"] == pytest.approx(50.0)
    assert told["total_throughput", "mean"] == 9900.0
    assert (found.completed, found.duration) == (815, 90.5)
    assert found.started_at is not None
    assert found.started_at.isoformat() == "2026-01-05T18:00:42+00:00"
    facts = found.facts
    assert (facts.model, facts.engine, facts.gpu) == ("Qwen/Qwen3", "vllm", "H200")
    assert (facts.gpu_count, facts.tensor_parallel_size) == (8, 4)
    assert facts.spec_method is None
    assert facts.dataset == "random 1000/100"
    assert (facts.rate, facts.concurrency) == (10, None)


def test_the_meaning_of_tpot_is_that_of_its_load_generator(write: Any) -> None:
    told = values(cell(write(TWO)), "reported")
    assert (told["tpot", "mean"], told["itl", "mean"]) == pytest.approx((12.0, 11.0))
    other = copy.deepcopy(TWO)
    other["scenario"]["load"]["standardized"]["tool"] = "inference-perf"
    found = cell(write(other))
    assert values(found, "reported")["itl", "mean"] == pytest.approx(12.0)
    assert ("tpot", "mean") not in values(found, "reported")
    assert found.reported_definition == "llm-d: inference-perf"
    assert cell(write(TWO)).reported_definition == "llm-d: guidellm"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"version": "0.9"}, "version 0.9, 0.1 and 0.2 are read"),
        ({"metrics": {}}, "no results of requests"),
    ],
)
def test_what_cannot_be_read_is_said(write: Any, change: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        cell(write(ONE | change))


def test_yaml_that_grows_as_it_is_read_is_refused(tmp_path: Path) -> None:
    bomb = "\n".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12))
    path = tmp_path / "report.yaml"
    path.write_text(f"version: '0.1'\nscenario: {{}}\na0: &a0 [1, 1]\n{bomb}\nmetrics: {{}}\n")
    with pytest.raises(InvalidInput, match="repeats itself"):
        cell(path)
