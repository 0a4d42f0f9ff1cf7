"""What a bare report cannot say, told by ``--set``, by a file of facts, or by a ``meta.json`` beside it."""

import difflib
import json
import re
import shlex
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any

from pydantic import ValidationError

from ingest.stated import belongs, load_yaml, shown, why
from warehouse.contract import FACT_KEYS, Facts
from warehouse.errors import InvalidInput, UnknownKey

# --- What a vLLM ``--speculative-config`` says of an arm, in the contract's words.


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


def facts_of(config: dict[str, Any] | None) -> dict[str, Any]:
    """Return the facts that follow from a speculative configuration; empty where it says
    nothing."""
    if not config:
        return {}
    # Dashes of its members' names are underscores to vLLM.
    config = {str(key).replace("-", "_"): value for key, value in config.items()}
    # What older releases take as a draft model, and mean the method.
    if config.get("method") is None and config.get("model") in ("ngram", "[ngram]"):
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
    """Return whether an option of a server may be about speculation."""
    name = option.split(".")[0]
    return name in _MEMBERS or (name not in _OTHERS and bool(_MAY_SPECULATE.search(name)))


def config_of(options: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the speculative configuration that the options of a server make up; None for none.
    Raises UnknownKey with one sentence where an option may be about speculation and says nothing
    that is known here.
    """
    config: dict[str, Any] | None = None
    for option, value in options.items():
        # What vLLM takes for no configuration.
        if is_of_speculation(option) and not (option == _CONFIG and value in ("", "None", "null")):
            config = (config or {}) | _members(option, value)
    return config


def _members(option: str, value: Any) -> dict[str, Any]:
    """Return the members of the configuration that one option gives: ``{"a": {"b": value}}`` of
    ``--speculative-config.a.b value``.
    """
    name, _, path = option.partition(".")
    is_member = name in _MEMBERS and not path
    if not isinstance(value, str) or not (is_member or name == _CONFIG):
        raise UnknownKey(
            f"The option --{option} may be about speculation, and it is not known what it says; "
            f"""write it as --{_CONFIG} '{{"method": …, "num_speculative_tokens": …}}'."""
        )
    parsed: Any = value
    with suppress(ValueError):
        parsed = json.loads(value)
    if is_member:
        return {_MEMBERS[name]: parsed}
    for key in reversed(path.replace("-", "_").split(".") if path else []):
        parsed = {key: parsed}
    if not isinstance(parsed, dict):
        raise UnknownKey(
            f"--{_CONFIG} {value[:80]!r} is no JSON object; quote it as the shell did."
        )
    return parsed


# --- What the command line of a server says of an arm: ``vllm serve MODEL --speculative-config …``.


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
#: Older releases take a switch with its value.
_SAID = {"true": True, "false": False}
#: What starts a server beside ``vllm serve``.
_MODULES = (
    "vllm.entrypoints.openai.api_server",
    "vllm.entrypoints.launchers.api_server.entry",
    "vllm.entrypoints.api_server",
)
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
    for name, value in args.items():
        word = name if name.startswith("-") else f"--{name}"
        if value is not None and value is not True and value != "":
            word += f"={value}" if isinstance(value, str) else f"={json.dumps(value)}"
        words.append(word)
    _, options = _read(words)
    return _of_options(options) | facts_of(config_of(options))


def _of_options(options: Mapping[str, Any]) -> dict[str, Any]:
    facts: dict[str, Any] = {
        fact: options[option]
        for option, fact in _FACTS.items()
        if isinstance(options.get(option), str) and options[option] != "auto"
    }
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
    for number, word in enumerate(words):
        before = words[number - 1].rpartition("/")[2] if number else ""
        if (word == "serve" and before in ("vllm", "vllm.entrypoints.cli.main")) or (
            word in _MODULES and before == "-m"
        ):
            return words[number + 1 :]
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
        is_switch &= name != "disable-access-log-for-endpoints"
        setting: str | bool = value if equals else True
        if not equals and words and not words[0].startswith("-"):
            setting = True if is_switch and words[0].lower() not in _SAID else words.pop(0)
        if is_switch:
            setting = _SAID.get(str(setting).lower(), setting)
        if name.startswith("no-") and setting is True:
            name, setting = name.removeprefix("no-"), False
        options[name] = setting
    return model, options


# --- ``--set``.


def parse_settings(pairs: Iterable[str]) -> dict[str, Any]:
    """Return validated facts from ``key=value`` texts; the last one of a key wins.

    Raises UnknownKey with one sentence where a key is unknown or a value does not fit it.
    """
    given: dict[str, Any] = {}
    for pair in pairs:
        key, equals, text = (part.strip() for part in pair.partition("="))
        if not equals:
            raise UnknownKey(f"--set {pair!r} has no '='; write it as --set key=value.")
        if key not in FACT_KEYS:
            likely = key.lower().replace("-", "_")
            near = difflib.get_close_matches(likely, FACT_KEYS, n=3, cutoff=0.5)
            every = f"known keys are {', '.join(FACT_KEYS)}"
            hint = f"did you mean {' or '.join(near)}" if near else every
            raise UnknownKey(f"--set does not know the key {key!r}; {hint}.")
        given[key] = text
    for key in frozenset({"server_args", "engine_settings", "speculative_config"}) & given.keys():
        try:
            given[key] = json.loads(given[key])
        except ValueError:
            raise UnknownKey(f"--set {key} needs a JSON object, got {given[key]!r}.") from None
    return checked_facts(completed(given))


def checked_facts(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return the same facts with the contract's types. Raises UnknownKey where one does not fit."""
    try:
        return Facts(**facts).model_dump(exclude_unset=True)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        key, value = first["loc"][0] if first["loc"] else "facts", shown(first["input"])
        raise UnknownKey(
            f"--set {key}={value} does not fit the contract: {belongs(error)} belongs there."
        ) from None


# --- ``--facts FILE``: what the reports of a folder do not say, told once by their paths.
#
# docs/ingest.md shows one.
#
# A pattern stands for the end of a path: ``{name}`` is a fact, ``{}`` is anything, ``*`` too; none of
# them reaches over a ``/``. Later sections win, and ``--set`` wins over all.


_SECTIONS = ("set", "paths", "files")
_PIECE = re.compile(r"\{([^{}]*)\}|(\*)")


@dataclass(frozen=True)
class FactsFile:
    """A file of facts that was read and checked."""

    everywhere: Mapping[str, object]
    in_paths: tuple[re.Pattern[str], ...]
    of_files: tuple[tuple[re.Pattern[str], Mapping[str, object]], ...]

    def of(self, path: PurePath) -> dict[str, Any]:
        """Return the facts that the file states for the result at a path. Raises UnknownKey where a
        name's value cannot be."""
        facts = dict(self.everywhere)
        text = "/" + path.as_posix().lstrip("/")
        try:
            for pattern in self.in_paths:
                if names := pattern.search(text):
                    facts |= checked_facts(names.groupdict())
        except UnknownKey as error:
            why = str(error).replace("--set ", "", 1)
            raise UnknownKey(f"--facts takes this from the path: {why}") from None
        for pattern, own in self.of_files:
            if pattern.search(text):
                facts |= own
        return facts

    def unused(self, paths: Iterable[PurePath]) -> list[str]:
        """Return the patterns that no path fits, as they were written."""
        texts = ["/" + path.as_posix().lstrip("/") for path in paths]
        every = (*self.in_paths, *(pattern for pattern, _ in self.of_files))
        return [_written(p) for p in every if not any(map(p.search, texts))]


def read_facts(path: Path) -> FactsFile:
    """Read a file of facts. Raises UnknownKey with one sentence: what, where, what is known."""
    try:
        content = load_yaml(memoryview(path.read_bytes()), "a file of facts")
    except (OSError, InvalidInput) as error:
        raise UnknownKey(f"--facts {path}: {error}") from None
    if unknown := [str(key) for key in content if key not in _SECTIONS]:
        raise UnknownKey(
            f"--facts {path} has a section {unknown[0]!r}; it may have {', '.join(_SECTIONS)}."
        )
    try:
        paths, files = content.get("paths") or [], content.get("files") or {}
        paths = [paths] if isinstance(paths, str) else paths
        if not isinstance(paths, list) or not isinstance(files, dict):
            raise UnknownKey("'paths' is a list of patterns, and 'files' gives facts to patterns.")
        return FactsFile(
            _facts(content.get("set") or {}, "set"),
            tuple(_pattern(str(pattern)) for pattern in paths),
            tuple(
                (_pattern(str(pattern)), _facts(own, str(pattern)))
                for pattern, own in files.items()
            ),
        )
    except UnknownKey as error:
        raise UnknownKey(f"--facts {path}: {error}") from None


def _facts(stated: Any, where: str) -> dict[str, Any]:
    if not isinstance(stated, dict):
        raise UnknownKey(f"{where!r} gives no facts; write them as {{key: value}}.")
    own = dict(stated)
    command = own.pop("served_with", None)
    _require_facts(own, where)
    served = {} if command is None else served_with(str(command))
    return checked_facts(served | completed(own))


def _require_facts(keys: Iterable[Any], where: str) -> None:
    unknown = next((key for key in keys if str(key) not in FACT_KEYS), None)
    if unknown is not None:
        raise UnknownKey(
            f"{where!r} names {str(unknown)!r}, which is no fact; known are {', '.join(FACT_KEYS)}."
        )


def _pattern(text: str) -> re.Pattern[str]:
    names = [piece[1] for piece in _PIECE.finditer(text) if piece[1]]
    _require_facts(names, text)
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise UnknownKey(f"{text!r} has {{{twice}}} twice; give it once.")
    # Of three parts each: what stands as it is, a name, a star.
    pieces = _PIECE.split(text)
    parts = [re.escape(pieces[0])]
    for name, plain in zip(pieces[1::3], pieces[3::3], strict=True):
        parts += [f"(?P<{name}>[^/]+?)" if name else "[^/]*?", re.escape(plain)]
    return re.compile("/" + "".join(parts).lstrip("/") + "$")


def _written(pattern: re.Pattern[str]) -> str:
    names = re.sub(r"\(\?P<(\w+)>\[\^/\]\+\?\)", r"{\1}", pattern.pattern[1:-1])
    return re.sub(r"\\(.)", r"\1", names.replace("[^/]*?", "*"))


# --- ``meta.json`` beside a report, or ``NAME.meta.json`` for ``NAME.json``: its facts.
#
# Other programs write such files for themselves: members that are no facts are passed over.


META, _OWN = "meta.json", ".meta.json"
#: What a report's name ends in; another dot belongs to the name, as in ``qwen2.5-7b.json``.
_ENDS = re.compile(r"(\.(json|jsonl|ya?ml|csv))?(\.(gz|zst))?$", re.IGNORECASE)


def is_meta(path: Path) -> bool:
    """Return whether a file tells the facts of other files."""
    return path.name == META or path.name.endswith(_OWN)


def meta_files(report: Path) -> tuple[Path, Path]:
    """Return where the facts of a report may lie, there or not; the report's own file is last."""
    own = _ENDS.sub("", report.name, count=1) + _OWN
    return report.with_name(META), report.with_name(own)


def facts_beside(report: Path) -> dict[str, Any]:
    """Return what lies beside a report and tells of it; the report's own file wins. Raises
    InvalidInput."""
    facts: dict[str, Any] = {}
    for path in meta_files(report):
        if path.is_file() and path != report:
            facts |= _meta_facts(path)
    return facts


def _meta_facts(path: Path) -> dict[str, Any]:
    try:
        if path.stat().st_size > 1 << 20:
            raise InvalidInput(f"{path} is larger than 1 MB: it holds more than facts; rename it.")
        content = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise InvalidInput(
            f"{path} cannot be read ({why(error)}): mend it, or rename it."
        ) from None
    if not isinstance(content, dict):
        return {}
    command = content.get("served_with")
    own = {key: value for key, value in content.items() if key in FACT_KEYS}
    try:
        served = served_with(command) if isinstance(command, str) else {}
        return checked_facts(served | completed(own))
    except UnknownKey as error:
        raise InvalidInput(f"{path}: {str(error).replace('--set ', '', 1)}") from None
