"""vLLM: ``vllm serve``; its counters tell drafts, its metrics the KV cache."""

from runners.planning.study import Study, Variant
from runners.planning.vllm_command import server_command
from runners.serving.agreement import Said, cache_labels, counters, models, version
from runners.serving.engines.engine import Engine
from runners.surroundings.tools import tool

#: The first vLLM that takes --per-request-spec-decode-metrics.
_PER_REQUEST_SINCE = (0, 32)


def command(study: Study, variant: Variant, size: int) -> list[str]:
    """Return the command line ``vllm serve …`` as the installed release takes it."""
    since = _numbers(tool(study, "vllm").version) >= _PER_REQUEST_SINCE
    return server_command(study, variant, size, since)


def said(url: str, metrics: str) -> Said:
    """Return what vLLM shows of itself without its configuration."""
    drafts, draft_tokens = counters(metrics)
    return Said("vllm", version(url), models(url), drafts, draft_tokens, cache_labels(metrics))


def _numbers(version: str | None) -> tuple[int, ...]:
    """Return a version as two numbers, "0.32.0+cpu" as (0, 32); unknown is before all others."""
    parts = (version or "").split(".")[:2]
    return tuple(int(part) for part in parts if part.isdigit())


#: Without dev mode vLLM has no route that empties the cache.
ENGINE: Engine = Engine("vllm", "vLLM", "vllm", command, {"VLLM_SERVER_DEV_MODE": "1"})
