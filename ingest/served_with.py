"""What the command line of a server says of an arm: ``vllm serve MODEL --speculative-config …``."""

import json
import shlex
from typing import Any

from ingest.speculation import facts_of
from warehouse.errors import UnknownKey

#: Options that are facts of their own; every other one is an argument of the server.
_FACTS = {
    "tensor-parallel-size": "tensor_parallel_size",
    "tp": "tensor_parallel_size",
    "dtype": "precision",
    "quantization": "precision",
    "revision": "model_revision",
    "served-model-name": "model",
}
_SHORT = {"-tp": "tensor-parallel-size", "-q": "quantization"}
_HINT = "write it as it was called, e.g. 'vllm serve MODEL --tensor-parallel-size 2'"


def served_with(command: str) -> dict[str, Any]:
    """Return the facts of a ``vllm serve`` command; without a speculation it served a baseline.

    Raises UnknownKey with one sentence where it is no such command.
    """
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise UnknownKey(f"The command line {command[:80]!r} has {error}; {_HINT}.") from None
    if "serve" not in words:
        raise UnknownKey(f"The command line {command[:80]!r} has no 'vllm serve'; {_HINT}.")
    model, options = _read(words[words.index("serve") + 1 :])
    facts: dict[str, Any] = {"engine": "vllm", "model": model or options.get("model")}
    for option, fact in _FACTS.items():
        if isinstance(options.get(option), str) and options[option] != "auto":
            facts[fact] = options[option]
    if "enable-prefix-caching" in options:
        facts["prefix_caching"] = options["enable-prefix-caching"] is True
    others = {k: v for k, v in options.items() if k not in (*_FACTS, *_OF_THE_ARM)}
    facts |= _speculation(options.get("speculative-config")) | {"server_args": others or None}
    return {key: value for key, value in facts.items() if value is not None}


_OF_THE_ARM = ("model", "speculative-config", "enable-prefix-caching", "host", "port", "api-key")


def _read(words: list[str]) -> tuple[str | None, dict[str, Any]]:
    """Return the positional model, and options by their long names; ``--no-…`` is False."""
    model: str | None = None
    options: dict[str, Any] = {}
    while words:
        word = words.pop(0)
        if not word.startswith("-"):
            model = model or word
            continue
        name, equals, value = word.partition("=")
        name = _SHORT.get(name, name.lstrip("-").replace("_", "-"))
        if equals:
            options[name] = value
        elif words and not words[0].startswith("-"):
            options[name] = words.pop(0)
        elif name.startswith("no-"):
            options[name.removeprefix("no-")] = False
        else:
            options[name] = True
    return model, options


def _speculation(text: Any) -> dict[str, Any]:
    if text is None:
        return {"spec_method": "none"}
    try:
        config = json.loads(str(text))
    except ValueError:
        config = None
    if not isinstance(config, dict):
        raise UnknownKey(
            f"--speculative-config {str(text)[:80]!r} is no JSON object; quote it as the shell did."
        )
    return facts_of(config)
