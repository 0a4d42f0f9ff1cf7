"""What a line of SGLang's ``bench_serving`` says beside its measurements: server, load, dataset."""

from typing import Any

from ingest.stated import count, number, positive
from warehouse.errors import InvalidInput

#: SGLang's algorithms under the names by which vLLM calls the same thing.
_METHODS = {"NEXTN": "mtp", "EAGLE": "eagle", "EAGLE3": "eagle3", "STANDALONE": "draft_model",
            "NGRAM": "ngram"}  # fmt: skip
_CHAT = ("sglang-oai-chat", "vllm-chat", "lmdeploy-chat")
_TEXT = ("sglang", "sglang-native", "sglang-oai", "vllm", "lmdeploy", "trt", "gserver", "truss")
_ENGINES = {"sglang": "sglang", "vllm": "vllm", "lmdeploy": "lmdeploy", "trt": "tensorrt-llm"}
_SPECULATIVE = ("speculative_algorithm", "speculative_num_steps", "speculative_eagle_topk",
                "speculative_num_draft_tokens", "speculative_draft_model_path")  # fmt: skip


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
        **_server(said.get("server_info")),
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


def _server(told: Any) -> dict[str, Any]:
    """Return the server's own arguments, which SGLang's ``/server_info`` tells; nothing of other
    servers."""
    if not isinstance(told, dict) or not isinstance(told.get("model_path"), str):
        return {}
    radix = told.get("disable_radix_cache")
    return {
        "engine": "sglang",
        "engine_version": _text(told.get("version")),
        "model": _text(told.get("served_model_name")) or told["model_path"],
        "model_revision": _text(told.get("revision")),
        "precision": _text(told.get("quantization")) or _known_dtype(told.get("dtype")),
        "tensor_parallel_size": positive(told, "tp_size"),
        "prefix_caching": None if not isinstance(radix, bool) else not radix,
        **_speculation(told),
    }


def _speculation(told: dict[str, Any]) -> dict[str, Any]:
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
    return {
        "spec_method": _METHODS.get(str(algorithm).upper(), str(algorithm).lower()),
        "num_speculative_tokens": k or None,
        "draft_model": _text(told.get("speculative_draft_model_path")),
        "draft_revision": _text(told.get("speculative_draft_model_revision")),
        "speculative_config": {key: told[key] for key in _SPECULATIVE if told.get(key) is not None},
    }


def _known_dtype(value: Any) -> str | None:
    return None if value in (None, "auto") else _text(value)


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None
