"""What a study asks of one cell, as far as it decides the result: the cell's identity.

Labels, tokens, caches, limits, prices, repeats, other arms and other levels are not in it.
"""

import hashlib
import json
import re
from typing import Any

from runners.planning.study import Dataset, Study, Variant
from runners.surroundings.privacy import public
from warehouse.secrets.names import is_secret_name

#: Where files lie, who is told, what is written: a result does not depend on it.
_IDLE = re.compile(
    r"^(HF_|HUGGING|TRANSFORMERS_OFFLINE$|VLLM_(NO_USAGE_STATS|DO_NOT_TRACK|LOG|CACHE_ROOT)"
    r"|DO_NOT_TRACK$|HOME$|TMPDIR$|.*_PROXY$|.*_CACHE$|.*_CACHE_DIR$)",
    re.IGNORECASE,
)
_CACHING = "enable_prefix_caching"
_LABELS = {"served_model_name", "api_key"}


def asked(
    study: Study, variant: Variant, size: int, dataset: Dataset, concurrency: int
) -> dict[str, Any]:
    """The facts by name, fit for a record."""
    request = study.request.model_dump(mode="json")
    request["max_tokens"] = dataset.max_tokens or study.request.max_tokens
    said = {
        "model": study.target.model,
        "revision": study.target.revision,
        "tokenizer": study.target.tokenizer,
        "server_args": server_arguments({**study.target.engine_args, **variant.engine_args}),
        "speculative_config": variant.speculative_config,
        "tensor_parallel_size": size,
        "dataset": dataset.model_dump(
            mode="json", include={"hub", "file", "generator", "field", "filter", "shuffle_seed"}
        ),
        "prompts": dataset.prompts_at(concurrency),
        "concurrency": concurrency,
        "request": request,
        "window": study.window.model_dump(mode="json"),
        "prefix_cache": study.prefix_cache,
        "environment": telling(study.environment),
        "cpus": None if study.cpus is None else study.cpus.model_dump(mode="json"),
    }
    fit_to_publish: dict[str, Any] = public(said)
    return fit_to_publish


def server_arguments(given: dict[str, Any]) -> dict[str, Any]:
    """Engine arguments by names with underscores; ``no_enable_…: true`` said as its opposite."""
    named = {name.lstrip("-").replace("-", "_"): value for name, value in given.items()}
    if named.pop(f"no_{_CACHING}", False):
        named[_CACHING] = False
    return {
        name: value
        for name, value in named.items()
        if name not in _LABELS and not is_secret_name(name)
    }


def telling(environment: dict[str, str]) -> dict[str, str]:
    """The variables that may change a result."""
    return {
        name: value
        for name, value in environment.items()
        if not _IDLE.match(name) and not is_secret_name(name)
    }


def fingerprint(facts: dict[str, Any]) -> str:
    """A short name for the facts."""
    text = json.dumps(facts, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
