"""What the command line of a server says of an arm: ``vllm serve MODEL --speculative-config …``."""

import json
import re
import shlex
from collections.abc import Mapping
from typing import Any

from ingest.speculation import config_of, facts_of, is_of_speculation
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
_OF_THE_ARM = ("model", "enable-prefix-caching", "host", "port", "api-key")
_SHORT = {
    "-tp": "tensor-parallel-size",
    "-q": "quantization",
    "-sc": "speculative-config",
    "-ep": "enable-expert-parallel",
    "-dph": "data-parallel-hybrid-lb",
    "-dpe": "data-parallel-external-lb",
    "-dpm": "data-parallel-multi-port-external-lb",
}
#: Options that take no value, of vLLM 0.32 and before: by how they begin, and the others.
_SWITCHES = re.compile(r"(?:no|enable|disable|enforce|trust|skip|use|return|allow)-|O\w")
_MORE_SWITCHES = frozenset(
    {"aggregate-engine-logging", "async-scheduling", "calculate-kv-scales",
     "cohere-is-reasoning-model", "cudagraph-metrics", "data-parallel-external-lb",
     "data-parallel-hybrid-lb", "data-parallel-multi-port-external-lb", "dcp-q-replicate",
     "exclude-tools-when-tool-choice-none", "fail-on-environ-validation", "fully-sharded-loras",
     "grpc", "headless", "interleave-mm-strings", "jit-monitor-verbose", "kv-cache-metrics",
     "kv-sharing-fast-prefill", "language-model-only", "log-error-stack",
     "long-prefill-token-threshold-adaptive", "mm-device-do-normalize", "mm-encoder-only",
     "multi-step-stream-outputs", "numa-bind", "ray-workers-use-nsight",
     "scheduler-reserve-full-isl", "sleep-mode-offload-cudagraph", "specialize-active-lora",
     "speculative-disable-mqa-scorer", "swa-bounded-replay", "tokens-only"}
)  # fmt: skip
_WITH_A_VALUE = ("disable-access-log-for-endpoints",)
#: Older releases take a switch with its value.
_SAID = {"true": True, "false": False}
#: What starts a server beside ``vllm serve``.
_MODULES = (
    "vllm.entrypoints.openai.api_server",
    "vllm.entrypoints.launchers.api_server.entry",
    "vllm.entrypoints.api_server",
)
_SERVES = ("vllm", "vllm.entrypoints.cli.main")
_HINT = "write it as it was called, e.g. 'vllm serve MODEL --tensor-parallel-size 2'"


def served_with(command: str) -> dict[str, Any]:
    """Return the facts of a ``vllm serve`` command; without a speculation it served a baseline.

    Raises UnknownKey with one sentence where it is no such command, or does not say whether it
    speculates.
    """
    model, options = _read(_arguments(command))
    config = config_of(options)
    facts: dict[str, Any] = {"engine": "vllm", "model": model or options.get("model")}
    if config is None:
        _require_no_other_speculation(str(facts["model"]), options)
    facts |= _of_options(options)
    facts |= {"spec_method": "none"} if config is None else facts_of(config)
    return {key: value for key, value in facts.items() if value is not None}


def of_arguments(args: Mapping[str, Any]) -> dict[str, Any]:
    """Return the facts that listed arguments of a vLLM server state: ``{"--max-num-seqs": 8}``.

    They may not be all, so a server without a speculation among them is not taken for a baseline.
    Raises UnknownKey where one may be about a speculation and does not say which.
    """
    words = [
        f"{name if name.startswith('-') else f'--{name}'}{_told(said)}"
        for name, said in args.items()
    ]
    _, options = _read(words)
    config = config_of(options)
    return _of_options(options) | ({} if config is None else facts_of(config))


def _told(said: Any) -> str:
    """Return what stands behind an option's name; a switch has nothing there."""
    if said is None or said is True or said == "":
        return ""
    return f"={said}" if isinstance(said, str) else f"={json.dumps(said)}"


def _of_options(options: Mapping[str, Any]) -> dict[str, Any]:
    facts: dict[str, Any] = {}
    for option, fact in _FACTS.items():
        if isinstance(options.get(option), str) and options[option] != "auto":
            facts[fact] = options[option]
    if isinstance(options.get("enable-prefix-caching"), bool):
        facts["prefix_caching"] = options["enable-prefix-caching"]
    others = {key: value for key, value in options.items() if _is_other(key)}
    return facts | ({"server_args": others} if others else {})


def _arguments(command: str) -> list[str]:
    """Return the words after ``vllm serve``, or after the module that does the same."""
    try:
        # To a shell a line that ends in a backslash goes on in the next one.
        words = shlex.split(re.sub(r"\\\r?\n", " ", command))
    except ValueError as error:
        raise UnknownKey(f"The command line {command[:80]!r} has {error}; {_HINT}.") from None
    for place, word in enumerate(words):
        before = words[place - 1].rpartition("/")[2] if place else ""
        if (word == "serve" and before in _SERVES) or (word in _MODULES and before == "-m"):
            return words[place + 1 :]
    raise UnknownKey(
        f"The command line {command[:80]!r} has no 'vllm serve'; {_HINT}, and tell the arm of "
        "another engine by engine and spec_method."
    )


def _require_no_other_speculation(model: str, options: Mapping[str, Any]) -> None:
    """Raise UnknownKey where a server may speculate though no option of its command says so."""
    if "config" in options:
        raise UnknownKey(
            f"The command line takes options from --config {options['config']}, which may turn "
            "speculation on; write them out in its place."
        )
    if "speculator" in model.rstrip("/").rpartition("/")[2].lower():
        raise UnknownKey(
            f"The model {model!r} seems to bring a speculation of its own; write the model that "
            f"it drafts for, and --speculative-config with {model!r} as its model."
        )


def _is_other(option: str) -> bool:
    return option not in (*_FACTS, *_OF_THE_ARM) and not is_of_speculation(option)


def _read(words: list[str]) -> tuple[str | None, dict[str, Any]]:
    """Return the positional model, and options by their long names; ``--no-…`` is False."""
    model: str | None = None
    options: dict[str, Any] = {}
    while words:
        word = words.pop(0)
        if not word.startswith("-"):
            _require_written_out(word)
            model = model or word
            continue
        name, equals, value = word.partition("=")
        name = _long(name)
        told: Any = value if equals else _next(name, words)
        if _is_switch(name):
            told = _SAID.get(str(told).lower(), told)
        if name.startswith("no-") and told is True:
            name, told = name.removeprefix("no-"), False
        options[name] = told
    return model, options


def _long(name: str) -> str:
    """Return an option's long name; what follows a dot is a member of its value."""
    option, dot, member = name.partition(".")
    return (_SHORT.get(option, option.lstrip("-")) + dot + member).replace("_", "-")


def _next(option: str, words: list[str]) -> Any:
    """Take an option's value from the words after it; True where it has none."""
    if not words or words[0].startswith("-"):
        return True
    return True if _is_switch(option) and words[0].lower() not in _SAID else words.pop(0)


def _is_switch(option: str) -> bool:
    known = option in _MORE_SWITCHES or bool(_SWITCHES.match(option))
    return known and option not in _WITH_A_VALUE


def _require_written_out(word: str) -> None:
    if word.startswith(("$", "`")):
        raise UnknownKey(
            f"{word[:80]!r} in the command line stands for what only its shell knew; write it out."
        )
