"""inference-perf: files in the shape that its ``reportgen/base.py`` (0.7) writes."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from ingest.discovery import find_units
from ingest.model import Unit
from tests.ingest.readers.reading import FIXTURES, cell, load, values, written
from warehouse.errors import InvalidInput

CONFIG = {
    "api": {"type": "completion", "streaming": True},
    "data": {"type": "random", "input_distribution": {"mean": 30.0}, "output_distribution": {"mean": 20.0}},
    "load": {"type": "concurrent", "stages": [{"num_requests": 2, "concurrency_level": 1},
                                              {"num_requests": 3, "concurrency_level": 2}]},
    "server": {"type": "vllm", "model_name": "tiny", "ignore_eos": True, "api_key": None},
}  # fmt: skip


def summary(values_: list[float]) -> dict[str, float]:
    """``summarize`` of its writer."""
    points = {f"p{p:g}": float(np.percentile(values_, p)) for p in (1, 90, 95, 99, 99.9)}
    return {"mean": float(np.mean(values_)), "min": min(values_), "max": max(values_),
            "median": float(np.median(values_)), **points}  # fmt: skip


def request(start: float, tokens: int, gap: float, failed: bool = False) -> dict[str, Any]:
    """One request whose first token takes 0.1 s."""
    times = [start + 0.1 + gap * n for n in range(tokens)]
    body = {"model": "tiny", "prompt": f"Say {start:g}", "max_tokens": 20, "temperature": 0.0}
    return {
        "start_time": start, "end_time": times[-1] + 0.01, "request": json.dumps(body),
        "response": "…",
        "info": {
            "request_metrics": {"text": {"input_tokens": 7}},
            "response_metrics": {"output_tokens": tokens, "output_token_times": times,
                                 "server_usage": {"prompt_tokens": 8, "completion_tokens": tokens}},
        },
        "error": {"error_type": "HTTP Error 500", "error_msg": "gone"} if failed else None,
    }  # fmt: skip


STAGES = [
    [request(100.0, 5, 0.02), request(101.0, 5, 0.04)],
    [request(200.0, 9, 0.01), request(200.1, 9, 0.02), request(201.0, 3, 0.05, failed=True)],
]


def stage(requests: list[dict[str, Any]], **load_summary: Any) -> dict[str, Any]:
    """``summarize_requests`` of its writer, for what is read of it."""
    good = [one for one in requests if one["error"] is None]
    length = max(r["end_time"] for r in requests) - min(r["start_time"] for r in requests)
    times = [one["info"]["response_metrics"]["output_token_times"] for one in good]
    latencies = [one["end_time"] - one["start_time"] for one in good]
    counts = [len(moments) for moments in times]
    pairs = list(zip(good, times, strict=True))
    return {
        "benchmark_time_seconds": length,
        "load_summary": {"count": len(requests), **load_summary},
        "successes": {
            "count": len(good),
            "latency": {
                "request_latency": summary(latencies),
                "normalized_time_per_output_token": summary(
                    [one / n for one, n in zip(latencies, counts, strict=True)]
                ),
                "time_per_output_token": summary([(t[-1] - t[0]) / (len(t) - 1) for t in times]),
                "time_to_first_token": summary([t[0] - one["start_time"] for one, t in pairs]),
                "inter_token_latency": summary([0.0, 0.02]),
            },
            "throughput": {"output_tokens_per_sec": sum(counts) / length,
                           "total_tokens_per_sec": (sum(counts) + 8 * len(good)) / length,
                           "requests_per_sec": len(good) / length},
            "prompt_tokens": {"total": 8.0 * len(good), **summary([8.0] * len(good))},
            "output_len": summary([float(n) for n in counts]),
            "output_tokens": {"total": float(sum(counts)), **summary([float(n) for n in counts])},
        },
        "failures": {"count": len(requests) - len(good)},
    }  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A run of two stages as it leaves it, Prometheus' part included."""
    told = [stage(one, requested_rate=9.0, concurrency=i + 1) for i, one in enumerate(STAGES)]
    for index, one in enumerate(told):
        written(tmp_path / f"stage_{index}_lifecycle_metrics.json", one)
    written(tmp_path / "summary_lifecycle_metrics.json", stage(STAGES[0] + STAGES[1]))
    written(tmp_path / "per_request_lifecycle_metrics.json", STAGES[0] + STAGES[1])
    server = {"load_summary": {}, "successes": {"count": 5, "rate": 1.0}, "failures": {}}
    written(tmp_path / "summary_prometheus_metrics.json", server)
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(CONFIG))
    return tmp_path


def test_a_run_is_its_stages_and_nothing_twice(folder: Path) -> None:
    units = list(find_units([folder]))
    assert all(isinstance(unit, Unit) for unit in units)
    names = [Path(unit.path).name for unit in units]
    assert names == ["stage_0_lifecycle_metrics.json", "stage_1_lifecycle_metrics.json"]


def test_its_words_and_units_become_ours(folder: Path) -> None:
    found = cell(folder / "stage_1_lifecycle_metrics.json")
    told = values(found, "reported")
    assert told["ttft", "p99"] == pytest.approx(100.0)
    assert told["itl", "mean"] == pytest.approx(15.0)
    assert told["tpot", "mean"] == pytest.approx((0.19 / 9 + 0.27 / 9) / 2 * 1000)
    assert told["request_latency", "p50"] == pytest.approx(0.23)
    assert told["request_throughput", "mean"] == pytest.approx(2 / 1.21)
    assert told["prompt_tokens", "mean"] == 8.0
    assert told["error_rate", "mean"] == pytest.approx(1 / 3)
    assert not [metric for metric, _ in told if metric == "chunk_gap"]
    assert (found.completed, found.errored) == (2, 1)
    facts = found.facts
    assert (facts.model, facts.engine, facts.dataset) == ("tiny", "vllm", "random 30/20")
    assert (facts.temperature, facts.max_tokens, facts.ignore_eos) == (0.0, 20, True)
    assert load(found) == "2 at once"


def test_each_stage_has_its_own_requests(folder: Path) -> None:
    found = [cell(folder / f"stage_{n}_lifecycle_metrics.json") for n in (0, 1)]
    tables = [one.requests for one in found]
    assert [table and table["start"].to_pylist() for table in tables] == [
        [100.0, 101.0], [200.0, 200.1, 201.0],
    ]  # fmt: skip
    assert [one.facts.prompt_set_hash is not None for one in found] == [True, False]


def test_its_requests_agree_with_what_it_says_of_them(folder: Path) -> None:
    for number in (0, 1):
        found = cell(folder / f"stage_{number}_lifecycle_metrics.json")
        told, mine = values(found, "reported"), values(found, "canonical")
        for line in (("ttft", "mean"), ("output_tokens", "mean"), ("request_throughput", "mean"),
                     ("output_throughput", "mean"), ("error_rate", "mean")):  # fmt: skip
            assert mine[line] == pytest.approx(told[line]), line
        good = [one for one in STAGES[number] if one["error"] is None]
        times = [one["info"]["response_metrics"]["output_token_times"] for one in good]
        gaps = [np.diff(moments) for moments in times]
        assert mine["itl", "mean"] == pytest.approx(np.concatenate(gaps).mean() * 1000)


def test_requests_that_are_not_those_of_the_stages_are_left_out_and_that_is_said(
    folder: Path,
) -> None:
    written(folder / "per_request_lifecycle_metrics.json", STAGES[0])
    found = cell(folder / "stage_1_lifecycle_metrics.json")
    assert found.requests is None
    assert [flag.name for flag in found.flags] == ["requests_not_divided"]


def test_a_summary_alone_is_a_level_of_its_own(folder: Path) -> None:
    for path in folder.glob("stage_*"):
        path.unlink()
    (unit,) = find_units([folder])
    assert isinstance(unit, Unit)
    found = cell(unit.path)
    assert (found.completed, found.errored, load(found)) == (4, 1, None)
    assert found.requests is not None
    assert found.requests.num_rows == 5


def test_the_requests_alone_are_read_too(folder: Path) -> None:
    for path in [*folder.glob("stage_*"), *folder.glob("summary_*")]:
        path.unlink()
    (unit,) = find_units([folder])
    assert isinstance(unit, Unit)
    found = cell(unit.path)
    assert values(found, "reported") == {}
    assert values(found, "canonical")["ttft", "mean"] == pytest.approx(100.0)
    assert found.facts.model == "tiny"


def test_a_rate_is_the_stages_own(folder: Path) -> None:
    config = CONFIG | {"load": {"type": "poisson", "stages": [{"rate": 3, "duration": 4},
                                                              {"rate": 5, "duration": 4}]}}  # fmt: skip
    (folder / "config.yaml").write_text(yaml.safe_dump(config))
    for number, requests in enumerate(STAGES):
        written(folder / f"stage_{number}_lifecycle_metrics.json", stage(requests))
    found = [cell(folder / f"stage_{n}_lifecycle_metrics.json") for n in (0, 1)]
    assert list(map(load, found)) == ["3 requests/s (Poisson)", "5 requests/s (Poisson)"]


def test_without_its_settings_the_load_is_what_the_stage_says(folder: Path) -> None:
    (folder / "config.yaml").unlink()
    assert load(cell(folder / "stage_1_lifecycle_metrics.json")) == "2 at once"


def test_what_prometheus_said_is_named_and_refused(folder: Path) -> None:
    with pytest.raises(InvalidInput, match="server's own metrics.*stage_"):
        cell(folder / "summary_prometheus_metrics.json")


def test_reports_before_0_6_are_read(folder: Path) -> None:
    old = [json.loads(json.dumps(one)) for one in STAGES[0]]
    for one in old:
        told = one["info"].pop("response_metrics")
        one["info"] = {"input_tokens": 7, "output_tokens": told["output_tokens"],
                       "output_token_times": told["output_token_times"]}  # fmt: skip
    said = stage(STAGES[0])
    del said["benchmark_time_seconds"], said["successes"]["prompt_tokens"]
    del said["successes"]["output_tokens"]
    said["successes"]["prompt_len"] = summary([7.0, 7.0])
    for path in folder.iterdir():
        path.unlink()
    written(folder / "stage_0_lifecycle_metrics.json", said)
    written(folder / "per_request_lifecycle_metrics.json", old)
    found = cell(folder / "stage_0_lifecycle_metrics.json")
    assert values(found, "reported")["prompt_tokens", "mean"] == 7.0
    assert values(found, "canonical")["itl", "mean"] == pytest.approx(30.0)


REAL = FIXTURES / "inference-perf"


@pytest.mark.parametrize("run", ["concurrent", "constant"])
@pytest.mark.parametrize("number", [0, 1])
def test_of_a_real_run_its_own_numbers_and_those_of_its_requests_agree(
    run: str, number: int
) -> None:
    path = REAL / run / f"stage_{number}_lifecycle_metrics.json"
    found = cell(path)
    said = json.loads(path.read_text())["successes"]
    told, mine = values(found, "reported"), values(found, "canonical")
    assert found.completed == said["count"]
    assert told["itl", "p95"] == said["latency"]["time_per_output_token"]["p95"] * 1000
    for line in (("ttft", "mean"), ("request_latency", "mean"), ("request_throughput", "mean")):
        assert mine[line] == pytest.approx(told[line], rel=1e-6), line
    counts = json.loads((REAL / run / "stage_0_lifecycle_metrics.json").read_text())
    first = counts["load_summary"]["count"] if number else 0
    rows = json.loads((REAL / run / "per_request_lifecycle_metrics.json").read_text())
    rows = sorted(rows, key=lambda row: row["start_time"])[first : first + found.completed]
    responses = [row["info"]["response_metrics"] for row in rows]
    tokens = [one["server_usage"]["completion_tokens"] for one in responses]
    length = max(r["end_time"] for r in rows) - min(r["start_time"] for r in rows)
    assert mine["output_tokens", "mean"] == np.mean(tokens)
    assert mine["output_throughput", "mean"] == pytest.approx(sum(tokens) / length)
    spans = [one["output_token_times"][-1] - one["output_token_times"][0] for one in responses]
    assert mine["itl", "mean"] == pytest.approx(sum(spans) / (sum(tokens) - len(tokens)) * 1000)


def test_of_a_real_run_load_and_settings_are_known() -> None:
    found = [cell(REAL / run / f"stage_{n}_lifecycle_metrics.json")
             for run in ("concurrent", "constant") for n in (0, 1)]  # fmt: skip
    loads = ["2 at once", "4 at once", "3 requests/s", "5 requests/s"]
    assert list(map(load, found)) == loads
    for one in found:
        facts = one.facts
        assert (facts.model, facts.engine) == ("lab-target", "vllm")
        assert (facts.dataset, facts.ignore_eos) == ("random 30/20", True)
        assert facts.prompt_set_hash is not None
        assert one.requests is not None


def test_a_real_folder_is_its_stages() -> None:
    units = list(find_units([REAL / "concurrent"]))
    assert all(isinstance(unit, Unit) for unit in units)
    assert len(units) == 2


def test_the_llmd_report_that_it_writes_itself_says_the_same() -> None:
    whole = cell(REAL / "concurrent" / "stage_1_lifecycle_metrics.json")
    found = cell(REAL / "concurrent" / "inference-perf.partial.stage_1.yaml")
    told, same = values(found, "reported"), values(whole, "reported")
    assert found.reported_definition == "llm-d: inference-perf"
    for line in (("ttft", "p99"), ("itl", "mean"), ("tpot", "p50"), ("request_latency", "max"),
                 ("output_throughput", "mean"), ("total_throughput", "mean")):  # fmt: skip
        assert told[line] == pytest.approx(same[line]), line
