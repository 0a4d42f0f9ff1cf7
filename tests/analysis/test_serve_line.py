"""What is printed for a shell: the speculative config and the whole serve line."""

import json
import shlex
import subprocess
from typing import Any

import pytest

from analysis.drafts.dynamic_k import DynamicTable
from analysis.drafts.serve_line import serve_line, speculative_config

STATIC = DynamicTable(((1, 16, 3),), ((16, 3),))
DYNAMIC = DynamicTable(((1, 8, 3), (9, 64, 0)), ((8, 3), (64, 0)))
OFF = DynamicTable(((1, 16, 0),), ((16, 0),))
FACTS: dict[str, Any] = {
    "engine": "vllm",
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
    assert "--speculative-config" not in str(serve_line(FACTS, None))


def test_the_line_survives_a_shell() -> None:
    config = speculative_config(FACTS | {"draft_model": "a draft's path"}, DYNAMIC)
    words = shlex.split(str(serve_line(FACTS, config)))
    assert words[:9] == [
        "vllm", "serve", "org/target", "--tensor-parallel-size", "2",
        "--no-enable-prefix-caching", "--max-model-len", "4096", "--enforce-eager",
    ]  # fmt: skip
    assert words[9] == "--speculative-config"
    assert json.loads(words[10]) == config


def test_what_a_data_frame_shows_as_missing_is_left_out() -> None:
    facts = FACTS | {"tensor_parallel_size": float("nan"), "server_args": float("nan")}
    assert serve_line(facts, None) == "vllm serve org/target"


COMMAND = [
    "/envs/vllm/bin/vllm", "serve", "/models/target", "--host", "127.0.0.1", "--port", "45513",
    "--served-model-name", "org/target", "--api-key", "[removed]", "--max-num-seqs", "128",
    "--no-enable-prefix-caching", "--speculative-config",
    '{"method": "draft_model", "model": "/models/draft", "num_speculative_tokens": 2}',
    "--per-request-spec-decode-metrics", "summary",
]  # fmt: skip


def test_the_command_that_was_measured_is_taken_over_with_the_k_that_was_decided() -> None:
    facts = FACTS | {"command": COMMAND, "environment": {"VLLM_USE_FLASHINFER_SAMPLER": "0"}}
    config = speculative_config(facts, STATIC)
    assert config == {
        "method": "draft_model", "model": "/models/draft", "num_speculative_tokens": 3,
    }  # fmt: skip
    assert shlex.split(str(serve_line(facts, config))) == [
        "VLLM_USE_FLASHINFER_SAMPLER=0", "vllm", "serve", "/models/target",
        "--served-model-name", "org/target", "--max-num-seqs", "128", "--no-enable-prefix-caching",
        "--speculative-config", json.dumps(config),
    ]  # fmt: skip
    assert "speculative" not in str(serve_line(facts, None))


def test_a_home_folder_of_a_record_is_the_readers_own() -> None:
    command = ["vllm", "serve", "~/models/target"]
    line = serve_line(FACTS | {"command": command}, {"model": "~/a draft", "method": "eagle3"})
    told = subprocess.run(
        ["sh", "-c", f"HOME=/home/me; printf '%s\n' {line}"], capture_output=True, text=True, check=True
    ).stdout.splitlines()  # fmt: skip
    assert told[2] == "/home/me/models/target"
    assert json.loads(told[4])["model"] == "/home/me/a draft"


def test_what_a_report_states_of_a_server_is_an_argument() -> None:
    facts = FACTS | {"precision": "bfloat16", "prefix_caching": False, "server_args": "{}"}
    line = "vllm serve org/target --tensor-parallel-size 2 --dtype bfloat16"
    assert serve_line(facts, None) == f"{line} --no-enable-prefix-caching"


SGLANG: dict[str, Any] = {
    "engine": "sglang", "model": "chat", "model_path": "/models/chat", "precision": "fp8",
    "tensor_parallel_size": 4.0, "num_speculative_tokens": 3.0, "spec_method": "eagle3",
    "server_args": '{"max_running_requests": 64}', "prefix_caching": False,
    "speculative_config": json.dumps(
        {"speculative_algorithm": "EAGLE3", "speculative_draft_model_path": "/models/draft",
         "speculative_eagle_topk": 1, "speculative_num_draft_tokens": 4, "speculative_num_steps": 3}
    ),
}  # fmt: skip


def test_sglang_is_started_by_its_own_command() -> None:
    assert serve_line(SGLANG, speculative_config(SGLANG, STATIC)) == (
        "python -m sglang.launch_server --model-path /models/chat --served-model-name chat "
        "--tp-size 4 --quantization fp8 --disable-radix-cache --max-running-requests 64 "
        "--speculative-algorithm EAGLE3 --speculative-num-steps 3 --speculative-eagle-topk 1 "
        "--speculative-num-draft-tokens 4 --speculative-draft-model-path /models/draft"
    )


def test_another_engine_serves_what_was_measured_or_nothing() -> None:
    llama = SGLANG | {"engine": "llama.cpp"}
    command = ["llama-server", "--model", "t.gguf", "--port", "8080", "--spec-draft-n-max", "3"]
    assert serve_line(llama, {"num_speculative_tokens": 3}) is None
    line = serve_line(llama | {"command": command}, {"num_speculative_tokens": 3})
    assert line == "llama-server --model t.gguf --spec-draft-n-max 3"
    for facts in (SGLANG, llama | {"command": command}):
        assert serve_line(facts, speculative_config(facts, DYNAMIC)) is None
        assert serve_line(facts, {"num_speculative_tokens": 5}) is None


@pytest.mark.parametrize(
    "changes",
    [
        {"engine": None}, {"engine": "tensorrt-llm"}, {"model": None},
        {"server_args": '{"prefill 0": {"max_num_seqs": 8}}'}, {"source_format": "inferencex"},
    ],
)  # fmt: skip
def test_nothing_is_pasted_where_it_is_not_known_what_would_start(changes: dict[str, Any]) -> None:
    assert serve_line(FACTS | changes, None) is None
