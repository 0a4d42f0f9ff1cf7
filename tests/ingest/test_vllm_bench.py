"""``vllm bench serve`` results in our words and units."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.ingest.readers.reading import cell, written
from tests.ingest.readers.reading import values as read_values
from warehouse import queries
from warehouse.loads import load_of


def measured(run: Any, origin: str = "reported") -> dict[tuple[str, str], float]:
    (cell,) = run.cells()
    rows = run.of_cell(queries.cell_measurements, cell["cell_id"])
    return {(r["metric"], r["statistic"]): r["value"] for r in rows if r["origin"] == origin}


def test_its_words_and_units_become_ours(run: Any, write: Any, bench: Any) -> None:
    assert run(write("bench.json", bench(p90_e2el_ms=600.0))).status == 0
    values = measured(run)
    assert values["itl", "mean"] == 50.0
    assert values["chunk_gap", "mean"] == 80.0
    assert values["ttft", "p50"] == 100.0
    assert values["request_latency", "p90"] == pytest.approx(0.6)
    assert values["output_throughput", "mean"] == 18.0
    assert ("tpot", "mean") not in values
    (cell,) = run.cells()
    assert (cell["model"], cell["concurrency"], cell["load_profile"]) == ("tiny", 2, "concurrent")
    assert cell["request_format"] == "text_completions"


#: A descendant's result: seconds under names that say no unit.
IN_SECONDS: dict[str, Any] = {
    "date": "20260213-075622", "model_id": "acme/chat-300b", "tokenizer_id": "acme/chat-300b",
    "num_prompts": 480, "request_rate": "inf", "burstiness": 1.0, "max_concurrency": 48,
    "duration": 103.5, "completed": 480, "good_completed": None, "total_input_tokens": 491520,
    "total_output_tokens": 61440, "request_throughput": 4.638, "request_goodput": None,
    "input_throughput": 4749.0, "output_throughput": 593.6,
}  # fmt: skip
TAKEN = {"median_ttft": 0.75, "p99_ttft": 5.57, "median_e2el": 10.07, "p99_e2el": 14.41,
         "median_tpot": 0.0729, "p99_tpot": 0.0973}  # fmt: skip


@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("changes", [{}, {"max_concurrency": None, "request_rate": 5.0}])
@pytest.mark.parametrize(("factor", "suffix"), [(1, ""), (1000, ""), (1, "_s"), (1000, "_ms")])
def test_latencies_of_descendants_are_in_the_unit_in_which_requests_can_have_taken_so_long(
    tmp_path: Path, factor: float, suffix: str, whole: bool, changes: Any
) -> None:
    said = {f"{key}{suffix}": value * factor for key, value in TAKEN.items()
            if whole or not key.endswith("e2el")}  # fmt: skip
    found = cell(written(tmp_path / "bench.json", IN_SECONDS | said | changes))
    values = read_values(found, "reported")
    assert values["ttft", "p50"] == pytest.approx(750.0)
    assert values["ttft", "p99"] == pytest.approx(5570.0)
    assert values["itl", "p50"] == pytest.approx(72.9)
    assert values.get(("request_latency", "p50")) == (pytest.approx(10.07) if whole else None)
    assert "not_read" not in {flag.name for flag in found.flags}


def test_a_number_that_is_not_read_is_named_once(tmp_path: Path, bench: Any) -> None:
    more = {
        "median_ttfb": 3.0,
        "p80_ttft_ms": 5.0,
        "energy": 7,
        "e2el": {"p99": 3.0},
        "note": "x",
        "p99_ttft_ms": 110.0,
    }
    found = cell(written(tmp_path / "bench.json", bench(**more)))
    said = [flag.sentence for flag in found.flags if flag.name == "not_read"]
    assert said == [
        "Numbers of this file that were not read: median_ttfb, p80_ttft_ms, energy, e2el."
    ]


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


@pytest.mark.parametrize(("factor", "told"), [(1.0, False), (0.7, True), (1.5, True)])
def test_a_gap_between_chunks_is_held_against_the_gaps_of_the_requests(
    run: Any, write: Any, bench: Any, factor: float, told: bool
) -> None:
    """A request that failed has gaps too, which the generator leaves out."""
    errors = ["", "", "", "HTTP 500"]
    gaps = [[0.05] * 8, [0.05] * 8, [0.1] * 4, [9.0]]
    true_ms = 1000 * (16 * 0.05 + 4 * 0.1) / 20
    run(
        write(
            "bench.json",
            bench(True, errors=errors, completed=3, itls=gaps, mean_itl_ms=true_ms * factor),
        )
    )
    (cell,) = run.cells()
    told_of = [row["sentence"] for row in run.of_cell(queries.flags, [cell["cell_id"]])]
    assert any("the result says" in one for one in told_of) is told


@pytest.mark.parametrize("detailed", [False, True])
def test_a_run_without_success_is_a_failed_cell_among_those_appended(
    run: Any, write: Any, bench: Any, detailed: bool
) -> None:
    nothing = {"completed": 0, "failed": 4, "total_output_tokens": 0}
    if detailed:
        nothing |= {"errors": ["HTTP 500"] * 4, "output_lens": [0] * 4, "ttfts": [0.0] * 4,
                    "itls": [[]] * 4, "latencies": [0.0] * 4}  # fmt: skip
    runs = [bench(detailed, max_concurrency=n, **(nothing if n == 4 else {})) for n in (2, 4, 8)]
    done = run(write("appended.json", "\n".join(map(json.dumps, runs))), "--json")
    assert (done.status, done.json["cells"]) == (0, 3)
    found = {one["concurrency"]: one for one in run.cells()}
    assert [found[n]["status"] for n in (2, 4, 8)] == ["good", "failed", "good"]
    assert (found[4]["completed"], found[4]["errored"]) == (0, 4)
    flags = run.flags(found[4]["cell_id"])
    assert {"failed", "no_completed_requests"} <= flags
    assert "failed" not in run.flags(found[2]["cell_id"])


def test_where_none_of_the_runs_appended_succeeded_the_file_is_refused(
    run: Any, write: Any, bench: Any
) -> None:
    runs = [bench(max_concurrency=n, completed=0, failed=4) for n in (2, 4)]
    done = run(write("appended.json", "\n".join(map(json.dumps, runs))), "--json")
    assert "no successful request" in done.reason


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


LOADS: list[tuple[dict[str, Any], str | None]] = [
    ({"request_rate": "inf", "max_concurrency": 8}, "8 at once"),
    ({"request_rate": "inf", "max_concurrency": None}, "as fast as it takes them"),
    ({"request_rate": 4.0, "max_concurrency": None}, "4 requests/s (Poisson)"),
    ({"request_rate": 4.0, "max_concurrency": 8}, "4 requests/s (Poisson, at most 8 at once)"),
    ({"request_rate": 4.0, "burstiness": 0.5, "max_concurrency": None},
     "4 requests/s (gamma (burstiness 0.5))"),
    ({"request_rate": 4.0, "burstiness": float("inf"), "max_concurrency": None}, "4 requests/s"),
    ({"request_rate": 4.0, "burstiness": float("nan"), "max_concurrency": None},
     "4 requests/s (arrivals unknown)"),
    ({"request_rate": float("inf"), "max_concurrency": 8}, "8 at once"),
    ({"request_rate": float("nan"), "max_concurrency": 8}, None),
    ({"request_rate": 0.0, "max_concurrency": 8}, None),
    ({"request_rate": -1.0, "max_concurrency": None}, None),
    ({"request_rate": "inf", "max_concurrency": None, "ramp_up_strategy": "linear",
      "ramp_up_start_rps": 1, "ramp_up_end_rps": 10},
     "trace linear ramp-up from 1 to 10 requests/s"),
]  # fmt: skip


@pytest.mark.parametrize(("said", "text"), LOADS, ids=[str(text) for _, text in LOADS])
def test_the_load_is_what_was_asked_for(
    run: Any, write: Any, bench: Any, said: dict[str, Any], text: str | None
) -> None:
    assert run(write("bench.json", bench(**said))).status == 0
    (cell,) = run.cells()
    load = load_of(cell["load_profile"], cell["concurrency"], cell["rate"], cell["trace"])
    assert (None if load is None else load.text) == text


WITHOUT_COUNTERS = dict.fromkeys(
    ("spec_decode_num_drafts", "spec_decode_per_position_acceptance_rates")
)


@pytest.mark.parametrize(
    ("said", "engine"),
    [
        ({"backend": "openai"}, "vllm"),
        ({"backend": "openai", **WITHOUT_COUNTERS}, None),
        ({"backend": "openai-chat", **WITHOUT_COUNTERS}, None),
        ({"backend": "vllm", **WITHOUT_COUNTERS}, "vllm"),
        ({"backend": "sglang", **WITHOUT_COUNTERS}, "sglang"),
    ],
)
def test_the_engine_is_known_by_its_counters_or_where_the_backend_names_a_server(
    run: Any, write: Any, bench: Any, said: dict[str, Any], engine: str | None
) -> None:
    assert run(write("bench.json", bench(**said))).status == 0
    assert run.cells()[0]["engine"] == engine


def test_the_number_of_draft_tokens_is_that_of_the_positions_counted(
    run: Any, write: Any, bench: Any
) -> None:
    path = write("bench.json", bench())
    assert run(path, "--set", "spec_method=ngram").status == 0
    assert run.cells()[0]["arm_label"] == "ngram K=2"
    assert run(path, "--replace", "--set", "num_speculative_tokens=4").status == 0
    assert run.cells()[0]["num_speculative_tokens"] == 4


def test_the_start_is_the_end_that_is_stated_less_the_duration(
    run: Any, write: Any, bench: Any
) -> None:
    assert run(write("bench.json", bench(date="20261121-091924", duration=24.0))).status == 0
    (cell,) = run.cells()
    assert cell["started_at"] == datetime(2026, 11, 21, 9, 19, tzinfo=UTC)
    assert "local_time" in run.flags(cell["cell_id"])


@pytest.mark.parametrize("date", [None, "yesterday", "20269999-999999"])
def test_a_start_that_is_not_stated_is_unknown(
    run: Any, write: Any, bench: Any, date: str | None
) -> None:
    assert run(write("bench.json", bench(date=date))).status == 0
    (cell,) = run.cells()
    assert cell["started_at"] is None
    assert "local_time" not in run.flags(cell["cell_id"])


def test_the_record_of_a_drop_tells_the_start_in_utc(run: Any, write: Any, bench: Any) -> None:
    record = {"schema_version": 1, "report": "bench.json", "started_at": "2026-11-21T07:00:00Z",
              "launch": "r0-ngram", "order": 3}  # fmt: skip
    folder = write("drop/record.json", record).parent
    write("drop/bench.json", bench())
    assert run(folder).status == 0
    (cell,) = run.cells()
    assert cell["started_at"] == datetime(2026, 11, 21, 7, tzinfo=UTC)
    assert (cell["launch"], cell["order"]) == ("r0-ngram", 3)
    assert "local_time" not in run.flags(cell["cell_id"])


def test_a_value_that_is_no_number_is_unknown_and_marked(run: Any, write: Any, bench: Any) -> None:
    path = write("bench.json", bench(mean_itl_ms=float("nan"), p99_itl_ms=float("inf")))
    assert run(path).status == 0
    (cell,) = run.cells()
    assert "not_a_number" in run.flags(cell["cell_id"])
    found = measured(run)
    assert found["ttft", "mean"] == 100.0
    assert not {key for key in found if key[0] == "chunk_gap"}


def test_a_run_that_waited_after_its_last_request_is_measured_by_its_requests(
    run: Any, write: Any, bench: Any
) -> None:
    assert run(write("bench.json", bench(True, duration=190.0))).status == 0
    (cell,) = run.cells()
    assert "window_outlives_activity" in run.flags(cell["cell_id"])
    assert measured(run, "canonical")["output_throughput", "mean"] == pytest.approx(36.0)


def test_the_rate_attained_is_taken_between_the_completions(
    run: Any, write: Any, bench: Any
) -> None:
    # Ends at 10.5, 10.5, 11.0 and 11.0 s: 3 more completions in half a second, of 8 offered.
    said = {"request_rate": 8.0, "max_concurrency": None}
    assert run(write("bench.json", bench(True, **said))).status == 0
    assert measured(run, "canonical")["request_attainment", "mean"] == pytest.approx(6 / 8)
    assert measured(run)["request_attainment", "mean"] == pytest.approx(2 / 8)


def test_a_default_file_attains_the_rate_that_it_reports(run: Any, write: Any, bench: Any) -> None:
    said = {"request_rate": 4.0, "max_concurrency": None}
    assert run(write("bench.json", bench(**said))).status == 0
    assert measured(run)["request_attainment", "mean"] == pytest.approx(2 / 4)
    assert ("request_attainment", "mean") not in measured(run, "canonical")


def test_only_an_offered_rate_can_be_attained(run: Any, write: Any, bench: Any) -> None:
    assert run(write("bench.json", bench(True))).status == 0
    assert ("request_attainment", "mean") not in measured(run)


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
        "accepted": 2, "known": 0, "rejected": [], "passed_over": [str(folder / "summary.csv")],
        "cells": 2, "requests": 0, "generation": 1,
    }  # fmt: skip
    cells = run.cells()
    assert {c["repeat"] for c in cells} == {0, 1}
    assert {c["arm_label"] for c in cells} == {"ngram K=2"}
    assert json.loads(cells[0]["server_args"]) == {"max_num_seqs": 64}
    assert {c["source_format"] for c in cells} == {"vllm-sweep"}


def test_a_sweep_over_members_of_the_speculative_config_is_one_over_arms(
    run: Any, write: Any, bench: Any
) -> None:
    for k in (1, 3):
        varied = {"speculative_config.method": "eagle3", "max-num-seqs": 64,
                  "speculative_config.num_speculative_tokens": k}  # fmt: skip
        one = write(f"sweep/SERVE-k{k}/run=0.json", bench(duration=k) | {"run_number": 0} | varied)
    assert run(one.parents[1]).status == 0
    cells = run.cells()
    assert {c["arm_label"] for c in cells} == {"eagle3 K=1", "eagle3 K=3"}
    assert [json.loads(c["server_args"]) for c in cells] == [{"max_num_seqs": 64}] * 2


@pytest.mark.parametrize("nothing", [None, "", "null", "None", {}])
def test_an_empty_speculative_config_of_a_sweep_is_its_baseline(
    run: Any, write: Any, bench: Any, nothing: object
) -> None:
    varied = {"run_number": 0, "speculative_config": nothing}
    assert run(write("sweep/SERVE-a/run=0.json", bench() | varied)).status == 0
    assert {c["arm_label"] for c in run.cells()} == {"baseline"}


def test_a_failed_run_of_a_sweep_is_rejected_with_its_reason(run: Any, write: Any) -> None:
    failure = {"run_number": 0, "error_type": "RuntimeError", "error": "engine died"}
    done = run(write("sweep/SERVE-a/run=0.failure.json", failure), "--json")
    assert "RuntimeError: engine died" in done.reason


@pytest.mark.parametrize(("failed", "told"), [(0, True), (1, False), (None, False)])
def test_counts_that_contradict_each_other_are_told_without_requests_too(
    run: Any, write: Any, bench: Any, failed: int | None, told: bool
) -> None:
    """A release that counts no failed requests leaves them to be told from the others."""
    made = {"num_prompts": bench()["completed"] + 1, "failed": failed}
    sample = {key: value for key, value in bench(**made).items() if not isinstance(value, list)}
    assert run(write("bench.json", sample)).status == 0
    (cell,) = run.cells()
    assert ("counts_differ" in run.flags(cell["cell_id"])) == told
