"""``vllm bench serve`` results in our words and units."""

import json
from typing import Any

import pytest

from warehouse import queries


def measured(run: Any, origin: str = "reported") -> dict[tuple[str, str], float]:
    (cell,) = run.cells()
    rows = run.of_cell(queries.cell_measurements, cell["cell_id"])
    return {(r["metric"], r["statistic"]): r["value"] for r in rows if r["origin"] == origin}


def test_its_words_and_units_become_ours(run: Any, write: Any, bench: Any) -> None:
    assert run(write("bench.json", bench(p90_e2el_ms=600.0))).status == 0
    values = measured(run)
    assert values["itl", "mean"] == 50.0
    assert values["chunk_gap", "mean"] == 75.0
    assert values["ttft", "p50"] == 100.0
    assert values["request_latency", "p90"] == pytest.approx(0.6)
    assert values["output_throughput", "mean"] == 18.0
    assert ("tpot", "mean") not in values
    (cell,) = run.cells()
    assert (cell["model"], cell["concurrency"], cell["load_profile"]) == ("tiny", 2, "concurrent")
    assert cell["request_format"] == "text_completions"


def test_its_percent_becomes_a_ratio(run: Any, write: Any, bench: Any) -> None:
    assert run(write("bench.json", bench())).status == 0
    (found,) = run.of_all(queries.acceptance)
    assert (found["source"], found["drafts"]) == ("vllm_bench", 10)
    assert found["rate"] == pytest.approx(0.65)
    assert measured(run, "canonical")["acceptance_rate", "mean"] == pytest.approx(0.65)


def test_without_detail_nothing_is_recomputed(run: Any, write: Any, bench: Any) -> None:
    done = run(write("bench.json", bench()), "--json")
    assert done.json["requests"] == 0
    (cell,) = run.cells()
    assert cell["requests_complete"] is False
    assert ("output_throughput", "mean") not in measured(run, "canonical")


def test_with_detail_every_request_is_a_row(run: Any, write: Any, bench: Any) -> None:
    done = run(
        write("bench.json", bench(True, errors=["", "", "", "HTTP 500"], completed=3)), "--json"
    )
    assert done.json["requests"] == 4
    (cell,) = run.cells()
    rows = run.of_cell(queries.requests, cell["cell_id"])
    assert [r["status"] for r in rows] == ["completed"] * 3 + ["errored"]
    assert rows[0]["ttft"] == pytest.approx(100.0)
    assert rows[0]["itl"] == pytest.approx(400 / 8)
    assert rows[0]["output"] is None
    # 27 tokens of 3 completed requests over the second that the four requests span.
    assert measured(run, "canonical")["output_throughput", "mean"] == pytest.approx(27.0)


def test_outputs_are_kept_only_if_asked(run: Any, write: Any, bench: Any) -> None:
    path = write("bench.json", bench(True))
    assert run(path).status == 0
    assert b"kept only if asked" not in run.stored_bytes()
    assert run(path, "--keep-text", "--replace").status == 0
    (cell,) = run.cells()
    rows = run.of_cell(queries.requests, cell["cell_id"])
    assert rows[1]["output"] == "kept only if asked 1"


def test_a_finite_rate_is_a_poisson_load(run: Any, write: Any, bench: Any) -> None:
    assert run(write("bench.json", bench(request_rate=4.0, max_concurrency=None))).status == 0
    (cell,) = run.cells()
    assert (cell["load_profile"], cell["rate"], cell["concurrency"]) == ("poisson", 4.0, None)


def test_a_sweep_folder_is_one_cell_a_run_with_its_parameters(
    run: Any, write: Any, bench: Any
) -> None:
    config = {"method": "ngram", "num_speculative_tokens": 2}
    varied = {"speculative_config": config, "max_num_seqs": 64, "_benchmark_name": "ngram2"}
    runs = [bench(duration=2.0 + n) | {"run_number": n} | varied for n in range(2)]
    for n, one in enumerate(runs):
        write(f"sweep/SERVE-ngram2-BENCH-c2/run={n}.json", one)
    write("sweep/SERVE-ngram2-BENCH-c2/summary.json", runs)
    write("sweep/SERVE-ngram2-BENCH-c2/warmup.json", bench(duration=9.0))
    folder = write("sweep/summary.csv", "a,b\n").parent
    assert run(folder, "--json").json == {
        "accepted": 2, "known": 0, "rejected": [], "cells": 2, "requests": 0, "generation": 1,
    }  # fmt: skip
    cells = run.cells()
    assert {c["repeat"] for c in cells} == {0, 1}
    assert {c["arm_label"] for c in cells} == {"ngram K=2"}
    assert json.loads(cells[0]["server_args"]) == {"max_num_seqs": 64}
    assert {c["source_format"] for c in cells} == {"vllm-sweep"}


def test_a_failed_run_of_a_sweep_is_rejected_with_its_reason(run: Any, write: Any) -> None:
    failure = {"run_number": 0, "error_type": "RuntimeError", "error": "engine died"}
    done = run(write("sweep/SERVE-a/run=0.failure.json", failure), "--json")
    assert "RuntimeError: engine died" in done.reason
