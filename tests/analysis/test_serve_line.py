"""What is printed for a shell: the speculative config and the whole serve line."""

import json
import shlex
from typing import Any

from analysis.drafts.dynamic_k import DynamicTable
from analysis.drafts.serve_line import serve_line, speculative_config

STATIC = DynamicTable(((1, 16, 3),), ((16, 3),))
DYNAMIC = DynamicTable(((1, 8, 3), (9, 64, 0)), ((8, 3), (64, 0)))
OFF = DynamicTable(((1, 16, 0),), ((16, 0),))
FACTS: dict[str, Any] = {
    "model": "org/target",
    "spec_method": "eagle3",
    "draft_model": "org/draft",
    "draft_revision": None,
    "tensor_parallel_size": 2,
    "server_args": '{"max_model_len": 4096, "enforce_eager": true, "enable_prefix_caching": false}',
    "speculative_config": None,
}


def test_one_k_needs_no_table() -> None:
    assert speculative_config(FACTS, STATIC) == {
        "method": "eagle3",
        "model": "org/draft",
        "num_speculative_tokens": 3,
    }


def test_several_k_are_vllms_table_beside_the_largest_k() -> None:
    config = speculative_config(FACTS, DYNAMIC)
    assert config is not None
    assert config["num_speculative_tokens"] == 3
    assert config["num_speculative_tokens_per_batch_size"] == [[1, 8, 3], [9, 64, 0]]


def test_the_recorded_config_is_kept_and_only_k_replaced() -> None:
    recorded = {"method": "ngram", "prompt_lookup_max": 4, "num_speculative_tokens": 9}
    facts = FACTS | {"speculative_config": json.dumps(recorded), "spec_method": "ngram"}
    assert speculative_config(facts, STATIC) == recorded | {"num_speculative_tokens": 3}


def test_a_method_without_a_draft_gets_no_model() -> None:
    facts = FACTS | {"spec_method": "ngram"}
    assert speculative_config(facts, STATIC) == {"method": "ngram", "num_speculative_tokens": 3}


def test_no_drafts_at_any_load_is_no_config_at_all() -> None:
    assert speculative_config(FACTS, OFF) is None
    assert "--speculative-config" not in serve_line(FACTS, None)


def test_the_line_survives_a_shell() -> None:
    config = speculative_config(FACTS | {"draft_model": "a draft's path"}, DYNAMIC)
    words = shlex.split(serve_line(FACTS, config))
    assert words[:9] == [
        "vllm", "serve", "org/target", "--tensor-parallel-size", "2",
        "--max-model-len", "4096", "--enforce-eager", "--no-enable-prefix-caching",
    ]  # fmt: skip
    assert words[9] == "--speculative-config"
    assert json.loads(words[10]) == config


def test_what_a_data_frame_shows_as_missing_is_left_out() -> None:
    facts = FACTS | {"tensor_parallel_size": float("nan"), "server_args": float("nan")}
    assert serve_line(facts, None) == "vllm serve org/target"
