"""What a vLLM ``--speculative-config`` says of an arm, in the contract's words."""

import json
import re
import shlex
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
#: IngestOptions that give one member of it: vLLM's short forms, then those of releases without it.
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
#: IngestOptions that begin alike and turn no speculation on.
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
    # Dashes of its members' names are underscores to vLLM.
    config = {str(key).replace("-", "_"): value for key, value in config.items()}
    if config.get("method") is None and config.get("model") in _NGRAM:
        del config["model"]
        config["method"] = "ngram"
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
    config: dict[str, Any] | None = None
    for option, value in options.items():
        if is_of_speculation(option) and not (option == _CONFIG and value in _NONE):
            config = (config or {}) | _members(option, value)
    return config


def _members(option: str, value: Any) -> dict[str, Any]:
    """Return the members of the configuration that one option gives: ``{"a": {"b": value}}`` of
    ``--speculative-config.a.b value``."""
    name, _, path = option.partition(".")
    is_member = name in _MEMBERS and not path
    if not isinstance(value, str) or not (is_member or name == _CONFIG):
        raise UnknownKey(
            f"The option --{option} may be about speculation, and it is not known what it says; "
            f"""write it as --{_CONFIG} '{{"method": …, "num_speculative_tokens": …}}'."""
        )
    told: Any = _value(value)
    if is_member:
        return {_MEMBERS[name]: told}
    for key in reversed(path.replace("-", "_").split(".") if path else []):
        told = {key: told}
    if not isinstance(told, dict):
        raise UnknownKey(
            f"--{_CONFIG} {value[:80]!r} is no JSON object; quote it as the shell did."
        )
    return told


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


# --- What the command line of a server says of an arm: ``vllm serve MODEL --speculative-config …``.


#: IngestOptions that are facts of their own; every other one is an argument of the server.
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
#: IngestOptions that take no value, of vLLM 0.32 and before: by how they begin, and the others.
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
    if config is None and "config" in options:
        raise UnknownKey(
            f"The command line takes options from --config {options['config']}, which may turn "
            "speculation on; write them out in its place."
        )
    served = str(facts["model"])
    if config is None and "speculator" in served.rstrip("/").rpartition("/")[2].lower():
        raise UnknownKey(
            f"The model {served!r} seems to bring a speculation of its own; write the model that "
            f"it drafts for, and --speculative-config with {served!r} as its model."
        )
    facts |= _of_options(options)
    facts |= {"spec_method": "none"} if config is None else facts_of(config)
    return {key: value for key, value in facts.items() if value is not None}


def of_arguments(args: Mapping[str, Any]) -> dict[str, Any]:
    """Return the facts that listed arguments of a vLLM server state: ``{"--max-num-seqs": 8}``.

    They may not be all, so a server without a speculation among them is not taken for a baseline.
    Raises UnknownKey where one may be about a speculation and does not say which.
    """
    words = []
    for name, said in args.items():
        word = name if name.startswith("-") else f"--{name}"
        if said is not None and said is not True and said != "":
            word += f"={said}" if isinstance(said, str) else f"={json.dumps(said)}"
        words.append(word)
    _, options = _read(words)
    return _of_options(options) | facts_of(config_of(options))


def _of_options(options: Mapping[str, Any]) -> dict[str, Any]:
    facts: dict[str, Any] = {}
    for option, fact in _FACTS.items():
        if isinstance(options.get(option), str) and options[option] != "auto":
            facts[fact] = options[option]
    if isinstance(options.get("enable-prefix-caching"), bool):
        facts["prefix_caching"] = options["enable-prefix-caching"]
    others = {
        option: value
        for option, value in options.items()
        if option not in (*_FACTS, *_OF_THE_ARM) and not is_of_speculation(option)
    }
    return facts | ({"server_args": others} if others else {})


def _arguments(command: str) -> list[str]:
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


def _read(words: list[str]) -> tuple[str | None, dict[str, Any]]:
    """Return the positional model, and options by their long names; ``--no-…`` is False."""
    model: str | None = None
    options: dict[str, Any] = {}
    while words:
        word = words.pop(0)
        if not word.startswith("-"):
            if word.startswith(("$", "`")):
                raise UnknownKey(
                    f"{word[:80]!r} in the command line stands for what only its shell knew; write it "
                    "out."
                )
            model = model or word
            continue
        name, equals, value = word.partition("=")
        # What follows a dot is a member of the option's value.
        option, dot, member = name.partition(".")
        name = (_SHORT.get(option, option.lstrip("-")) + dot + member).replace("_", "-")
        is_switch = name in _MORE_SWITCHES or bool(_SWITCHES.match(name))
        is_switch &= name not in _WITH_A_VALUE
        told: Any = value if equals else True
        if not equals and words and not words[0].startswith("-"):
            told = True if is_switch and words[0].lower() not in _SAID else words.pop(0)
        if is_switch:
            told = _SAID.get(str(told).lower(), told)
        if name.startswith("no-") and told is True:
            name, told = name.removeprefix("no-"), False
        options[name] = told
    return model, options
