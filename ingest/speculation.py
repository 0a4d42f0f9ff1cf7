"""What a vLLM ``--speculative-config`` says of an arm, in the contract's words."""

import json
import re
from collections.abc import Mapping
from typing import Any

from warehouse.errors import UnknownKey

_NAMES = {
    "method": "spec_method",
    "num_speculative_tokens": "num_speculative_tokens",
    "model": "draft_model",
    "revision": "draft_revision",
}
_CONFIG = "speculative-config"
#: Options that give one member of it: vLLM's short forms, then those of releases without it.
_MEMBERS = {
    "spec-method": "method",
    "spec-model": "model",
    "spec-tokens": "num_speculative_tokens",
    "speculative-model": "model",
    "num-speculative-tokens": "num_speculative_tokens",
    "speculative-model-quantization": "quantization",
    "speculative-draft-tensor-parallel-size": "draft_tensor_parallel_size",
    "speculative-max-model-len": "max_model_len",
    "speculative-disable-by-batch-size": "disable_by_batch_size",
    "spec-decoding-acceptance-method": "acceptance_method",
    "ngram-prompt-lookup-max": "prompt_lookup_max",
    "ngram-prompt-lookup-min": "prompt_lookup_min",
}
#: vLLM takes every beginning of an option that only one option has: ``-s``, ``--specul``.
_MAY_SPECULATE = re.compile(r"(?:^|-)spec|^s$")
#: Options that begin alike and turn no speculation on.
_OTHERS = ("specialize-active-lora", "per-request-spec-decode-metrics",
           "speculative-disable-mqa-scorer", "disable-logprobs-during-spec-decoding")  # fmt: skip
#: What vLLM takes for no configuration.
_NONE = ("", "None")
#: What older releases take as a draft model, and mean the method.
_NGRAM = ("ngram", "[ngram]")


def facts_of(config: dict[str, Any] | None) -> dict[str, Any]:
    """Return the facts that follow from a speculative configuration; empty where it says
    nothing."""
    if not config:
        return {}
    config = _as_vllm_reads(config)
    facts = {fact: config[key] for key, fact in _NAMES.items() if config.get(key) is not None}
    facts["speculative_config"] = config
    if config.get("rejection_sample_method") == "synthetic":
        facts["synthetic_acceptance"] = True
    return facts


def completed(facts: dict[str, Any]) -> dict[str, Any]:
    """Add to facts what their ``speculative_config`` implies; what was stated itself wins."""
    config = facts.get("speculative_config")
    return facts_of(config if isinstance(config, dict) else None) | facts


def is_of_speculation(option: str) -> bool:
    """Return whether an option of a server, by its long name, is or may be about speculation."""
    name = option.split(".")[0]
    return name in _MEMBERS or (name not in _OTHERS and bool(_MAY_SPECULATE.search(name)))


def config_of(options: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the speculative configuration that the options of a server make up; None for none.

    Raises UnknownKey with one sentence where an option may be about speculation and says nothing
    that is known here.
    """
    told = {
        option: value for option, value in options.items()
        if is_of_speculation(option) and not (option == _CONFIG and value in _NONE)
    }  # fmt: skip
    if not told:
        return None
    config: dict[str, Any] = {}
    for option, value in told.items():
        config |= _members(option, value)
    return config


def _members(option: str, value: Any) -> dict[str, Any]:
    """Return the members of the configuration that one option gives."""
    name, _, path = option.partition(".")
    is_member = name in _MEMBERS and not path
    if not isinstance(value, str) or not (is_member or name == _CONFIG):
        raise UnknownKey(
            f"The option --{option} may be about speculation, and it is not known what it says; "
            f"""write it as --{_CONFIG} '{{"method": …, "num_speculative_tokens": …}}'."""
        )
    if is_member:
        return {_MEMBERS[name]: _value(value)}
    return _nested(path.replace("-", "_").split("."), value) if path else _object(value)


def _nested(keys: list[str], value: str) -> dict[str, Any]:
    """Return ``{"a": {"b": value}}`` for the option ``--speculative-config.a.b value``."""
    told: Any = _value(value)
    for key in reversed(keys):
        told = {key: told}
    return dict(told)


def _object(text: str) -> dict[str, Any]:
    config = _value(text)
    if not isinstance(config, dict):
        raise UnknownKey(f"--{_CONFIG} {text[:80]!r} is no JSON object; quote it as the shell did.")
    return config


def _value(text: str) -> Any:
    """Return what a text is as JSON; itself where it is none."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def _as_vllm_reads(config: dict[str, Any]) -> dict[str, Any]:
    """Return a configuration with the names that vLLM gives its members, whose dashes it takes for
    underscores."""
    read = {str(key).replace("-", "_"): value for key, value in config.items()}
    if read.get("method") is None and read.get("model") in _NGRAM:
        return {key: value for key, value in read.items() if key != "model"} | {"method": "ngram"}
    return read
