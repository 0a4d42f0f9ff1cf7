"""The command line of ``vllm serve`` for one arm; the port is filled in when the server starts."""

import json
from typing import Any

from runners.planning.study import Study, Variant

PORT = "{port}"


def server_command(
    study: Study, variant: Variant, tensor_parallel_size: int, per_request_metrics: bool = False
) -> list[str]:
    """Return the command line ``vllm serve …`` for one arm, its executable first, ``{port}`` where
    the port goes.

    ``per_request_metrics`` asks for acceptance in each response; vLLM takes that only where
    something is drafted, so a baseline never gets it.
    """
    target = study.target
    command = [
        study.executable("vllm") or study.located(study.executables.vllm),
        *("serve", study.located(target.model)),
        *("--host", "127.0.0.1", "--port", PORT),
        *("--tensor-parallel-size", str(tensor_parallel_size)),
    ]
    named = {
        "revision": target.revision,
        "tokenizer": None if target.tokenizer is None else study.located(target.tokenizer),
        "served-model-name": target.served_name,
    }
    command += _arguments({k: v for k, v in named.items() if v is not None})
    command += _arguments(study.engine_arguments(variant))
    if variant.speculative_config is not None:
        command += ["--speculative-config", json.dumps(speculative_config(study, variant))]
        if per_request_metrics:
            command += ["--per-request-spec-decode-metrics", "summary"]
    return command


def speculative_config(study: Study, variant: Variant) -> dict[str, Any] | None:
    """Return what ``--speculative-config`` gets: the study's own, with a local draft where it
    lies."""
    config = variant.speculative_config
    if config is None or "model" not in config:
        return config
    return config | {"model": study.located(str(config["model"]))}


def _arguments(named: dict[str, Any]) -> list[str]:
    words: list[str] = []
    for name, value in named.items():
        if isinstance(value, bool):
            words.append(f"--{name}" if value else f"--no-{name}")
        elif isinstance(value, (dict, list)):
            words += [f"--{name}", json.dumps(value)]
        else:
            words += [f"--{name}", str(value)]
    return words
