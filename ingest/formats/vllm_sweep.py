"""One run of a ``vllm bench sweep serve`` folder.

The sweep writes ``SERVE-…-BENCH-…/run=N.json``: a ``vllm bench serve`` result to which it adds
``run_number`` and every parameter it varied. ``summary.json`` beside it repeats the runs and
``warmup.json`` is not a measurement; both are left out when a folder is searched.
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from ingest.formats import vllm_bench
from ingest.level import cell_of
from ingest.model import Context, FileContent, Parsed
from ingest.settings import config_of, facts_of, is_of_speculation
from ingest.stated import UNREADABLE, head_of
from warehouse.errors import InvalidInput, UnknownKey

NAME, KIND = "vllm-sweep", "a run of a vllm bench sweep"

#: Varied parameters that are facts of their own; every other one of the server is an argument.
_FACTS = {
    "tensor_parallel_size": "tensor_parallel_size",
    "dtype": "precision",
    "revision": "model_revision",
    "enable_prefix_caching": "prefix_caching",
    "max_concurrency": "concurrency",
    "temperature": "temperature",
    "top_p": "top_p",
    "ignore_eos": "ignore_eos",
    "seed": "seed",
}
#: What ``vllm bench serve`` itself writes or takes: not an argument of the server.
_OF_THE_BENCH = frozenset(
    {"run_number", "_benchmark_name", "date", "label", "model_id", "tokenizer_id", "duration",
     "completed", "failed", "rtfx", "max_output_tokens_per_s", "max_concurrent_requests",
     "num_prompts", "request_rate", "burstiness", "request_goodput", "backend", "endpoint_type",
     "total_input_tokens", "total_output_tokens", "input_len", "output_len", "dataset_name",
     "dataset_path", "num_warmups", "best_of", "use_beam_search", "goodput"}
)  # fmt: skip
_BENCH_PREFIXES = ("random_", "sharegpt_", "sonnet_", "hf_", "spec_bench_", "custom_", "steady_")


def sniff(data: memoryview) -> bool:
    """Recognise a ``vllm bench serve`` result with the sweep's run number."""
    return vllm_bench.is_result(data) and vllm_bench.is_of_sweep(data)


def parse(content: FileContent, context: Context) -> Parsed:
    """Read one run of the sweep, which is one cell. Raises InvalidInput."""
    if head_of(content.data)[:1] == b"[":
        raise InvalidInput(
            "This is the summary of a vllm bench sweep, which repeats its runs: give the run=N.json "
            "files that the sweep wrote beside it."
        )
    result = vllm_bench.read(content.data)
    level = vllm_bench.level_of(result)
    # What the sweep varied wins over what the result says of it.
    level = replace(level, facts=dict(level.facts) | _facts(result.config))
    return Parsed(NAME, result.config, iter([cell_of(level, context)]))


def is_by_product(path: Path) -> bool:
    """Return whether a file of a sweep's folder repeats or warms up what its ``run=N.json`` say."""
    if path.name not in {"summary.json", "warmup.json"}:
        return False
    return next(path.parent.glob("run=*.json"), None) is not None


def check_not_failure(content: FileContent) -> None:
    """Raise InvalidInput with the sweep's own words where the file records a failed run."""
    if not content.path.name.endswith("failure.json"):
        return
    try:
        failure = msgspec.json.decode(content.data, type=dict[str, Any])
    except UNREADABLE:
        return
    why = " ".join(f"{failure.get('error_type', 'error')}: {failure.get('error', '')}".split())
    raise InvalidInput(f"The sweep recorded that this run failed ({why[:300]}); run it again.")


def _facts(config: Mapping[str, Any]) -> dict[str, Any]:
    given = {
        key if key.startswith("_") else key.lstrip("-").replace("-", "_"): value
        for key, value in config.items()
    }
    options = {
        key: key.replace("_", "-")
        for key in given
        if key not in (*_FACTS, *_OF_THE_BENCH) and not key.startswith(_BENCH_PREFIXES)
    }
    speculation = {name: given[key] for key, name in options.items() if is_of_speculation(name)}
    arguments = {key: given[key] for key, name in options.items() if name not in speculation}
    facts = {fact: given.get(key) for key, fact in _FACTS.items()} | {
        "repeat": given.get("run_number"),
        "arm": given.get("_benchmark_name"),
        "dataset": _dataset(given),
        "server_args": arguments or None,
        **(_speculation(speculation) if speculation else {}),
    }
    return {key: value for key, value in facts.items() if value is not None}


def _dataset(given: Mapping[str, Any]) -> str | None:
    """Name the prompts by what the sweep varied of them: lengths that differ are never repeats."""
    name = given.get("dataset_name")
    lengths = given.get("random_input_len"), given.get("random_output_len")
    if None not in lengths:
        return f"{name or 'random'} {lengths[0]}/{lengths[1]}"
    file = Path(str(given.get("dataset_path") or "")).name
    varied = [
        f"{key}={given[key]}"
        for key in sorted(given)
        if key in ("input_len", "output_len") or key.startswith(_BENCH_PREFIXES)
    ]
    return " ".join([*([str(name)] if name else []), *([file] if file else []), *varied]) or None


def _speculation(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arm from ``speculative-config``, an object or JSON text, or from its members, such as
    ``speculative-config.num-speculative-tokens``; empty or null is a baseline.
    """
    texts = {
        option: value if isinstance(value, str) else msgspec.json.encode(value).decode()
        for option, value in options.items()
    }
    try:
        return facts_of(config_of(texts)) or {"spec_method": "none"}
    except UnknownKey:
        return {}
