"""llm-d's benchmark reports, written after ``schema_v0_1.py`` and ``schema_v0_2.py``."""

import copy
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from ingest.discovery import find_units
from ingest.model import Unit
from tests.ingest.readers import test_inference_perf
from tests.ingest.readers.reading import cell, load, values, written
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


def _aiperf(told: dict[str, Any], version: int = 1) -> dict[str, Any]:
    """A report of AIPerf's: 600 requests succeeded in 10 s."""
    if version == 1:
        said = copy.deepcopy(ONE)
        said["scenario"]["load"] = {"name": "aiperf", "args": {}}
        said["metrics"]["time"] = {"duration": 10.0}
        said["metrics"]["throughput"]["requests_per_sec"] = 60.0
        said["metrics"]["requests"] = told
        return said
    said = copy.deepcopy(TWO)
    said["scenario"]["load"]["standardized"]["tool"] = "aiperf"
    said["results"]["request_performance"]["aggregate"]["requests"] = told
    return said


@pytest.mark.parametrize("version", [1, 2])
def test_the_failures_of_aiperf_are_counted(write: Any, version: int) -> None:
    """``import_aiperf`` adds what failed to what succeeded: 400 of 1,000."""
    found = cell(write(_aiperf({"total": 1000, "failures": 400}, version)))
    assert (found.completed, found.errored, found.requests_made) == (600, 400, 1000)
    assert values(found, "reported")["error_rate", "mean"] == 0.4


def test_where_aiperf_counted_kinds_of_errors_nobody_knows_how_many_failed(write: Any) -> None:
    """Before, it gave what succeeded, and how many kinds of errors there were."""
    found = cell(write(_aiperf({"total": 600, "failures": 2})))
    assert (found.completed, found.errored, found.requests_made) == (600, 0, None)
    assert ("error_rate", "mean") not in values(found, "reported")
    assert [flag.name for flag in found.flags] == ["requests_not_counted"]


def test_without_errors_both_ways_of_aiperf_say_the_same(write: Any) -> None:
    found = cell(write(_aiperf({"total": 600, "failures": 0})))
    assert (found.completed, found.errored, found.requests_made, found.flags) == (600, 0, 600, ())


@pytest.mark.parametrize("tool", ["vllm-benchmark", "inferencemax"])
def test_what_failed_is_what_was_asked_for_less_what_succeeded(write: Any, tool: str) -> None:
    said = copy.deepcopy(ONE)
    said["scenario"]["load"]["name"] = tool
    said["metrics"]["requests"] = {"total": 20}
    found = cell(write(said))
    assert (found.completed, found.errored, found.requests_made) == (20, 12, 32)
    assert values(found, "reported")["error_rate", "mean"] == 12 / 32


def test_where_nobody_says_how_many_failed_there_is_no_share_of_errors(write: Any) -> None:
    said = copy.deepcopy(ONE)
    said["metrics"]["requests"] = {"total": 20}
    del said["scenario"]["load"]["args"]["num_prompts"]
    found = cell(write(said))
    assert (found.completed, found.errored, found.requests_made) == (20, 0, None)
    assert ("error_rate", "mean") not in values(found, "reported")
    assert [flag.name for flag in found.flags] == ["requests_not_counted"]


STAGE, SESSION = "stage_0_lifecycle_metrics.json", "stage_0_session_lifecycle_metrics.json"


def reports(folder: Path, source: str) -> tuple[Path, Path]:
    """The reports of versions 0.1 and 0.2 that are made of a file."""
    paths = (folder / f"benchmark_report{mark},_{source}.yaml" for mark in ("", "_v0.2"))
    first, second = paths
    folder.mkdir(parents=True, exist_ok=True)
    first.write_text(yaml.safe_dump(ONE), encoding="utf-8")
    second.write_text(yaml.safe_dump(TWO), encoding="utf-8")
    return first, second


def stage(folder: Path) -> Path:
    """A stage of inference-perf."""
    said = test_inference_perf.stage(test_inference_perf.STAGES[0], concurrency=4)
    return written(folder / STAGE, said)


def found_in(folder: Path) -> list[str]:
    return [unit.path.name for unit in find_units([folder]) if isinstance(unit, Unit)]


def test_reports_of_a_result_that_lies_beside_them_are_passed_over(tmp_path: Path) -> None:
    stage(tmp_path)
    reports(tmp_path, STAGE)
    written(tmp_path / SESSION, {"num_sessions": 1})
    reports(tmp_path, SESSION)
    assert found_in(tmp_path) == [STAGE]


def test_a_report_for_each_level_is_passed_over_too(tmp_path: Path, report: Any) -> None:
    written(tmp_path / "results.json", report(levels=(2, 4)))
    for level in range(2):
        for path in reports(tmp_path, "results.json"):
            path.rename(path.with_name(f"{path.stem}_{level}.yaml"))
    assert found_in(tmp_path) == ["results.json"]


def test_of_two_versions_the_later_one_is_read(tmp_path: Path) -> None:
    _, later = reports(tmp_path, STAGE)
    assert found_in(tmp_path) == [later.name]


def test_a_report_of_what_cannot_be_read_is_read_itself(tmp_path: Path) -> None:
    _, later = reports(tmp_path, "fmperf.json")
    written(tmp_path / "fmperf.json", {"ours": "not"})
    assert later.name in found_in(tmp_path)


def test_what_a_report_was_made_of_stands_in_its_place(run: Any, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    first, second = reports(folder, STAGE)
    for path in (first, second):
        assert run(path).status == 0
    assert [one["path"] for one in run.cells()] == [str(second)]
    whole = stage(folder)
    assert run(folder).status == 0
    assert [one["path"] for one in run.cells()] == [str(whole)]


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


@pytest.mark.parametrize("said", [ONE, TWO])
@pytest.mark.parametrize("end", ["latency:\n", "throughput:\n", "throughput:", "total_token"])
def test_a_report_in_yaml_that_was_cut_off_is_refused(tmp_path: Path, said: Any, end: str) -> None:
    """YAML has no end of its own: what is left may be whole to whoever reads it."""
    text = yaml.safe_dump(said, sort_keys=False)
    path = tmp_path / "report.yaml"
    path.write_text(text[: text.index(end) + len(end)], encoding="utf-8")
    with pytest.raises(InvalidInput, match="is cut off"):
        cell(path)


def test_yaml_that_grows_as_it_is_read_is_refused(tmp_path: Path) -> None:
    bomb = "\n".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12))
    path = tmp_path / "report.yaml"
    path.write_text(f"version: '0.1'\nscenario: {{}}\na0: &a0 [1, 1]\n{bomb}\nmetrics: {{}}\n")
    with pytest.raises(InvalidInput, match="repeats itself"):
        cell(path)


@pytest.mark.parametrize("dump", [json.dumps, yaml.safe_dump])
def test_a_value_that_is_no_number_is_unknown_and_told(tmp_path: Path, dump: Any) -> None:
    said = copy.deepcopy(ONE)
    said["metrics"]["throughput"]["output_tokens_per_sec"] = float("nan")
    path = tmp_path / ("r.json" if dump is json.dumps else "r.yaml")
    path.write_text(dump(said), "utf-8")
    found = cell(path)
    assert "not_a_number" in {flag.name for flag in found.flags}
    assert ("output_throughput", "mean") not in values(found, "reported")
    assert "not_a_number" not in {
        flag.name for flag in cell(written(tmp_path / "b.json", ONE)).flags
    }
