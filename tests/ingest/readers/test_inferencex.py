"""InferenceX: rows written after its ``utils/process_result.py``, and as its public interface has them."""

import json
import math
from pathlib import Path
from typing import Any

import pytest

from ingest.formats import vllm_bench
from tests.ingest.readers.reading import cell, cells, load, values, written
from warehouse.errors import InvalidInput

ROW: dict[str, Any] = {
    "hw": "h200", "conc": 16, "image": "vllm/vllm-openai:v0.15", "model": "openai/gpt-oss-120b",
    "infmax_model_prefix": "gptoss120b", "framework": "vllm", "precision": "fp4",
    "spec_decoding": "none", "disagg": False, "recipe_fingerprint": "", "isl": 1024, "osl": 1024,
    "is_multinode": False, "tp": 2, "pp": 1, "dcp_size": 1, "pcp_size": 1, "ep": 1,
    "dp_attention": "false", "tput_per_gpu": 1400.0, "output_tput_per_gpu": 700.0,
    "input_tput_per_gpu": 700.0,
    "mean_ttft": 0.25, "median_ttft": 0.2, "std_ttft": 0.1, "p99_ttft": 0.9,
    "mean_tpot": 0.010, "mean_intvty": 100.0, "median_tpot": 0.009, "median_intvty": 111.1,
    "mean_itl": 0.020, "p99_itl": 0.05, "mean_e2el": 10.5, "p99_e2el": 12.0,
}  # fmt: skip
PUBLIC = {
    "hardware": "b300", "framework": "dynamo-trt", "model": "dsr1", "precision": "fp8",
    "spec_method": "mtp", "disagg": False, "is_multinode": False, "prefill_tp": 2, "prefill_ep": 1,
    "decode_tp": 2, "decode_ep": 1, "num_prefill_gpu": 2, "num_decode_gpu": 2, "isl": 1024,
    "osl": 1024, "conc": 64, "date": "2026-04-17",
    "metrics": {"tput_per_gpu": 2781.5, "output_tput_per_gpu": 1390.7, "mean_ttft": 0.094,
                "mean_tpot": 0.022, "mean_e2el": 20.6},
}  # fmt: skip


def test_its_seconds_and_its_throughput_per_gpu_become_ours(tmp_path: Path) -> None:
    found = cell(written(tmp_path / "agg_x.json", ROW))
    told = values(found, "reported")
    assert told["ttft", "mean"] == 250.0
    assert told["ttft", "p99"] == 900.0
    assert told["itl", "mean"] == 10.0
    assert told["chunk_gap", "mean"] == 20.0
    assert told["request_latency", "p99"] == 12.0
    assert told["total_throughput", "mean"] == 2800.0
    assert told["output_throughput", "mean"] == 1400.0
    facts = found.facts
    assert (facts.gpu, facts.gpu_count, facts.tensor_parallel_size) == ("h200", 2, 2)
    assert (facts.engine, facts.precision, facts.spec_method) == ("vllm", "fp4", "none")
    assert (facts.dataset, load(found)) == ("random 1024/1024", "16 at once")


def test_what_it_does_not_count_is_unknown_and_said(tmp_path: Path) -> None:
    found = cell(written(tmp_path / "agg_x.json", ROW))
    assert found.requests_made is None
    assert [flag.name for flag in found.flags] == ["requests_not_counted"]


def test_collected_rows_and_those_of_its_public_interface_are_a_cell_each(tmp_path: Path) -> None:
    found = cells(written(tmp_path / "agg_bmk.json", [ROW, ROW | {"conc": 32}, PUBLIC]))
    assert [load(one) for one in found] == ["16 at once", "32 at once", "64 at once"]
    last = found[2]
    assert values(last, "reported")["total_throughput", "mean"] == pytest.approx(5563.0)
    assert values(last, "reported")["ttft", "mean"] == pytest.approx(94.0)
    assert (last.facts.engine, last.facts.spec_method) == ("tensorrt-llm", "mtp")
    assert last.facts.gpu_count == 2


def test_with_prefill_apart_output_is_counted_per_gpu_that_decodes(tmp_path: Path) -> None:
    row = {key: value for key, value in ROW.items() if key not in ("tp", "pp", "pcp_size")}
    row |= {"is_multinode": True, "disagg": True, "num_prefill_gpu": 8, "num_decode_gpu": 24,
            "decode_tp": 8}  # fmt: skip
    found = cell(written(tmp_path / "agg_x.json", row))
    assert found.facts.gpu_count == 32
    assert values(found, "reported")["total_throughput", "mean"] == 44_800.0
    assert values(found, "reported")["output_throughput", "mean"] == 16_800.0


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({}, []),
        ({"mean_e2el": 10.5 * 0.7}, ["latencies_disagree"]),
        ({"mean_e2el": 10.5 * 1.5}, ["latencies_disagree", "rates_disagree"]),
        ({"mean_tpot": 0.010 * 1.5}, ["latencies_disagree"]),
        ({"mean_ttft": 5.0}, ["latencies_disagree"]),
        ({"output_tput_per_gpu": 700.0 * 0.5}, ["rates_disagree", "rates_disagree"]),
        ({"tput_per_gpu": 1400.0 * 1.5}, ["rates_disagree"]),
        # Of other lengths all of it may be true.
        ({"isl": None, "osl": None, "mean_e2el": 1.0}, []),
        # Lengths are drawn between 80 and 100 % of what is asked for, or are all the same.
        ({"mean_e2el": 0.25 + 0.010 * 1024 * 0.89, "output_tput_per_gpu": 712.0, "tput_per_gpu": 1420.0}, []),
        ({"mean_e2el": 0.25 + 0.010 * 1023, "output_tput_per_gpu": 760.0, "tput_per_gpu": 1520.0}, []),
    ],
)  # fmt: skip
def test_what_does_not_fit_the_lengths_asked_for_is_told(
    tmp_path: Path, changed: dict[str, Any], told: list[str]
) -> None:
    found = cell(written(tmp_path / "agg_x.json", ROW | changed))
    assert [one.name for one in found.flags if one.name.endswith("disagree")] == told


def test_it_is_never_taken_for_a_result_of_vllm(tmp_path: Path, bench: Any) -> None:
    """Its words may stand among those of the result that it was made from."""
    path = written(tmp_path / "mixed.json", bench() | ROW)
    assert not vllm_bench.is_result(memoryview(path.read_bytes()))
    assert values(cell(path), "reported")["ttft", "mean"] == 250.0


def test_agent_traces_are_named_and_refused(tmp_path: Path) -> None:
    row = {"hw": "b200", "conc": 8, "users": 8, "tput_per_gpu": 1.0, "request_metrics": {}}
    with pytest.raises(InvalidInput, match="agent traces"):
        cells(written(tmp_path / "agg_x.json", row))


def test_a_row_without_a_successful_request_is_a_failed_cell(tmp_path: Path) -> None:
    rows = [ROW | {"completed": 160, "num_prompts": 160}, ROW | {"completed": 0, "tput_per_gpu": 0}]
    good, failed = cells(written(tmp_path / "agg_bmk.json", rows))
    assert (good.status, good.completed, good.requests_made, good.flags) == ("good", 160, 160, ())
    assert (failed.status, failed.completed, failed.measurements) == ("failed", 0, ())
    assert [flag.name for flag in failed.flags] == ["failed"]


@pytest.mark.parametrize(
    ("row", "said"),
    [(ROW | {"conc": 64.5}, "conc is 64.5"), (None, "no object"), (ROW | {"isl": -1}, "isl=-1")],
)  # fmt: skip
def test_a_row_that_is_refused_is_named(tmp_path: Path, row: Any, said: str) -> None:
    with pytest.raises(InvalidInput, match=f"^Row 2 of this file: .*{said}"):
        cells(written(tmp_path / "agg_bmk.json", [ROW, row]))


def test_a_row_with_nan_says_so_alone(tmp_path: Path) -> None:
    rows = [ROW, ROW | {"mean_itl": math.nan, "isl": math.nan}]
    good, odd = cells(written(tmp_path / "agg_bmk.json", rows))
    assert "not_a_number" not in [flag.name for flag in good.flags]
    assert "not_a_number" in [flag.name for flag in odd.flags]
    assert (odd.facts.dataset, ("chunk_gap", "mean") in values(odd, "reported")) == (None, False)


def test_one_that_is_no_json_is_refused_with_the_place(tmp_path: Path) -> None:
    (tmp_path / "agg_x.json").write_text(json.dumps(ROW)[:-1] + ", x}")
    with pytest.raises(InvalidInput, match="no JSON from .* run it again"):
        cells(tmp_path / "agg_x.json")


def download(folder: Path, alone: bool = True, collected: bool = True) -> Path:
    """What ``gh run download`` makes of a run: each row alone, and all of them collected."""
    rows = [ROW, ROW | {"conc": 32, "tput_per_gpu": 1500.0}]
    if alone:
        for row in rows:
            written(folder / f"bmk_{row['conc']}" / f"agg_{row['conc']}.json", row)
    if collected:
        written(folder / "results_bmk" / "agg_bmk.json", rows)
    return folder


def test_a_row_alone_and_collected_is_one_result(run: Any, tmp_path: Path) -> None:
    done = run(download(tmp_path / "run"), "--json")
    assert (done.status, done.json["cells"]) == (0, 2)
    assert (done.json["accepted"], done.json["known"]) in {(2, 1), (1, 2)}
    assert sorted(one["concurrency"] for one in run.cells()) == [16, 32]


@pytest.mark.parametrize("first", ["alone", "collected"])
def test_a_row_is_known_wherever_it_was_read_first(run: Any, tmp_path: Path, first: str) -> None:
    ways = [{"collected": False}, {"alone": False}]
    for number, way in enumerate(ways if first == "alone" else ways[::-1]):
        assert run(download(tmp_path / f"{number}", **way)).status == 0
    assert sorted(one["concurrency"] for one in run.cells()) == [16, 32]


def test_of_a_collection_that_grew_only_the_new_rows_are_read(run: Any, tmp_path: Path) -> None:
    folder = download(tmp_path / "run", alone=False)
    assert run(folder).status == 0
    rows = json.loads((folder / "results_bmk" / "agg_bmk.json").read_text())
    written(folder / "results_bmk" / "agg_bmk.json", [ROW | {"conc": 64}, *rows])
    done = run(folder, "--json")
    assert (done.json["accepted"], done.json["cells"]) == (1, 1)
    assert sorted(one["concurrency"] for one in run.cells()) == [16, 32, 64]


def test_the_rows_of_a_collection_are_read_again_together(run: Any, tmp_path: Path) -> None:
    assert run(download(tmp_path / "run", alone=False), "--set", "dataset=random").status == 0
    done = run("--rebuild", "--json")
    assert (done.status, done.json["accepted"], done.json["cells"]) == (0, 1, 2)
    assert {one["dataset"] for one in run.cells()} == {"random"}


def test_a_row_that_cannot_be_refuses_the_collection_by_its_place(run: Any, tmp_path: Path) -> None:
    path = written(tmp_path / "agg_bmk.json", [ROW, ROW | {"conc": 32, "mean_ttft": -1.0}])
    assert "Benchmark 1 of this report" in run(path, "--json").reason
    assert not list(run.root.rglob("tmp-*"))


@pytest.mark.parametrize("name", ["isl", "osl", "conc"])
def test_a_length_or_load_below_zero_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(InvalidInput, match=f"says {name}=-3, which is below zero"):
        cell(written(tmp_path / "r.json", ROW | {name: -3}))
