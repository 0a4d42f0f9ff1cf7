"""Results of SGLang's ``bench_serving``: one line of JSON for each run, appended to one file.

Definitions after ``sglang/benchmark/serving.py`` of SGLang 0.5.23: its TPOT leaves out the first
token and is our ITL, its end-to-end latency is in ms, percentiles are interpolated, and throughput
is everything generated over the time of the run. Its ITL is a gap between chunks for servers that
speak OpenAI's interface, and a gap spread over the tokens of its chunk for SGLang's own. A server that
reports no usage is taken to have generated what was asked for; the texts, counted anew, tell.
"""

import math
import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from ingest.engine_settings import of_sglang, of_text, of_vllm
from ingest.level import (
    DIFFER,
    LevelReport,
    LevelRequests,
    cells_of,
    error_rate,
    flat,
    is_number,
    left_out,
    reported,
    reported_flat,
)
from ingest.model import Context, FileContent, Parsed
from ingest.stated import (
    count,
    decoded_lines,
    former,
    head_of,
    number,
    positive,
    starts_object,
    text_of,
)
from warehouse.errors import InvalidInput
from warehouse.rows import Flag, Measurement
from warehouse.secrets import scrub

# --- What a line of SGLang's ``bench_serving`` says beside its measurements: server, load, dataset.


#: SGLang's algorithms under the names by which vLLM calls the same thing.
_METHODS = {"NEXTN": "mtp", "EAGLE": "eagle", "EAGLE3": "eagle3", "STANDALONE": "draft_model",
            "NGRAM": "ngram"}  # fmt: skip
_FORMATS = dict.fromkeys(
    ("sglang-oai-chat", "vllm-chat", "lmdeploy-chat"), "chat_completions"
) | dict.fromkeys(
    ("sglang", "sglang-native", "sglang-oai", "vllm", "lmdeploy", "trt", "gserver", "truss"),
    "text_completions",
)
_ENGINES = {"sglang": "sglang", "vllm": "vllm", "lmdeploy": "lmdeploy", "trt": "tensorrt-llm"}
_SPECULATIVE = ("speculative_algorithm", "speculative_num_steps", "speculative_eagle_topk",
                "speculative_num_draft_tokens", "speculative_draft_model_path",
                "speculative_draft_model_quantization", "speculative_token_map")  # fmt: skip
#: Arguments that make another server; what only names, logs or guards it is left out.
_SERVER_ARGUMENTS = (
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


def facts_of(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the facts that a line states or implies, in the contract's words; None for what it
    does not."""
    backend = str(fields.get("backend") or "")
    return {
        "engine": _ENGINES.get(backend.split("-")[0]),
        "request_format": _FORMATS.get(backend),
        "dataset": _dataset(fields),
        "arm": fields.get("tag") if isinstance(fields.get("tag"), str) else None,
        **_load(fields),
        **_server(fields.get("server_info"), fields.get("accept_length")),
    }


def _dataset(fields: Mapping[str, Any]) -> str | None:
    name = fields.get("dataset_name")
    if not isinstance(name, str) or not name.startswith(("random", "image")):
        return name if isinstance(name, str) else None
    ratio = number(fields, "random_range_ratio")
    spread = f", ratio {ratio:g}" if ratio is not None and ratio != 1 else ""
    return (
        f"{name} {count(fields, 'random_input_len')}/{count(fields, 'random_output_len')}{spread}"
    )


def _load(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the load: requests at a rate come as a Poisson process, a trace brings its own times."""
    limit, rate = positive(fields, "max_concurrency"), fields.get("request_rate")
    if rate == "trace":
        return {"load_profile": "trace", "trace": fields.get("dataset_name"), "concurrency": limit}
    # JSON has no infinity: Python writes it as a word, which is a text here, or unknown.
    rate = None if rate == "inf" else number(fields, "request_rate")
    if min(rate or 1, number(fields, "max_concurrency") or 1) < 0:
        raise InvalidInput(
            "This SGLang benchmark has a rate or a limit of requests below zero; run it again."
        )
    if rate:
        return {"load_profile": "poisson", "rate": rate, "concurrency": limit}
    return {"load_profile": "concurrent" if limit else "throughput", "concurrency": limit}


def _server(info: Any, accepted: Any) -> dict[str, Any]:
    """Return the server's own arguments, which SGLang's ``/server_info`` tells; of vLLM only what
    its engine made of them. ``accepted``: the mean length of acceptance.
    """
    if not isinstance(info, dict) or not isinstance(info.get("model_path"), str):
        config = info.get("vllm_config") if isinstance(info, dict) else None
        settings = of_vllm(config) if isinstance(config, dict) else of_text(str(config or ""))
        return {"engine_settings": settings or None}
    radix, dtype = info.get("disable_radix_cache"), info.get("dtype")
    has_dp = info.get("enable_dp_attention") is True
    # A replica of the model is as large as TP x PP, and data parallelism of the attention alone lies
    # within it.
    replica, gpus = positive(info, "tp_size"), None
    if replica is not None and info.get("device", "cuda") != "cpu":
        copies = 1 if has_dp else positive(info, "dp_size") or 1
        gpus = int(replica * (positive(info, "pp_size") or 1) * copies)
    # Arguments that were given, or that SGLang chose in place of its default.
    given = {
        name: info[name]
        for name in (*_SERVER_ARGUMENTS, *(("dp_size",) if has_dp else ()))
        if name in info and (info[name] is True or info[name] not in _NOT_GIVEN)
    }
    return {
        "engine": "sglang",
        "engine_version": text_of(info.get("version")),
        "model": text_of(info.get("served_model_name")) or info["model_path"],
        "model_revision": text_of(info.get("revision")),
        "precision": text_of(info.get("quantization"))
        or (None if dtype == "auto" else text_of(dtype)),
        "gpu_count": gpus,
        "tensor_parallel_size": replica,
        "prefix_caching": None if not isinstance(radix, bool) else not radix,
        "server_args": given or None,
        "engine_settings": of_sglang(info) or None,
        **_speculation(info, accepted),
    }


def _speculation(info: Mapping[str, Any], accepted: Any) -> dict[str, Any]:
    """Return the arm: a chain of drafts is as long as its steps; a tree is told by its whole size."""
    if "speculative_algorithm" not in info:
        return {}
    algorithm = info["speculative_algorithm"]
    if algorithm is None:
        return {"spec_method": "none"}
    steps = positive(info, "speculative_num_steps")
    tree = positive(info, "speculative_num_draft_tokens")
    chain = number(info, "speculative_eagle_topk") in (None, 1)
    # Of the tokens that are verified together one is the last accepted.
    k = steps if chain and steps else tree - 1 if tree else None
    config = {key: info[key] for key in _SPECULATIVE if info.get(key) is not None}
    # Below 1 they accept what the target model would not have said; 1 is what is not asked for.
    config |= {
        key: info[key]
        for key in ("speculative_accept_threshold_single", "speculative_accept_threshold_acc")
        if (number(info, key) or 1) < 1
    }
    # A tree keeps its size whatever is asked for. The steps of a chain are only where it starts.
    if info.get("speculative_adaptive") is True and chain:
        config["speculative_adaptive"] = True
        k = max(k or 0, math.ceil(accepted) - 1 if is_number(accepted) else 0)
    return {
        "spec_method": _METHODS.get(str(algorithm).upper(), str(algorithm).lower()),
        "num_speculative_tokens": k or None,
        "draft_model": text_of(info.get("speculative_draft_model_path")),
        "draft_revision": text_of(info.get("speculative_draft_model_revision")),
        "speculative_config": config,
    }


# --- Results of SGLang's ``bench_serving``: one line of JSON for each run, appended to one file.


NAME, KIND = "sglang-bench", "a result of SGLang's bench_serving"

_HEAD, _ARGUMENTS = 1 << 20, 1 << 12
_ENDLESS = b'"request_rate": Infinity'
_MARKS = (b"max_concurrency", b"sharegpt_output_len", b"random_range_ratio")
_RATES = {"output_throughput": "output_throughput", "total_throughput": "total_throughput",
          "request_throughput": "request_throughput", "achieved_concurrency": "concurrency",
          "mean_acceptance_length": "accept_length"}  # fmt: skip
_LATENCIES = {"ttft": ("ttft_ms", 1.0), "itl": ("tpot_ms", 1.0),
              "request_latency": ("e2e_latency_ms", 1e-3)}  # fmt: skip
#: Numbers that are read, follow from what is, or say what was asked for.
_KNOWN = re.compile(
    r"(mean|median|std|p\d+|max)_(e2e_latency|ttft|tpot|itl)_ms|\w*throughput|concurrency|duration|"
    r"completed|accept_length|request_rate|(random|sharegpt|image|gsp|total|max|num|cache|server_info)\w*|seed"
)
_OWN_INTERFACE = ("sglang", "sglang-native")


class Details(msgspec.Struct):
    """The lists of ``--output-details``: one member for each request."""

    input_lens: list[int | None] | None = None
    output_lens: list[int] | None = None
    ttfts: list[float] | None = None
    itls: list[list[float]] | None = None
    generated_texts: list[str | None] | None = None
    errors: list[str | None] | None = None


_LISTS = (*Details.__struct_fields__, "cached_tokens", "cached_tokens_details")
_Decoded = tuple[dict[str, Any], Details]


def sniff(data: memoryview) -> bool:
    """Recognise the arguments of a run, which stand before anything that can be long."""
    return starts_object(head_of(data, _HEAD), *_MARKS)


def parse(content: FileContent, context: Context) -> Parsed:
    """Read a file; each line is a cell. Raises InvalidInput."""
    runs = list(decoded_lines(content.data, _decode, KIND))
    config = [
        {key: value for key, value in fields.items() if not key.endswith("_ms")}
        for _, ((fields, _), _) in runs
    ]
    cells = cells_of("Line", runs, _level, context)
    return Parsed(NAME, {"runs": config}, cells, former(content.data))


def _decode(data: bytes | memoryview) -> _Decoded:
    # Python writes a rate without a bound as Infinity, which is no JSON; only here it is meant.
    if _ENDLESS in bytes(data[:_ARGUMENTS]):
        data = bytes(data).replace(_ENDLESS, b'"request_rate": "inf"', 1)
    raw = msgspec.json.decode(data, type=dict[str, msgspec.Raw])
    kept = {key: msgspec.json.decode(value) for key, value in raw.items() if key not in _LISTS}
    return scrub(kept), msgspec.json.decode(data, type=Details)


def _level(run: tuple[_Decoded, tuple[Flag, ...]]) -> LevelReport:
    (fields, details), flags = run
    completed, length = count(fields, "completed"), number(fields, "duration")
    if completed is None or length is None:
        raise InvalidInput(
            "This SGLang benchmark has no 'completed' or no 'duration', each a number: the run was cut "
            "short; run it again."
        )
    requests = _requests(details)
    failed = None if requests is None else sum(error is not None for error in requests.errors)
    return LevelReport(
        generator=NAME,
        facts=facts_of(fields),
        reported=_reported(fields, completed, failed),
        completed=completed,
        errored=failed or 0,
        duration=length,
        flags=(*flags, *left_out(fields, _KNOWN), *overcounted(fields)),
        requests=requests,
    )


def overcounted(fields: Mapping[str, Any]) -> Iterator[Flag]:
    """Yield a flag where more output tokens are counted than the texts hold."""
    counted, held = fields.get("total_output_tokens"), fields.get("total_output_tokens_retokenized")
    if fields.get("backend") in _OWN_INTERFACE or not is_number(counted) or not is_number(held):
        return
    # Texts that are tokenised again give some tokens more or fewer than were generated.
    if held > 0 and counted > 1.2 * held:
        yield Flag(
            "tokens_as_asked_for",
            "warning",
            f"{counted:,.0f} output tokens are counted, and the texts hold {held:,.0f}: the server may have "
            "reported no usage, and then those asked for were counted, not those generated, so ITL is too "
            "low and output tokens per second are too many. Texts without a model's reasoning look alike.",
        )


def spreads(fields: Mapping[str, Any], accepted: str) -> bool:
    """Return whether the ITL of a run is a gap spread over the tokens of its chunk: that of SGLang's own
    interface, and with speculation."""
    return fields.get("backend") in _OWN_INTERFACE or bool(fields.get(accepted))


def _reported(fields: Mapping[str, Any], done: int, failed: int | None) -> Iterator[Measurement]:
    for metric, name in _RATES.items():
        yield from reported(metric, fields.get(name))
    yield from reported_flat(fields, _LATENCIES)
    if not spreads(fields, "accept_length"):
        yield from reported("chunk_gap", flat(fields, "itl_ms"))
    # Left at 0 where rounds of a conversation follow one another.
    totals = {"prompt_tokens": fields.get("total_input_tokens") or None,
              "output_tokens": fields.get("total_output_tokens")}  # fmt: skip
    for metric, total in totals.items() if done > 0 else ():
        # What is no number goes on as it is, to be judged there.
        yield from reported(metric, total / done if is_number(total) else total)
    yield from error_rate(done, failed)


def _requests(details: Details) -> LevelRequests | None:
    """Return the requests of ``--output-details``, which do not say when they began."""
    if details.ttfts is None or details.output_lens is None:
        return None
    lengths = details.output_lens
    gaps = details.itls or [[] for _ in lengths]
    info = details.errors or [None] * len(lengths)
    if len({len(one) for one in (lengths, gaps, info, details.ttfts)}) > 1:
        raise InvalidInput(DIFFER)
    first, ends, errors = [], [], []
    for ttft, gap, error, length in zip(details.ttfts, gaps, info, lengths, strict=True):
        # A request that failed has no output; one that was cut off says so in words.
        failed = bool(error) or not length
        errors.append((error or "no output") if failed else None)
        first.append(None if failed else ttft)
        ends.append(None if failed else ttft + sum(gap))
    texts = details.generated_texts
    return LevelRequests(
        columns={
            "first_token": first, "last_token": ends, "end": ends,
            "prompt_tokens": details.input_lens, "output_tokens": lengths,
        },
        errors=errors,
        more={"output": texts} if texts and len(texts) == len(lengths) else {},
        timed=False,
    )  # fmt: skip
