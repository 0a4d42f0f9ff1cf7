"""What a line of SGLang's ``bench_serving`` says beside its measurements: server, load, dataset."""

import math
from typing import Any

from ingest.engine_settings import of_sglang, of_text, of_vllm
from ingest.level import is_number
from ingest.stated import count, number, positive
from warehouse.errors import InvalidInput

#: SGLang's algorithms under the names by which vLLM calls the same thing.
_METHODS = {"NEXTN": "mtp", "EAGLE": "eagle", "EAGLE3": "eagle3", "STANDALONE": "draft_model",
            "NGRAM": "ngram"}  # fmt: skip
_CHAT = ("sglang-oai-chat", "vllm-chat", "lmdeploy-chat")
_TEXT = ("sglang", "sglang-native", "sglang-oai", "vllm", "lmdeploy", "trt", "gserver", "truss")
_ENGINES = {"sglang": "sglang", "vllm": "vllm", "lmdeploy": "lmdeploy", "trt": "tensorrt-llm"}
_SPECULATIVE = ("speculative_algorithm", "speculative_num_steps", "speculative_eagle_topk",
                "speculative_num_draft_tokens", "speculative_draft_model_path",
                "speculative_draft_model_quantization", "speculative_token_map")  # fmt: skip
#: Below 1 they accept what the target model would not have said; 1 is what is not asked for.
_THRESHOLDS = ("speculative_accept_threshold_single", "speculative_accept_threshold_acc")
#: Arguments that make another server; what only names, logs or guards it is left out.
_ARGUMENTS = (
    "context_length", "mem_fraction_static", "max_running_requests", "max_queued_requests",
    "max_total_tokens", "chunked_prefill_size", "max_prefill_tokens", "prefill_max_requests",
    "enable_dynamic_chunking", "enable_mixed_chunk", "schedule_policy", "schedule_conservativeness",
    "page_size", "pp_size", "ep_size", "moe_dp_size", "attn_cp_size", "enable_dp_attention",
    "enable_dp_lm_head", "load_balance_method", "stream_interval", "num_continuous_decode_steps",
    "kv_cache_dtype", "cpu_offload_gb", "enable_hierarchical_cache", "disable_cuda_graph",
    "enable_torch_compile", "torchao_config", "enable_two_batch_overlap",
    "enable_single_batch_overlap", "moe_a2a_backend", "moe_runner_backend", "deepep_mode",
    "enable_eplb", "ep_num_redundant_experts", "sampling_backend", "grammar_backend",
    "disable_custom_all_reduce", "enable_deterministic_inference", "disaggregation_mode",
    "enable_lora", "load_format", "disable_chunked_prefix_cache", "reasoning_parser",
)  # fmt: skip
#: What an argument says that was not given.
_NOT_GIVEN = (None, False, "", "auto", "none", "null", 0, 1)


def facts_of(said: dict[str, Any]) -> dict[str, Any]:
    """Return the facts that a line states or implies, in the contract's words; None for what it
    does not."""
    backend = str(said.get("backend") or "")
    return {
        "engine": _ENGINES.get(backend.split("-")[0]),
        "request_format": _request_format(backend),
        "dataset": _dataset(said),
        "arm": said.get("tag") if isinstance(said.get("tag"), str) else None,
        **_load(said),
        **_server(said.get("server_info"), said.get("accept_length")),
    }


def _request_format(backend: str) -> str | None:
    if backend in _CHAT:
        return "chat_completions"
    return "text_completions" if backend in _TEXT else None


def _dataset(said: dict[str, Any]) -> str | None:
    """Return the dataset's name; random texts are told apart by the lengths asked for."""
    name = said.get("dataset_name")
    if not isinstance(name, str):
        return None
    if not name.startswith(("random", "image")):
        return name
    ratio = number(said, "random_range_ratio")
    spread = f", ratio {ratio:g}" if ratio is not None and ratio != 1 else ""
    return f"{name} {count(said, 'random_input_len')}/{count(said, 'random_output_len')}{spread}"


def _load(said: dict[str, Any]) -> dict[str, Any]:
    """Return the load: requests at a rate come as a Poisson process, a trace brings its own
    times."""
    limit, rate = positive(said, "max_concurrency"), said.get("request_rate")
    if rate == "trace":
        return {"load_profile": "trace", "trace": said.get("dataset_name"), "concurrency": limit}
    # JSON has no infinity: Python writes it as a word, which is a text here, or unknown.
    rate = None if rate == "inf" else number(said, "request_rate")
    if min(rate or 1, number(said, "max_concurrency") or 1) < 0:
        raise InvalidInput(
            "This SGLang benchmark has a rate or a limit of requests below zero; run it again."
        )
    if rate:
        return {"load_profile": "poisson", "rate": rate, "concurrency": limit}
    return {"load_profile": "concurrent" if limit else "throughput", "concurrency": limit}


def _server(told: Any, accepted: Any) -> dict[str, Any]:
    """Return the server's own arguments, which SGLang's ``/server_info`` tells; of vLLM only what
    its engine made of them. ``accepted``: the mean length of acceptance."""
    if not isinstance(told, dict) or not isinstance(told.get("model_path"), str):
        config = told.get("vllm_config") if isinstance(told, dict) else None
        settings = of_vllm(config) if isinstance(config, dict) else of_text(str(config or ""))
        return {"engine_settings": settings or None}
    radix = told.get("disable_radix_cache")
    return {
        "engine": "sglang",
        "engine_version": _text(told.get("version")),
        "model": _text(told.get("served_model_name")) or told["model_path"],
        "model_revision": _text(told.get("revision")),
        "precision": _text(told.get("quantization")) or _known_dtype(told.get("dtype")),
        "gpu_count": _gpus(told),
        "tensor_parallel_size": positive(told, "tp_size"),
        "prefix_caching": None if not isinstance(radix, bool) else not radix,
        "server_args": _arguments(told) or None,
        "engine_settings": of_sglang(told) or None,
        **_speculation(told, accepted),
    }


def _gpus(told: dict[str, Any]) -> int | None:
    """Return how many GPUs serve: a replica of the model is as large as TP x PP, and data
    parallelism of the attention alone lies within it."""
    replica = positive(told, "tp_size")
    if replica is None or told.get("device", "cuda") == "cpu":
        return None
    copies = 1 if told.get("enable_dp_attention") is True else positive(told, "dp_size") or 1
    return int(replica * (positive(told, "pp_size") or 1) * copies)


def _arguments(told: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments that were given, or that SGLang chose in place of its default."""
    names = (*_ARGUMENTS, *(("dp_size",) if told.get("enable_dp_attention") is True else ()))
    given = {name: told[name] for name in names if name in told}
    return {
        name: value for name, value in given.items() if value is True or value not in _NOT_GIVEN
    }


def _speculation(told: dict[str, Any], accepted: Any) -> dict[str, Any]:
    """Return the arm: a chain of drafts is as long as its steps; a tree is told by its whole
    size."""
    if "speculative_algorithm" not in told:
        return {}
    algorithm = told["speculative_algorithm"]
    if algorithm is None:
        return {"spec_method": "none"}
    steps = positive(told, "speculative_num_steps")
    tree = positive(told, "speculative_num_draft_tokens")
    chain = number(told, "speculative_eagle_topk") in (None, 1)
    # Of the tokens that are verified together one is the last accepted.
    k = steps if chain and steps else tree - 1 if tree else None
    config = {key: told[key] for key in _SPECULATIVE if told.get(key) is not None}
    config |= {key: told[key] for key in _THRESHOLDS if (number(told, key) or 1) < 1}
    # A tree keeps its size whatever is asked for. The steps of a chain are only where it starts.
    if told.get("speculative_adaptive") is True and chain:
        config["speculative_adaptive"] = True
        k = max(k or 0, math.ceil(accepted) - 1 if is_number(accepted) else 0)
    return {
        "spec_method": _METHODS.get(str(algorithm).upper(), str(algorithm).lower()),
        "num_speculative_tokens": k or None,
        "draft_model": _text(told.get("speculative_draft_model_path")),
        "draft_revision": _text(told.get("speculative_draft_model_revision")),
        "speculative_config": config,
    }


def _known_dtype(value: Any) -> str | None:
    return None if value in (None, "auto") else _text(value)


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None
