"""SGLang's ``bench_serving``: lines written after ``sglang/benchmark/serving.py`` of 0.5.23."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from analysis.flags.lints import lint
from tests.ingest.readers.reading import cell, cells, load, values, written
from warehouse.contract import arm_label
from warehouse.errors import InvalidInput

LENGTHS = [9, 5, 3, 0]
TTFTS = [0.10, 0.20, 0.30, 0.0]
GAPS = [[0.05] * 8, [0.10] * 4, [0.20] * 2, []]


def line(detailed: bool = False, **changes: Any) -> dict[str, Any]:
    """One run of four requests, the last of which failed; statistics as its writer computes them."""
    ttfts, gaps = np.array(TTFTS[:3]), GAPS[:3]
    latencies = ttfts + [sum(gap) for gap in gaps]
    tpots = (latencies - ttfts) / (np.array(LENGTHS[:3]) - 1)
    said: dict[str, Any] = {
        "tag": None, "backend": "sglang-oai", "dataset_name": "random", "request_rate": float("inf"),
        "max_concurrency": 2, "sharegpt_output_len": None, "random_input_len": 1024,
        "random_output_len": 128, "random_range_ratio": 0.0, "server_info": None, "duration": 2.0,
        "completed": 3, "total_input_tokens": 30, "total_input_text_tokens": 30,
        "total_input_vision_tokens": 0, "total_output_tokens": 17,
        "total_output_tokens_retokenized": 17, "request_throughput": 1.5, "input_throughput": 15.0,
        "output_throughput": 8.5, "total_throughput": 23.5, "concurrency": 1.1,
        "accept_length": None, "max_output_tokens_per_s": 9.0, "max_concurrent_requests": 2,
    }  # fmt: skip
    for name, seconds in (
        ("e2e_latency", latencies), ("ttft", ttfts), ("tpot", tpots), ("itl", np.concatenate(gaps)),
    ):  # fmt: skip
        milliseconds = np.asarray(seconds) * 1000
        said[f"mean_{name}_ms"] = milliseconds.mean()
        said[f"median_{name}_ms"] = np.median(milliseconds)
        said[f"std_{name}_ms"] = milliseconds.std()
        for p in (90, 95, 99):
            said[f"p{p}_{name}_ms"] = np.percentile(milliseconds, p)
    if detailed:
        said |= {
            "input_lens": [10] * 4, "output_lens": LENGTHS, "ttfts": TTFTS, "itls": GAPS,
            "generated_texts": ["a", "b", "c", ""], "errors": ["", "", "", "HTTP 500: gone"],
        }  # fmt: skip
    return said | changes


SERVER = {
    "model_path": "meta/llama", "served_model_name": "llama", "tp_size": 2, "version": "0.5.23",
    "dtype": "bfloat16", "quantization": None, "disable_radix_cache": True, "revision": None,
    "speculative_algorithm": "EAGLE3", "speculative_num_steps": 3, "speculative_eagle_topk": 1,
    "speculative_num_draft_tokens": 4, "speculative_draft_model_path": "meta/draft",
    "api_key": "sk-0123456789abcdef0123", "internal_states": [{"avg_spec_accept_length": 2.5}],
}  # fmt: skip


def test_its_words_and_units_become_ours(tmp_path: Path) -> None:
    found = cell(written(tmp_path / "r.jsonl", line(), lines=True))
    told = values(found, "reported")
    assert told["ttft", "p50"] == pytest.approx(200.0)
    assert told["itl", "mean"] == pytest.approx((50 + 100 + 200) / 3)
    assert told["request_latency", "p99"] == pytest.approx(np.percentile([0.5, 0.6, 0.7], 99))
    assert told["output_throughput", "mean"] == 8.5
    assert told["total_throughput", "mean"] == 23.5
    assert told["prompt_tokens", "mean"] == 10
    assert told["achieved_concurrency", "mean"] == 1.1
    assert ("tpot", "mean") not in told
    assert values(found, "canonical") == {}
    assert (found.completed, found.duration, found.requests) == (3, 2.0, None)
    assert found.reported_definition == "sglang-bench"
    assert found.facts.dataset == "random 1024/128, ratio 0"
    assert found.facts.request_format == "text_completions"
    assert found.flags == ()


def test_the_gap_between_chunks_is_taken_where_it_is_one(tmp_path: Path) -> None:
    def gaps(**changes: Any) -> bool:
        found = cell(written(tmp_path / "r.jsonl", line(**changes), lines=True))
        return ("chunk_gap", "p50") in values(found, "reported")

    assert gaps(backend="vllm")
    assert not gaps(backend="sglang")
    assert not gaps(accept_length=2.5)


@pytest.mark.parametrize(
    ("said", "flagged"),
    [
        ({}, False),
        ({"total_output_tokens": 20}, False),
        ({"total_output_tokens": 384}, True),
        ({"total_output_tokens": 384, "backend": "sglang"}, False),
        ({"total_output_tokens": 384, "total_output_tokens_retokenized": None}, False),
    ],
)
def test_tokens_that_may_be_those_asked_for_are_flagged(
    tmp_path: Path, said: dict[str, Any], flagged: bool
) -> None:
    """Without usage from the server its 128 tokens a request are counted, whatever the texts hold."""
    found = cell(written(tmp_path / "r.jsonl", line(**said), lines=True))
    assert ("tokens_as_asked_for" in {flag.name for flag in found.flags}) is flagged


@pytest.mark.parametrize(
    ("said", "text"),
    [
        ({}, "2 at once"),
        ({"max_concurrency": None}, "as fast as it takes them"),
        ({"request_rate": 4.0, "max_concurrency": None}, "4 requests/s (Poisson)"),
        ({"request_rate": 4.0}, "4 requests/s (Poisson, at most 2 at once)"),
        ({"request_rate": "trace", "dataset_name": "mooncake"}, "trace mooncake"),
    ],
)
def test_its_load_is_what_was_asked_for(tmp_path: Path, said: dict[str, Any], text: str) -> None:
    assert load(cell(written(tmp_path / "r.jsonl", line(**said), lines=True))) == text


def test_the_server_says_which_arm_it_was(tmp_path: Path) -> None:
    said = line(backend="sglang", server_info=SERVER, accept_length=2.5)
    found = cell(written(tmp_path / "r.jsonl", said, lines=True))
    facts = found.facts
    assert (facts.engine, facts.engine_version, facts.model) == ("sglang", "0.5.23", "llama")
    assert (facts.tensor_parallel_size, facts.prefix_caching) == (2, False)
    assert (facts.spec_method, facts.num_speculative_tokens) == ("eagle3", 3)
    assert facts.draft_model == "meta/draft"
    assert values(found, "reported")["mean_acceptance_length", "mean"] == 2.5


@pytest.mark.parametrize(
    ("server", "arm"),
    [
        ({"speculative_algorithm": None}, ("none", None)),
        ({"speculative_eagle_topk": 4, "speculative_num_draft_tokens": 8}, ("eagle3", 7)),
        ({"speculative_algorithm": "NGRAM", "speculative_num_steps": None}, ("ngram", 3)),
    ],
)
def test_an_arm_is_told_by_its_algorithm_and_its_drafts(
    tmp_path: Path, server: dict[str, Any], arm: tuple[str, int | None]
) -> None:
    said = line(backend="sglang", server_info=SERVER | server)
    facts = cell(written(tmp_path / "r.jsonl", said, lines=True)).facts
    assert (facts.spec_method, facts.num_speculative_tokens) == arm


@pytest.mark.parametrize(
    ("server", "gpus"),
    [
        ({}, 2),
        ({"dp_size": 4}, 8),
        ({"pp_size": 2, "dp_size": 2}, 8),
        ({"tp_size": 8, "dp_size": 8, "enable_dp_attention": True}, 8),
        ({"tp_size": 8, "pp_size": 2, "dp_size": 8, "enable_dp_attention": True}, 16),
        ({"device": "cpu"}, None),
        ({"tp_size": None}, None),
    ],
)
def test_its_gpus_are_those_of_all_copies_of_the_model(
    tmp_path: Path, server: dict[str, Any], gpus: int | None
) -> None:
    said = line(backend="sglang", server_info=SERVER | server)
    assert cell(written(tmp_path / "r.jsonl", said, lines=True)).facts.gpu_count == gpus


def test_arguments_that_make_another_server_are_kept_and_others_are_not(tmp_path: Path) -> None:
    given = {"max_running_requests": 16, "chunked_prefill_size": -1, "mem_fraction_static": 0.85,
             "enable_mixed_chunk": True, "dp_size": 2, "enable_dp_attention": True}  # fmt: skip
    others = {"port": 30000, "random_seed": 355442161, "log_level": "info", "max_queued_requests": None,
              "kv_cache_dtype": "auto", "stream_interval": 1, "disable_cuda_graph": False,
              "disaggregation_mode": "null"}  # fmt: skip
    said = line(backend="sglang", server_info=SERVER | given | others)
    assert cell(written(tmp_path / "r.jsonl", said, lines=True)).facts.server_args == given


def test_what_its_engine_made_of_them_is_kept(tmp_path: Path) -> None:
    told = {"disable_overlap_schedule": True, "attention_backend": "fa3", "cuda_graph_max_bs": 160,
            "disable_cuda_graph": False, "enable_torch_compile": False, "max_total_num_tokens": 20480,
            "kv_cache_dtype": "auto"}  # fmt: skip
    said = line(backend="sglang", server_info=SERVER | told)
    assert cell(written(tmp_path / "r.jsonl", said, lines=True)).facts.engine_settings == {
        "async_scheduling": False, "attention_backend": "fa3", "cuda_graphs": "on",
        "cuda_graph_max": 160, "compile_mode": "none", "kv_cache_tokens": 20480,
        "kv_cache_dtype": "auto",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("said", "arm"),
    [
        ({"speculative_adaptive": True}, "eagle3 K<=3 adaptive"),
        ({"speculative_adaptive": False}, "eagle3 K=3"),
        # A tree keeps its size, whatever is asked for.
        ({"speculative_adaptive": True, "speculative_eagle_topk": 4}, "eagle3 K=3"),
    ],
)
def test_adaptive_steps_are_an_arm_whose_k_the_engine_chooses(
    tmp_path: Path, said: dict[str, Any], arm: str
) -> None:
    run = line(backend="sglang", server_info=SERVER | said)
    facts = cell(written(tmp_path / "r.jsonl", run, lines=True)).facts
    assert (
        arm_label(facts.spec_method, facts.num_speculative_tokens, facts.speculative_config) == arm
    )


def test_adaptive_steps_may_grow_beyond_those_it_starts_with(tmp_path: Path) -> None:
    run = line(
        backend="sglang", server_info=SERVER | {"speculative_adaptive": True}, accept_length=5.2
    )
    found = cell(written(tmp_path / "r.jsonl", run, lines=True))
    assert found.facts.num_speculative_tokens == 5
    assert "acceptance_too_long" not in {flag.name for flag in lint(found)}


def test_drafts_accepted_below_the_models_own_probability_are_told(tmp_path: Path) -> None:
    run = line(backend="sglang", server_info=SERVER | {"speculative_accept_threshold_acc": 0.8})
    found = cell(written(tmp_path / "r.jsonl", run, lines=True))
    assert "lossy_verification" in {flag.name for flag in lint(found)}


def test_a_server_of_another_kind_says_no_arm(tmp_path: Path) -> None:
    said = line(backend="vllm", server_info={"vllm_config": "…"})
    facts = cell(written(tmp_path / "r.jsonl", said, lines=True)).facts
    assert (facts.engine, facts.spec_method, facts.model) == ("vllm", None, None)
    told = {"vllm_config": "model='m', kv_cache_dtype=auto, enforce_eager=True"}
    said = line(backend="vllm", server_info=told)
    facts = cell(written(tmp_path / "r.jsonl", said, lines=True)).facts
    assert facts.engine_settings == {"kv_cache_dtype": "auto", "enforce_eager": True}


def test_each_line_is_a_cell(tmp_path: Path) -> None:
    runs = [line(max_concurrency=n) for n in (1, 2, 4)]
    found = cells(written(tmp_path / "r.jsonl", *runs, lines=True))
    assert [one.facts.concurrency for one in found] == [1, 2, 4]
    assert len({one.cell_id for one in found}) == 3


def test_with_details_the_latencies_of_requests_are_recomputed(tmp_path: Path) -> None:
    found = cell(written(tmp_path / "r.jsonl", line(detailed=True), lines=True))
    assert (found.completed, found.errored, found.requests_complete) == (3, 1, True)
    assert found.requests is not None
    rows = found.requests.to_pylist()
    assert [row["status"] for row in rows] == ["completed"] * 3 + ["errored"]
    assert [row["error"] for row in rows] == [None] * 3 + ["HTTP 500: gone"]
    assert [row["ttft"] for row in rows[:3]] == pytest.approx([100.0, 200.0, 300.0])
    assert {row["start"] for row in rows} == {None}
    mine = values(found, "canonical")
    latencies = [0.1 + 8 * 0.05, 0.2 + 4 * 0.1, 0.3 + 2 * 0.2]
    assert mine["request_latency", "mean"] == pytest.approx(np.mean(latencies))
    # By tokens after the first: (8 x 50 + 4 x 100 + 2 x 200) / 14.
    assert mine["itl", "mean"] == pytest.approx(1200 / 14)
    assert mine["tpot", "mean"] == pytest.approx(sum(latencies) * 1000 / 17)
    assert mine["ttft", "p95"] == pytest.approx(300.0)
    # Nothing says when a request began.
    assert not {"output_throughput", "achieved_concurrency"} & {metric for metric, _ in mine}


def test_its_own_statistics_agree_with_its_requests(tmp_path: Path) -> None:
    found = cell(written(tmp_path / "r.jsonl", line(detailed=True), lines=True))
    told, mine = values(found, "reported"), values(found, "canonical")
    for metric in ("ttft", "request_latency", "output_tokens"):
        assert told[metric, "mean"] == pytest.approx(mine[metric, "mean"])
    assert told["error_rate", "mean"] == 0.25


def test_texts_are_kept_only_if_asked(tmp_path: Path) -> None:
    path = written(tmp_path / "r.jsonl", line(detailed=True), lines=True)
    kept = [cells(path, keep_text=keep)[0].requests for keep in (False, True)]
    assert [t["output"].to_pylist()[0] for t in kept if t is not None] == [None, "a"]


def test_a_rate_without_bound_is_no_doubt(tmp_path: Path) -> None:
    path = written(tmp_path / "r.jsonl", line(), lines=True)
    assert '"request_rate": Infinity' in path.read_text()
    assert cell(path).flags == ()
    path = written(tmp_path / "r.jsonl", line(mean_itl_ms=float("nan")), lines=True)
    assert [flag.name for flag in cell(path).flags] == ["not_a_number"]


def test_a_line_that_was_cut_off_is_named(tmp_path: Path) -> None:
    path = written(tmp_path / "r.jsonl", line(), line(), lines=True)
    path.write_text(path.read_text()[:-40])
    with pytest.raises(InvalidInput, match=r"Line 2 .*SGLang.*run that one again\.$"):
        cells(path)


@pytest.mark.parametrize("runs", [1, 2])
def test_a_file_without_success_is_refused(run: Any, tmp_path: Path, runs: int) -> None:
    failed = [line(completed=0, max_concurrency=n + 1) for n in range(runs)]
    done = run(written(tmp_path / "r.jsonl", *failed, lines=True), "--json")
    assert "no successful request" in done.reason


def test_a_run_without_success_is_a_failed_cell_among_the_others(run: Any, tmp_path: Path) -> None:
    nothing = {"output_lens": [0] * 4, "ttfts": [0.0] * 4, "itls": [[]] * 4,
               "errors": ["HTTP 500"] * 4}  # fmt: skip
    runs = [line(), line(max_concurrency=4, completed=0),
            line(detailed=True, max_concurrency=8, completed=0, **nothing)]  # fmt: skip
    done = run(written(tmp_path / "r.jsonl", *runs, lines=True), "--json")
    assert (done.status, done.json["cells"]) == (0, 3)
    found = {one["concurrency"]: one for one in run.cells()}
    assert [found[n]["status"] for n in (2, 4, 8)] == ["good", "failed", "failed"]
    assert [found[n]["errored"] for n in (2, 4, 8)] == [0, 0, 4]
    for n in (4, 8):
        assert {"failed", "no_completed_requests"} <= run.flags(found[n]["cell_id"])


def test_lists_of_different_length_are_refused(tmp_path: Path) -> None:
    said = line(detailed=True)
    said["input_lens"] = [10]
    with pytest.raises(InvalidInput, match="differ in length"):
        cells(written(tmp_path / "r.jsonl", said, lines=True))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"itls": GAPS[:2]}, "differ in length"),
        ({"duration": "long"}, "duration is a text"),
        ({"max_concurrency": 2.5}, "concurrency is 2.5 where a whole number belongs"),
    ],
)
def test_a_line_that_is_refused_is_named(
    tmp_path: Path, changes: dict[str, Any], said: str
) -> None:
    path = written(tmp_path / "r.jsonl", line(), line(detailed=True, **changes), lines=True)
    path.write_text("\n" + path.read_text())
    with pytest.raises(InvalidInput, match=rf"^Line 3 of this file: .*{said}"):
        cells(path)


def test_a_count_beyond_all_bounds_is_written_short(run: Any, tmp_path: Path) -> None:
    done = run(written(tmp_path / "r.jsonl", line(completed=1e300), lines=True), "--json")
    assert "has 1e+300 requests" in done.reason


def test_its_secrets_stay_out_of_what_is_kept(tmp_path: Path) -> None:
    from ingest.formats import sglang_bench
    from ingest.model import Context, open_content

    path = written(tmp_path / "r.jsonl", line(server_info=SERVER), lines=True)
    parsed = sglang_bench.parse(open_content(path), Context(lambda: "a" * 64))
    assert "sk-0123456789" not in json.dumps(parsed.report_config)
