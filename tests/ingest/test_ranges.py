"""Every stored number is looked at: what cannot be is rejected, what is doubtful is flagged by name."""

import json
from typing import Any

import pytest

from tests.ingest.readers import test_genai_perf, test_llmd, test_vllm_files
from tests.ingest.readers.test_genai_perf import distribution
from tests.ingest.readers.test_sglang import line
from warehouse.catalogue import METRICS


def _altered(report: Any, **changes: dict[str, Any]) -> dict[str, Any]:
    """A report whose summaries of some metrics say something else."""
    data: dict[str, Any] = report()
    benchmark = data["benchmarks"][0]
    for request in benchmark["requests"]["successful"]:
        request |= {"prompt_tokens": 12, "output_tokens": 9}
    for name, values in changes.items():
        for summary in benchmark["metrics"][name].values():
            if summary is not None:
                percentiles = summary["percentiles"] | values.get("percentiles", {})
                summary |= values | {"percentiles": percentiles}
    return data


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"prompt_token_count": {"mean": -33.0}}, "Prompt length of -33"),
        ({"time_to_first_token_ms": {"percentiles": {"p10": -14.0}}}, "of -14 ms"),
        ({"time_to_first_token_ms": {"std_dev": -1.0}}, "standard deviation of the Time to first"),
        ({"output_tokens_per_second": {"mean": 2e15}}, "Output throughput of 2e+15"),
        ({"time_to_first_token_ms": {"mean": 1e12}}, "of 1e+12 ms"),
        ({"request_latency": {"max": 1e9}}, "Request latency of 1e+09 s"),
        ({"time_to_first_token_ms": {"percentiles": {"p90": 50.0}}}, "whose P90 (50) is below"),
        ({"inter_token_latency_ms": {"min": 500.0}}, "is below its min (500 ms)"),
    ],
)
def test_a_number_that_cannot_be_is_rejected_by_name(
    run: Any, write: Any, report: Any, changes: dict[str, Any], said: str
) -> None:
    done = run(write("r.json", _altered(report, **changes)), "--json")
    assert done.json["accepted"] == 0
    assert said in done.reason
    assert done.reason.endswith("so measure it again.")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"std_ttft_ms": -1.0}, "standard deviation"),
        ({"output_throughput": 2e15}, "2e+15"),
        ({"mean_ttft_ms": -5.0}, "-5"),
        ({"p99_ttft_ms": 10.0}, "whose P99 (10) is below its median (100 ms)"),
        ({"duration": 1e9}, "a duration of 1e+09 s"),
        ({"num_prompts": 2**40}, "requests made"),
        ({"failed": -5}, "a count below zero"),
        ({"spec_decode_accepted_tokens": 21}, "21 accepted of 20 drafted"),
        ({"spec_decode_acceptance_rate": 165.0}, "acceptance rate outside"),
        ({"spec_decode_acceptance_length": 5000.0}, "mean acceptance length of 5000"),
    ],
)
def test_a_bench_result_with_a_number_that_cannot_be_is_rejected_by_name(
    run: Any, write: Any, bench: Any, changes: dict[str, Any], said: str
) -> None:
    done = run(write("b.json", bench(**changes)), "--json")
    assert done.json["accepted"] == 0
    assert said in done.reason


def test_a_negative_sample_of_the_server_is_rejected(run: Any, write: Any, report: Any) -> None:
    start = report()["benchmarks"][0]["start_time"]
    write("drop/guidellm.json", report())
    lines = [json.dumps([start + at, ["vllm:num_requests_running -7"]]) for at in (0.5, 1.5)]
    write("drop/metrics-samples.jsonl", "\n".join(lines))
    done = run(write("drop/record.json", {"schema_version": 1}).parent, "--json")
    assert "a sample of num_requests_running of -7" in done.reason


@pytest.mark.parametrize(
    ("changes", "flag"),
    [
        ({"time_to_first_token_ms": {"mean": 900.0}}, "statistics_disagree"),
        ({"request_latency": {"mean": 0.1}}, "statistics_disagree"),
        ({"time_to_first_token_ms": {"std_dev": 90.0}}, "statistics_disagree"),
        ({"output_tokens_per_second": {"mean": 900.0}}, "more_than_requests_hold"),
        ({"tokens_per_second": {"mean": 9000.0}}, "more_than_requests_hold"),
        ({"requests_per_second": {"mean": 90.0}}, "more_than_requests_hold"),
        ({"output_tokens_per_second": {"mean": 20.0}}, "reported_differs"),
        ({"output_token_count": {"mean": 12.0, "max": 12.0}}, "reported_differs"),
        ({"request_concurrency": {"mean": 2e6}}, "beyond_usual"),
    ],
)
def test_a_doubtful_number_is_flagged_by_name(
    run: Any, write: Any, report: Any, changes: dict[str, Any], flag: str
) -> None:
    assert run(write("r.json", _altered(report, **changes))).status == 0
    assert flag in run.flags(run.cells()[0]["cell_id"])


@pytest.mark.parametrize(
    ("changes", "flag"),
    [
        ({"failed": 3}, "counts_differ"),
        ({"mean_ttft_ms": 900.0, "std_ttft_ms": 20.0}, "statistics_disagree"),
        ({"completed": 3, "failed": 1, "detailed": True}, "counts_differ"),
        ({"spec_decode_acceptance_rate": 90.0}, "acceptance_disagrees"),
        ({"spec_decode_acceptance_length": 2.9}, "acceptance_disagrees"),
        ({"mean_ttft_ms": 40.0, "std_ttft_ms": None}, "statistics_disagree"),
        ({"mean_ttft_ms": 40.0, "std_ttft_ms": 2.0, "median_ttft_ms": None}, "statistics_disagree"),
        ({"output_throughput": 80.0}, "more_than_requests_hold"),
        ({"mean_ttft_ms": 4e6, "median_ttft_ms": 4e6, "p99_ttft_ms": 4e6}, "beyond_usual"),
    ],
)
def test_a_doubtful_number_of_a_bench_result_is_flagged_by_name(
    run: Any, write: Any, bench: Any, changes: dict[str, Any], flag: str
) -> None:
    assert run(write("b.json", bench(**changes))).status == 0
    assert flag in run.flags(run.cells()[0]["cell_id"])


def test_counts_that_are_not_those_of_the_requests_are_flagged(
    run: Any, write: Any, report: Any
) -> None:
    data = report()
    made = {"successful": 12, "errored": 0, "incomplete": 0, "total": 12}
    data["benchmarks"][0]["scheduler_metrics"]["requests_made"] = made
    data["benchmarks"][0]["metrics"]["request_totals"] = made
    assert run(write("r.json", data)).status == 0
    assert "counts_differ" in run.flags(run.cells()[0]["cell_id"])


@pytest.mark.parametrize("failed", [False, True])
def test_all_requests_of_a_result_are_as_many_as_it_counts(
    run: Any, write: Any, failed: bool
) -> None:
    """Of four requests one failed; that another one did contradicts the three that completed."""
    said = line(True)
    said["errors"][0] = "refused" if failed else ""
    assert run(write("s.jsonl", said)).status == 0
    assert ("counts_differ" in run.flags(run.cells()[0]["cell_id"])) is failed


_DOUBTS = {
    "beyond_usual", "counts_differ", "statistics_disagree", "more_than_requests_hold",
    "reported_differs", "acceptance_disagrees",
}  # fmt: skip


def test_an_honest_report_earns_none_of_these_flags(
    run: Any, write: Any, report: Any, bench: Any
) -> None:
    write("in/r.json", _altered(report))
    rates = {"request_throughput": 4.0, "output_throughput": 36.0, "total_token_throughput": 76.0}
    write("in/b.json", bench(True, duration=1.0, **rates))
    folder = write("in/c.json", bench(False)).parent
    assert run(folder).status == 0
    assert {flag for cell in run.cells() for flag in run.flags(cell["cell_id"])} & _DOUBTS == set()


def test_every_metric_says_what_is_possible() -> None:
    for metric in METRICS.values():
        assert metric.lowest >= 0
        assert metric.highest < float("inf")
        assert metric.doubtful > metric.lowest


@pytest.mark.parametrize(
    ("changes", "flagged"),
    [
        ({}, False),
        ({"request_throughput": 1.2}, True),
        ({"output_throughput": 9.0}, True),
        ({"output_throughput": 14.0}, False),
        ({"total_token_throughput": 20.0}, True),
        ({"total_token_throughput": 45.0}, False),
    ],
)
def test_a_stated_rate_has_to_be_that_of_its_own_counts(
    run: Any, write: Any, bench: Any, changes: dict[str, Any], flagged: bool
) -> None:
    assert run(write("r.json", bench(**changes))).status == 0
    (cell,) = run.cells()
    assert ("rates_disagree" in run.flags(cell["cell_id"])) is flagged


_GENAI = test_genai_perf.report(concurrency=3)
_LLMD = test_llmd.ONE["metrics"]


@pytest.mark.parametrize(
    ("said", "flags"),
    [
        (_GENAI, set()),
        (_GENAI | {"time_to_first_token": distribution("ms", 1600.0)}, {"latencies_disagree"}),
        (_GENAI | {"time_to_first_token": {"avg": 700.0}}, {"latencies_disagree"}),
        (_GENAI | {"inter_token_latency": distribution("ms", 20.0)},
         {"latencies_disagree", "impossible_throughput"}),
        (_GENAI | {"inter_token_latency": distribution("ms", 16.0)}, set()),
        (_GENAI | {"request_latency": distribution("ms", 1000.0)},
         {"latencies_disagree", "low_concurrency"}),
        (test_genai_perf.report(concurrency=2), {"impossible_throughput"}),
        (test_genai_perf.report(concurrency=8), {"low_concurrency"}),
        (test_genai_perf.report(request_rate=2.0), set()),
        (test_genai_perf.report(request_rate=1.5), {"more_than_offered"}),
        (_LLMD, set()),
        (_LLMD | {"latency": _LLMD["latency"] | {"inter_token_latency": {"units": "ms/token", "mean": 30.0}}},
         {"latencies_disagree"}),
        (_LLMD | {"throughput": {"output_tokens_per_sec": 30.0, "total_tokens_per_sec": 20.0}},
         {"rates_disagree"}),
        (test_vllm_files.LATENCY, set()),
        (test_vllm_files.LATENCY | {"avg_latency": 1.05}, {"reported_differs"}),
        (test_vllm_files.THROUGHPUT, set()),
        (test_vllm_files.THROUGHPUT | {"tokens_per_second": 500.0}, {"reported_differs"}),
    ],
)  # fmt: skip
def test_what_a_summary_states_of_different_things_has_to_fit(
    run: Any, write: Any, said: dict[str, Any], flags: set[str]
) -> None:
    said = said if "latency" not in said else test_llmd.ONE | {"metrics": said}
    assert run(write("r.json", said)).status == 0
    found = run.flags(run.cells()[0]["cell_id"])
    about = {"summary_only", "batch_latency", "few_prompts", "error_rate_high"}
    assert set(found) - about == flags
