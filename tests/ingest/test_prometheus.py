"""The server's counters are read from its text exposition."""

import pytest

from ingest.counters import parse_exposition

LINES = """\
# HELP vllm:spec_decode_num_drafts_total Number of spec decoding drafts.
# TYPE vllm:spec_decode_num_drafts_total counter
vllm:spec_decode_num_drafts_total{engine="0",model_name="tiny"} 562.0
vllm:spec_decode_num_drafts_total{engine="1",model_name="tiny"} 38.0
vllm:spec_decode_num_drafts_created{engine="0",model_name="tiny"} 1.79e+09
vllm:spec_decode_num_draft_tokens_total{engine="0",model_name="tiny"} 1555.0
vllm:spec_decode_num_accepted_tokens_total{engine="0",model_name="tiny"} 753.0
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",model_name="a,b",position="0"} 416.0
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="1",position="0"} 4.0
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",position="1"} 337.0
vllm:spec_decode_num_accepted_tokens_per_pos_created{engine="0",position="1"} 1.79e+09
vllm:num_requests_running{engine="0"} 3.0
vllm:num_requests_waiting_by_reason{engine="0",reason="capacity"} 9.0
vllm:kv_cache_usage_perc{engine="0"} 0.25
vllm:kv_cache_usage_perc{engine="1"} 0.5
vllm:prompt_tokens_total NaN
broken line
""".splitlines()


def test_counters_add_up_over_engines_and_creation_times_are_left_out() -> None:
    counters = parse_exposition(LINES).counters
    assert counters is not None
    assert (counters.drafts, counters.draft_tokens, counters.accepted_tokens) == (600, 1555, 753)
    assert counters.by_position == (420.0, 337.0)


@pytest.mark.parametrize("number", [2, 5, 6, 7])
@pytest.mark.parametrize("value", ["fast", "NaN", "-5", "+Inf", "12,5", ""])
def test_a_speculation_counter_without_a_number_breaks_the_others(number: int, value: str) -> None:
    name, _, _ = LINES[number].rpartition(" ")
    lines = [*LINES[:number], f"{name} {value}", *LINES[number + 1 :]]
    found = parse_exposition(lines)
    assert (found.broken, found.counters) == (True, None)
    assert not parse_exposition(LINES).broken


@pytest.mark.parametrize("end", [5, 6])
def test_counters_of_which_the_end_is_missing_are_broken(end: int) -> None:
    assert parse_exposition(LINES[:end]).broken


def test_gauges_are_kept_and_the_fullest_cache_counts() -> None:
    values = parse_exposition(LINES).values
    assert values["num_requests_running"] == 3
    assert values["kv_cache_usage_perc"] == pytest.approx(0.5)
    assert "prompt_tokens" not in values


def test_a_server_without_speculation_has_no_counters() -> None:
    assert parse_exposition(["vllm:num_requests_running 1.0"]).counters is None


def test_what_the_runners_sampler_adds_is_kept_and_power_adds_up_over_gpus() -> None:
    lines = [
        'draftboard:gpu_power_watts{gpu="0"} 512.5', 'draftboard:gpu_power_watts{gpu="1"} 500',
        "draftboard:cpu_cores_used_by_others 0.25", "draftboard:something_else 1",
    ]  # fmt: skip
    assert parse_exposition(lines).values == {
        "gpu_power_watts": 1012.5,
        "cpu_cores_used_by_others": 0.25,
    }
