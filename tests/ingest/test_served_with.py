"""A server's command line: each form of a speculation is one, and none is taken for a baseline."""

from typing import Any

import pytest

from ingest.settings import served_with
from warehouse.errors import UnknownKey

MTP = {"method": "mtp", "num_speculative_tokens": 2}
DRAFT = {"model": "meta/draft", "num_speculative_tokens": 5}
LOOKUP = {"method": "ngram", "num_speculative_tokens": 5, "prompt_lookup_max": 4}


@pytest.mark.parametrize(
    ("options", "config"),
    [
        ("--speculative-config.method mtp --speculative-config.num_speculative_tokens 2", MTP),
        ("--speculative_config.method=mtp --speculative_config.num-speculative-tokens=2", MTP),
        ("""-sc '{"method": "mtp", "num-speculative-tokens": 2}'""", MTP),
        ("""-sc='{"method": "mtp"}' --spec-tokens 2""", MTP),
        ("-sc.method mtp -sc.num_speculative_tokens 2", MTP),
        ("--spec-method mtp --spec-tokens=2", MTP),
        ("--spec-model meta/draft --spec-tokens 5", DRAFT),
        ("--speculative-model meta/draft --num-speculative-tokens 5", DRAFT),
        ("--speculative_model [ngram] --num_speculative_tokens 5 --ngram_prompt_lookup_max 4",
         LOOKUP),
        ("--speculative-config.a.b 1", {"a": {"b": 1}}),
    ],
)  # fmt: skip
def test_each_form_of_a_speculation_is_one(options: str, config: dict[str, Any]) -> None:
    told = served_with(f"vllm serve meta/llama {options} --max-num-seqs 8")
    assert told["speculative_config"] == config
    assert told.get("spec_method") == config.get("method")
    assert told.get("num_speculative_tokens") == config.get("num_speculative_tokens")
    assert told.get("draft_model") == config.get("model")
    assert told["server_args"] == {"max-num-seqs": "8"}


@pytest.mark.parametrize(
    ("options", "others"),
    [
        ("", None),
        ("--speculative-config None", None),
        ("--per-request-spec-decode-metrics summary --specialize-active-lora",
         {"per-request-spec-decode-metrics": "summary", "specialize-active-lora": True}),
    ],
)  # fmt: skip
def test_without_a_speculation_it_served_a_baseline(
    options: str, others: dict[str, Any] | None
) -> None:
    told = served_with(f"vllm serve meta/llama {options}")
    assert (told["spec_method"], told.get("server_args")) == ("none", others)


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("sglang serve meta/llama --speculative-algorithm EAGLE", "no 'vllm serve'.*spec_method"),
        ("vllm bench serve --model meta/llama", "no 'vllm serve'"),
        ("vllm serve meta/llama --config served.yaml", "--config served.yaml, which may turn"),
        ("vllm serve meta/llama --config=served.yaml", "write them out in its place"),
        ("vllm serve meta/llama --speculative-algorithm EAGLE", "--speculative-algorithm may be"),
        ("""vllm serve meta/llama --specul '{"method": "mtp"}'""", "--specul may be"),
        ("vllm serve meta/llama --spec-tokens", "--spec-tokens may be"),
        ("vllm serve meta/llama --speculative-config '[1]'", "no JSON object"),
        ("vllm serve meta/llama --enforce-eager $DRAFT", "what only its shell knew"),
        ("vllm serve RedHatAI/Qwen3-8B-speculator.eagle3", "a speculation of its own"),
    ],
)
def test_what_may_speculate_is_refused_in_a_sentence(command: str, words: str) -> None:
    with pytest.raises(UnknownKey, match=words):
        served_with(command)


@pytest.mark.parametrize(
    "command",
    [
        "vllm serve --enable-prefix-caching meta/llama",
        "vllm serve --enable-prefix-caching true meta/llama",
        "vllm serve --headless -O3 -ep --trust-remote-code --enable-prefix-caching meta/llama",
        "vllm serve \\\n  --enable-prefix-caching \\\n  meta/llama",
        "/opt/vllm/bin/vllm serve meta/llama --enable-prefix-caching -tp 2 > log 2>&1",
        "python -m vllm.entrypoints.openai.api_server --enable-prefix-caching --model meta/llama",
    ],
)
def test_a_switch_takes_no_word_of_others(command: str) -> None:
    told = served_with(command)
    assert (told["model"], told["prefix_caching"]) == ("meta/llama", True)


def test_a_switch_that_is_off_says_so() -> None:
    for off in ("--no-enable-prefix-caching", "--enable-prefix-caching False"):
        told = served_with(f"vllm serve {off} meta/llama")
        assert (told["model"], told["prefix_caching"]) == ("meta/llama", False)
    told = served_with("vllm serve --disable-access-log-for-endpoints /health meta/llama")
    assert told["model"] == "meta/llama"
