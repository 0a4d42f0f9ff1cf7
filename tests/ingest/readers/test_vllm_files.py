"""What ``vllm bench`` writes beside one result a file: appended results, throughput, latency."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.ingest.readers.reading import FIXTURES, cell, cells, load, values, written
from warehouse.errors import InvalidInput


def test_appended_results_are_a_cell_each(tmp_path: Path, bench: Any) -> None:
    results = [bench(max_concurrency=n, mean_ttft_ms=100.0 * n) for n in (1, 2, 4)]
    found = cells(written(tmp_path / "appended.json", *results, lines=True))
    assert [one.facts.concurrency for one in found] == [1, 2, 4]
    assert [one.index for one in found] == [0, 1, 2]
    assert [values(one, "reported")["ttft", "mean"] for one in found] == [100.0, 200.0, 400.0]
    assert len({one.cell_id for one in found}) == 3


def test_a_result_over_many_lines_is_one(tmp_path: Path, bench: Any) -> None:
    path = tmp_path / "pretty.json"
    path.write_text(json.dumps(bench(), indent=1))
    assert len(cells(path)) == 1


def test_an_appended_result_that_was_cut_off_is_refused(tmp_path: Path, bench: Any) -> None:
    path = written(tmp_path / "appended.json", bench(), bench(), lines=True)
    path.write_text(path.read_text()[:-30])
    with pytest.raises(InvalidInput, match="cannot be read"):
        cells(path)


@pytest.mark.parametrize("change", [{"duration": "long"}, {"max_concurrency": -1}])
def test_an_appended_result_that_is_refused_is_named(
    tmp_path: Path, bench: Any, change: dict[str, Any]
) -> None:
    path = written(tmp_path / "appended.json", bench(), bench(**change), lines=True)
    with pytest.raises(InvalidInput, match=r"^Line 2 of this file: .*(duration|concurrency) is"):
        cells(path)


#: ``main`` of ``vllm/benchmarks/throughput.py`` and ``latency.py``, vLLM 0.32.
THROUGHPUT = {
    "model_id": "meta/llama", "elapsed_time": 4.0, "num_requests": 100, "total_num_tokens": 20_000,
    "requests_per_second": 25.0, "tokens_per_second": 5000.0,
}  # fmt: skip
LATENCY = {
    "model_id": "meta/llama", "avg_latency": 1.5, "latencies": [1.0, 1.5, 2.0],
    "percentiles": {"10": 1.1, "25": 1.25, "50": 1.5, "75": 1.75, "90": 1.9, "99": 1.99},
}  # fmt: skip


def test_offline_throughput_counts_all_tokens_over_the_run(tmp_path: Path) -> None:
    found = cell(written(tmp_path / "t.json", THROUGHPUT))
    told = {("total_throughput", "mean"): 5000.0, ("request_throughput", "mean"): 25.0}
    assert values(found, "reported") == told
    assert load(found) == "as fast as it takes them"
    assert (found.facts.engine, found.facts.model) == ("vllm", "meta/llama")
    assert (found.completed, found.duration, found.requests) == (100, 4.0, None)


def test_offline_latency_is_that_of_batches_and_says_so(tmp_path: Path) -> None:
    found = cell(written(tmp_path / "l.json", LATENCY), concurrency=8)
    told = values(found, "reported")
    assert told["request_latency", "mean"] == 1.5
    assert told["request_latency", "p99"] == 1.99
    assert [flag.name for flag in found.flags] == ["batch_latency"]
    assert load(found) == "8 at once"


def test_the_two_are_never_compared_with_each_other(tmp_path: Path) -> None:
    one = cell(written(tmp_path / "t.json", THROUGHPUT))
    other = cell(written(tmp_path / "l.json", LATENCY))
    assert one.reported_definition != other.reported_definition


def test_a_real_file_of_appended_results_is_two_levels_of_one_arm() -> None:
    found = cells(FIXTURES / "vllm" / "appended.json")
    assert [load(one) for one in found] == ["2 at once", "4 at once"]
    assert [one.completed for one in found] == [12, 12]
    for one in found:
        assert (one.facts.engine, one.facts.num_speculative_tokens) == ("vllm", 3)
        (accepted,) = one.acceptance
        assert accepted.drafts is not None
        assert accepted.accepted_tokens is not None
        assert accepted.mean_length == pytest.approx(1 + accepted.accepted_tokens / accepted.drafts)


def test_a_byte_order_mark_before_a_result_is_passed_over(tmp_path: Path, bench: Any) -> None:
    path = tmp_path / "windows.json"
    path.write_bytes(b"\xef\xbb\xbf" + json.dumps(bench()).encode())
    assert cell(path).completed == bench()["completed"]
