"""What nobody counted is unknown: no throughput of 0.0 tokens a second, no first token after 0 ms."""

from typing import Any

import pytest

from warehouse import queries
from warehouse.catalogue import METRICS
from warehouse.filters import Filters
from warehouse.store import Reader

TOKENS = {"output_throughput", "total_throughput", "output_tokens", "itl", "tpot"}


def _found(run: Any) -> set[str]:
    with Reader(run.root) as reader:
        rows = queries.measurements(reader, Filters(), list(METRICS), ["mean"]).to_pylist()
    return {row["metric"] for row in rows}


def _without_tokens(report: Any) -> dict[str, Any]:
    """As GuideLLM writes it where the server says no usage and nothing can be counted."""
    data: dict[str, Any] = report()
    (benchmark,) = data["benchmarks"]
    names = ("output_token_count", "prompt_token_count", "time_per_output_token_ms",
             "inter_token_latency_ms", "output_tokens_per_second", "tokens_per_second")  # fmt: skip
    for name in names:
        for summary in filter(None, benchmark["metrics"][name].values()):
            percentiles = dict.fromkeys(summary["percentiles"], 0.0)
            summary |= {
                "mean": 0.0,
                "median": 0.0,
                "min": 0.0,
                "max": 0.0,
                "percentiles": percentiles,
            }
    for request in benchmark["requests"]["successful"]:
        request |= {"input_metrics": {}, "output_metrics": {}}
    return data


@pytest.mark.parametrize("with_requests", [True, False])
def test_a_report_without_token_counts_has_no_throughput_of_tokens(
    run: Any, write: Any, report: Any, with_requests: bool
) -> None:
    data = _without_tokens(report)
    if not with_requests:
        data["benchmarks"][0]["requests"] = {"successful": [], "errored": [], "incomplete": []}
    assert run(write("r.json", data)).status == 0
    found = _found(run)
    assert not found & {*TOKENS, "prompt_tokens"}
    assert {"request_throughput", "ttft", "request_latency"} <= found


def test_neither_has_a_result_of_vllm_bench(run: Any, write: Any, bench: Any) -> None:
    zero = dict.fromkeys(
        ("total_output_tokens", "output_throughput", "mean_tpot_ms", "mean_itl_ms", "p99_itl_ms"), 0
    )
    assert run(write("r.json", bench(**zero))).status == 0
    found = _found(run)
    assert not found & {"output_throughput", "output_tokens", "itl", "chunk_gap"}
    assert {"total_throughput", "ttft"} <= found


def test_where_prompts_were_not_counted_their_sum_with_the_output_is_unknown(
    run: Any, write: Any, report: Any
) -> None:
    data = report()
    (benchmark,) = data["benchmarks"]
    for request in benchmark["requests"]["successful"]:
        request |= {"prompt_tokens": None, "output_tokens": 9}
    for name in ("prompt_token_count", "tokens_per_second"):
        benchmark["metrics"][name] = None
    assert run(write("r.json", data)).status == 0
    found = _found(run)
    assert "output_throughput" in found
    assert not found & {"prompt_tokens", "total_throughput"}
