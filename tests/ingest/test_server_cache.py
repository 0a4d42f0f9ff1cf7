"""Room in the KV cache and hits of the prefix cache, in vLLM's own words."""

import pytest

from analysis.flags.lints_across import hits_differ, less_cache
from ingest.counters import cache_measurements, parse_exposition

#: As vLLM 0.32 printed it for a draft model on a CPU, shortened.
REAL = (
    'vllm:cache_config_info{_block_size_resolved="True",block_size="128",enable_prefix_caching="True",'
    'engine="0",kv_cache_size_tokens="524288",num_gpu_blocks="4096",num_cpu_blocks="None"} 1.0'
)
BEFORE_IT_SAID_TOKENS = 'vllm:cache_config_info{block_size="16",num_gpu_blocks="1000"} 1.0'


def snapshot(*lines: str, queries: int | None = None, hits: int = 0):
    counted = [] if queries is None else [
        f'vllm:prefix_cache_queries_total{{engine="0"}} {queries}',
        f'vllm:prefix_cache_hits_total{{engine="0"}} {hits}',
    ]  # fmt: skip
    return parse_exposition([*lines, *counted])


def values(before, after) -> dict[str, float]:
    return {one.metric: one.value for one in cache_measurements(before, after)}


def test_the_size_of_the_cache_is_what_the_engine_says() -> None:
    assert values(snapshot(REAL), None) == {"kv_cache_tokens": 524288}
    assert values(snapshot(BEFORE_IT_SAID_TOKENS), None) == {"kv_cache_tokens": 16000}
    assert values(snapshot("vllm:cache_config_info{} 1.0"), None) == {}


def test_ranks_have_a_cache_each_and_one_that_is_silent_leaves_the_sum_unknown() -> None:
    assert snapshot(REAL, REAL).cache_tokens == 2 * 524288
    assert snapshot(REAL, "vllm:cache_config_info{} 1.0").cache_tokens is None


def test_hits_are_those_of_the_load() -> None:
    before, after = snapshot(queries=1000, hits=900), snapshot(queries=3000, hits=1400)
    assert values(before, after) == {"prefix_cache_hit_rate": pytest.approx(0.25)}
    # Nothing was looked up, or the server restarted in between: nothing is known.
    assert values(before, before) == {}
    assert values(after, before) == {}


def test_less_room_is_told_as_requests_that_no_longer_fit() -> None:
    flag = less_cache(1_000_000, 750_000, 1500.0)
    assert flag is not None
    assert flag.sentence == (
        "The KV cache holds 750,000 tokens instead of 1,000,000 (-25.0%), since the draft takes "
        "memory: of requests like these (1,500 tokens) 500 fit at once instead of 666."
    )
    assert less_cache(1_000_000, 995_000, 1500.0) is None
    assert less_cache(None, 5.0, None) is None


def test_hits_that_differ_between_arms_are_a_confounder() -> None:
    assert hits_differ(0.30, 0.29) is None
    flag = hits_differ(0.30, 0.10)
    assert flag is not None
    assert "30.0% of the baseline's prompt tokens" in flag.sentence
