"""What each engine calls the series of its ``/metrics``, under one name for all: vLLM's.

vLLM 0.32, SGLang 0.5 (its metrics collector) and llama.cpp's server (b11549); times and histograms
are left out, and so are averages that stand where another engine counts: nothing can be taken from
them for one load.
"""

import re

ENGINES: tuple[str, ...] = ("vllm", "sglang", "llamacpp")
#: Prefix of what the runners' sampler adds to what a server says.
OWN = "draftboard"
_PREFIX = re.compile(rf"^({'|'.join(ENGINES)}):", re.MULTILINE)
_SAME: dict[str, dict[str, str]] = {
    "sglang": {
        "num_running_reqs": "num_requests_running",
        "num_queue_reqs": "num_requests_waiting",
        "token_usage": "kv_cache_usage_perc",
        "num_retracted_requests": "num_preemptions",
    },
    "llamacpp": {
        "requests_processing": "num_requests_running",
        "requests_deferred": "num_requests_waiting",
        "tokens_predicted": "generation_tokens",
    },
}


def one_name(engine: str, name: str) -> str:
    """Return the common name of an engine's series: ``("llamacpp", "tokens_predicted_total")`` as
    ``generation_tokens``."""
    plain = name.removesuffix("_total")
    return _SAME.get(engine, {}).get(plain, plain)


def engine_in(metrics: str) -> str | None:
    """Return whose ``/metrics`` these are, by the prefix of its series; None for others'."""
    found = _PREFIX.search(metrics)
    return None if found is None else found[1]
