"""What to paste: a choice of K as vLLM takes it, and the whole command that serves it on the engine that
was measured."""

import json
import re
import shlex
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from analysis.drafts.dynamic_k import DynamicTable
from analysis.frames import plain
from analysis.matching.arms import config_of
from warehouse.contract import TABLE

Config = dict[str, Any]
Words = list[str]

#: Methods whose "draft model" is the target itself or nothing at all.
_WITHOUT_MODEL = {"ngram", "ngram_gpu", "suffix"}
#: Where a server listened and what only a measurement asks for: the reader has his own.
_OF_THE_RUN = frozenset(
    {"host", "port", "api-key", "api-key-file", "per-request-spec-decode-metrics"}
)
#: Options by which vLLM is told of a speculation, of any release.
_SPECULATION = re.compile(
    r"sc|spec(ulative)?-(?!disable-mqa).*|num-speculative-tokens|ngram-prompt-lookup-.*"
)
#: What stands in a record where a credential stood.
_REMOVED = "[removed]"
_OPTION = re.compile(r"-*[A-Za-z][\w.-]*")
_DTYPES = frozenset({"auto", "half", "float16", "bfloat16", "float", "float32"})
#: SGLang's words for a speculation, in the order in which its manual has them.
_CHAIN = ("speculative_algorithm", "speculative_num_steps", "speculative_eagle_topk",
          "speculative_num_draft_tokens", "speculative_draft_model_path")  # fmt: skip
#: Reports whose words of a server are not its options.
_OWN_WORDS = ("inferencex",)
#: What the command of each engine that is known says.
_STARTED = {
    "vllm": re.compile(r"\bserve\b|vllm\.entrypoints"), "sglang": re.compile("sglang"),
    "llama.cpp": re.compile("llama"),
}  # fmt: skip


def speculative_config(facts: Mapping[str, Any], table: DynamicTable) -> Config | None:
    """Return the value of ``--speculative-config``; None where nothing is to be drafted at any
    load.

    ``facts``: those of any cell of the arm (spec_method, draft_model, draft_revision, and
    speculative_config as JSON text, whose further keys are kept; ``command`` as below wins).
    """
    if table.largest == 0:
        return None
    config = stated_config(facts)
    if not config:
        config = {"method": facts["spec_method"]}
        draft, revision = plain(facts.get("draft_model")), plain(facts.get("draft_revision"))
        if draft is not None and facts["spec_method"] not in _WITHOUT_MODEL:
            config |= {"model": draft} | ({} if revision is None else {"revision": revision})
    config["num_speculative_tokens"] = table.largest
    config.pop(TABLE, None)
    if len(table.entries) > 1:
        config[TABLE] = [list(e) for e in table.entries]
    return config


def serve_line(facts: Mapping[str, Any], config: Config | None) -> str | None:
    """Return the command line that serves an arm, for a shell, in the words of its own engine; None
    where the engine is unknown or what is known does not make a command that starts.

    ``facts``: those of a cell (engine, model, tensor_parallel_size, precision, prefix_caching, and
    server_args as JSON text), and where the record states them ``command`` (words of the command
    that was measured, from which all arguments are taken), ``environment`` (variables that it was
    started with) and ``model_path``. ``config``: what ``speculative_config`` returns; another engine
    than vLLM serves the K that was measured, or nothing.
    """
    engine = str(plain(facts.get("engine"))).lower()
    if engine not in _STARTED:
        return None
    # An engine without a table of K drafts what was measured.
    k = None if config is None else config.get("num_speculative_tokens")
    measured = (None, plain(facts.get("num_speculative_tokens")))
    if engine != "vllm" and (config is None or TABLE in config or k not in measured):
        return None
    stated = _without(map(str, facts.get("command") or ()), _OF_THE_RUN.__contains__)
    words = stated if _STARTED[engine].search(" ".join(stated)) else _made(facts, engine)
    if not words:
        return None
    if engine == "vllm":
        words = _without(words, _SPECULATION.fullmatch)
        words += [] if config is None else ["--speculative-config", json.dumps(config)]
    given = (facts.get("environment") or {}).items()
    known = (f"{name}={_quoted(value)}" for name, value in given if _REMOVED not in value)
    return " ".join([*known, words[0].rpartition("/")[2], *map(_quoted, words[1:])])


def _made(facts: Mapping[str, Any], engine: str) -> Words:
    told, model = config_of(facts.get("server_args")), facts.get("model")
    drafts = config_of(facts.get("speculative_config"))
    stated = isinstance(model, str) and facts.get("source_format") not in _OWN_WORDS
    if not stated or not all(map(_OPTION.fullmatch, told)):
        return []
    size, precision, caching = (
        plain(facts.get(n)) for n in ("tensor_parallel_size", "precision", "prefix_caching")
    )
    dtype = precision if precision in _DTYPES else None
    size, path = None if size is None else int(size), facts.get("model_path") or model
    if engine == "vllm":
        named = {"tensor_parallel_size": size, "dtype": dtype, "enable_prefix_caching": caching}
        return ["vllm", "serve", str(model), *_arguments(named | told)]
    if engine != "sglang" or "speculative_algorithm" not in drafts:
        return []
    named = {
        "model_path": path, "served_model_name": None if model == path else model, "tp_size": size,
        "quantization": None if dtype else precision, "dtype": dtype,
        "disable_radix_cache": True if caching is False else None, **told,
        **dict(sorted(drafts.items(), key=lambda item: (*_CHAIN, item[0]).index(item[0]))),
        "speculative_draft_model_revision": plain(facts.get("draft_revision")),
    }  # fmt: skip
    # SGLang has no word for what is off.
    named = {name: value for name, value in named.items() if value is not False}
    return ["python", "-m", "sglang.launch_server", *_arguments(named)]


def _without(words: Iterable[str], unwanted: Callable[[str], object]) -> Words:
    """Return a command without the options of such names, their values, and credentials."""
    kept: Words = []
    groups = re.split(r"\0(?=-)", "\0".join(words))
    for option, *rest in (group.split("\0") for group in groups):
        name, equals, _ = option.lstrip("-").partition("=")
        hidden = any(_REMOVED in word for word in (option, *rest[:1]))
        dropped = hidden or unwanted(name.partition(".")[0].replace("_", "-"))
        kept += (rest if equals else rest[1:]) if dropped else [option, *rest]
    return kept


def stated_config(facts: Mapping[str, Any]) -> Config:
    """Return an arm's speculative config as it was stated; that of the command says where the draft
    lies. Empty where none is known."""
    words = [*(facts.get("command") or ()), "--speculative-config"]
    text = words[words.index("--speculative-config") + 1 :][:1]
    return config_of(text[0] if text else None) or config_of(facts.get("speculative_config"))


def _arguments(named: Mapping[str, Any]) -> Words:
    words = []
    for name, value in named.items():
        flag = name.lstrip("-").replace("_", "-")
        if isinstance(value, bool):
            words.append(f"--{flag}" if value else f"--no-{flag}")
        elif value is not None:
            plain_text = json.dumps(value) if isinstance(value, (dict, list)) else str(value)
            words += [f"--{flag}", plain_text]
    return words


def _quoted(word: str) -> str:
    """Return a word for a shell, which finds the home folder that a record calls ``~``."""
    text = shlex.quote(word).replace('"~/', '"\'"$HOME"\'/')
    return f"~/{text[3:-1]}" if re.fullmatch(r"'~/[\w@%+=:,./-]+'", text) else text
