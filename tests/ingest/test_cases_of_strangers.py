"""Folders and files as strangers keep them, each with what is right of it."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.ingest.test_columns import measured
from warehouse import queries

CASES = Path(__file__).parents[1] / "fixtures" / "cases"
#: Of the tables of the case 17.
COLUMNS = {
    "spec_method": "model", "concurrency": "offered_concurrency", "load_profile": "strategy",
    "repeat": "repeat", "output_throughput": "aggregate_output_tps", "itl": "mean_itl_ms",
    "ttft_median": "median_ttft_ms", "ttft_p99": "p99_ttft_ms", "drafts": "num_drafts",
    "accepted_tokens": "num_accepted_tokens", "mean_acceptance_length": "acceptance_length",
    "completed": "successful_requests", "errored": "errored_requests",
    "duration": "measured_duration_s", "dataset": {"value": "CodeSet"}, "gpu": {"value": "H200"},
}  # fmt: skip


def case(number: str) -> Path:
    (found,) = CASES.glob(f"{number}-*")
    return found


def guessed(run: Any, number: str, *more: str) -> dict[str, Any]:
    files = run(case(number) / "runs", "--guess", "--json", *more).json["files"]
    return {
        one["path"].partition("/runs/")[2]: {k: f["value"] for k, f in one["facts"].items()}
        for one in files
    }


def test_01_a_gpu_is_named_with_its_form_factor_and_its_count(run: Any) -> None:
    found = guessed(run, "01")
    assert {path.split("/")[0]: (f["gpu"], f["gpu_count"]) for path, f in found.items()} == {
        "cloud_h200sxm": ("H200", None), "cloud_a100sxm": ("A100", None),
        "cloud_h100sxm": ("H100", None), "cloud_h100nvl": ("H100", None),
        "cloud_2xH100": ("H100", 2), "cloud_8xh200": ("H200", 8),
        "cloud_rtx5090": ("RTX 5090", None), "cloud_gh200": ("GH200", None),
    }  # fmt: skip
    assert {facts["dataset"] for facts in found.values()} == {None}


def test_02_plain_runs_are_no_speculative_arm(run: Any) -> None:
    said = ("--set", "gpu=H100", "--set", "gpu_count=1")
    found = guessed(run, "02", *said)
    assert {f["spec_method"] for path, f in found.items() if "ctx" in path} == {None}
    assert sorted(f["dataset"] for path, f in found.items() if "ctx" in path) == [
        "random 1024", "random 4096", "random 8192",
    ]  # fmt: skip
    run(case("02") / "runs", "--guess", "--yes", *said, "--set", "dataset=random")
    assert {(one["spec_method"], one["draft_model"]) for one in run.cells()} == {
        ("none", None), (None, None),
    }  # fmt: skip


def test_06_latencies_in_seconds_are_read(run: Any) -> None:
    assert run(case("06"), "--set", "spec_method=none").status == 0
    (cell,) = run.cells()
    told = measured(run, cell)
    assert told["ttft.p50.reported"] == pytest.approx(750)
    assert told["itl.p50.reported"] == pytest.approx(72.9)
    assert told["request_latency.p50.reported"] == pytest.approx(10.07)
    assert "not_read" not in run.flags(cell["cell_id"])


def test_16_a_summary_of_its_own_runs_is_passed_over(run: Any) -> None:
    done = run(case("16") / "runs", "--json")
    assert (done.status, done.json["accepted"], len(done.json["passed_over"])) == (0, 4, 1)


def test_17_a_console_text_and_tables_are_results(run: Any, tmp_path: Path) -> None:
    assert run(case("17")).status == 0
    (cell,) = run.cells()
    told = measured(run, cell)
    assert (cell["concurrency"], told["output_throughput.mean.reported"]) == (8, 1600.0)
    assert told["ttft.mean.reported"] == 60.0
    assert told["itl.mean.reported"] == 4.78
    assert told["acceptance_rate.mean.canonical"] == pytest.approx(0.635)
    assert told["mean_acceptance_length.mean.canonical"] == 2.27

    (tmp_path / "map.yaml").write_text(json.dumps(COLUMNS), "utf-8")
    tables = [case("17") / f"{arm}_CodeSet.csv" for arm in ("baseline", "mtp")]
    assert run(*tables, "--columns", tmp_path / "map.yaml").status == 0
    found = {(one["spec_method"], one["concurrency"]): one for one in run.cells()
             if one["dataset"] == "CodeSet"}  # fmt: skip
    assert len(found) == 6
    arm, baseline = (measured(run, found[method, 16]) for method in ("mtp", "none"))
    assert arm["itl.mean.reported"] == 6.9
    assert arm["mean_acceptance_length.mean.canonical"] == 2.26
    name = "output_throughput.mean.reported"
    assert arm[name] / baseline[name] == pytest.approx(1.80, abs=0.001)
    sources = {one["source"] for one in run.of_all(queries.acceptance)}
    assert sources == {"vllm_bench"}


def test_18_parallelism_and_length_are_said_by_names(run: Any) -> None:
    found = guessed(run, "18")
    assert len(found) == 8
    for path, facts in found.items():
        copies = {"data-parallel-size": 2} if "DP2" in path else None
        assert (facts["tensor_parallel_size"], facts["gpu_count"]) == (4 if copies else 8, 8)
        assert facts["server_args"] == copies
        assert facts["dataset"] == ("random 1024" if "CTX1024" in path else "random 4096")
