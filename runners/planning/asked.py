"""What a study asks of one cell, as far as it decides the result: the cell's identity.

Labels, tokens, caches, limits, prices, repeats, other arms and other levels are not in it.
"""

import hashlib
import json
import re
from typing import Any

from runners.planning.datasets import Dataset
from runners.planning.loads import LoadLevel
from runners.planning.study import Study, Variant
from runners.planning.trace import Trace, replayed
from runners.surroundings.machine import public
from warehouse.secrets.shapes import is_secret_name

#: Where files lie, who is told, what is written: a result does not depend on it.
_IDLE = re.compile(
    r"^(HF_|HUGGING|TRANSFORMERS_OFFLINE$|VLLM_(NO_USAGE_STATS|DO_NOT_TRACK|LOG|CACHE_ROOT)"
    r"|DO_NOT_TRACK$|HOME$|TMPDIR$|.*_PROXY$|.*_CACHE$|.*_CACHE_DIR$)",
    re.IGNORECASE,
)
_CACHING = "enable_prefix_caching"
_LABELS = {"served_model_name", "api_key"}


def asked(
    study: Study, variant: Variant, size: int, dataset: Dataset, level: LoadLevel
) -> dict[str, Any]:
    """Return the facts by name, fit for a record."""
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
        "prompts": requests_at(study, dataset, level),
        **load_asked(study, level),
        "request": request,
        "window": study.window.model_dump(mode="json", exclude_none=True),
        "prefix_cache": study.prefix_cache,
        "environment": telling({**study.environment, **variant.environment}),
        "cpus": None if study.cpus is None else study.cpus.model_dump(mode="json"),
    }
    if study.engine != "vllm":  # What was measured before engines were told apart stays as it is.
        said["engine"] = study.engine
    fit_to_publish: dict[str, Any] = public(said)
    return fit_to_publish


def load_asked(study: Study, level: LoadLevel) -> dict[str, Any]:
    """Return what decides the result of a load; a trace by its content."""
    if level.at_once is not None:
        return {"concurrency": level.at_once}
    said: dict[str, Any] = {"profile": level.profile, "rate": level.rate}
    if level.trace is not None:
        found = trace_of(study, level)
        said |= {"trace": found.digest, "speed": level.speed, "seconds": level.seconds}
    return {"load": said}


def trace_of(study: Study, level: LoadLevel) -> Trace:
    """Return the trace that a level replays. Raises StudyError where it cannot be."""
    assert level.trace is not None
    return replayed(study.file(level.trace), level.speed, level.seconds)


def requests_at(study: Study, dataset: Dataset, level: LoadLevel) -> int:
    """Return how many requests a level sends. Raises StudyError where a trace cannot be read."""
    if level.trace is not None:
        return len(trace_of(study, level).arrivals)
    return dataset.prompts_at(level)


def server_arguments(given: dict[str, Any]) -> dict[str, Any]:
    """Return engine arguments by names with underscores; ``no_enable_…: true`` said as its
    opposite."""
    named = {name.lstrip("-").replace("-", "_"): value for name, value in given.items()}
    if named.pop(f"no_{_CACHING}", False):
        named[_CACHING] = False
    return {
        name: value
        for name, value in named.items()
        if name not in _LABELS and not is_secret_name(name)
    }


def telling(environment: dict[str, str]) -> dict[str, str]:
    """Return the variables that may change a result."""
    return {
        name: value
        for name, value in environment.items()
        if not _IDLE.match(name) and not is_secret_name(name)
    }


def fingerprint(facts: dict[str, Any]) -> str:
    """Return a short name for the facts."""
    text = json.dumps(facts, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
