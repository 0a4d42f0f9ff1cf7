"""What to paste: a choice of K as vLLM takes it, and the whole command that serves it on the engine that
was measured."""

import json
import re
import shlex
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from analysis.drafts.dynamic_k import DynamicTable
from analysis.frames import plain
from warehouse.arms import TABLE

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


def speculative_config(facts: Mapping[str, Any], table: DynamicTable) -> Config | None:
    """Return the value of ``--speculative-config``; None where nothing is to be drafted at any
    load.

    ``facts``: those of any cell of the arm (spec_method, draft_model, draft_revision, and
    speculative_config as JSON text, whose further keys are kept; ``command`` as below wins).
    """
    if table.largest == 0:
        return None
    config = _known(facts)
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
    if engine not in _LINES:
        return None
    words = _LINES[engine](facts, config)
    if words is None:
        return None
    given = facts.get("environment") or {}
    known = (f"{n}={_quoted(str(v))}" for n, v in given.items() if _REMOVED not in str(v))
    return " ".join([*known, *map(_quoted, words)])


def _vllm(facts: Mapping[str, Any], config: Config | None) -> Words | None:
    stated = _stated(facts)
    if not any(word == "serve" or word.startswith("vllm.entrypoints") for word in stated):
        told = _options(facts)
        if told is None:
            return None
        caching = plain(facts.get("prefix_caching"))
        named = {
            "tensor_parallel_size": _whole(facts.get("tensor_parallel_size")),
            "dtype": _dtype(facts),
            "enable_prefix_caching": None if caching is None else bool(caching),
        }
        given = {name: value for name, value in named.items() if value is not None}
        stated = ["vllm", "serve", str(facts["model"])]
        stated += [word for pair in (given | told).items() for word in _argument(*pair)]
    words = _without(stated, lambda name: _SPECULATION.fullmatch(name) is not None)
    return words if config is None else [*words, "--speculative-config", json.dumps(config)]


def _sglang(facts: Mapping[str, Any], config: Config | None) -> Words | None:
    stated, drafts = _stated(facts), _object(facts.get("speculative_config"))
    told = _options(facts)
    if not _as_measured(facts, config):
        return None
    if any("sglang" in word for word in stated):
        return stated
    if told is None or "speculative_algorithm" not in drafts:
        return None
    model, precision = str(facts["model"]), plain(facts.get("precision"))
    path = str(facts.get("model_path") or model)
    named = {
        "model_path": path,
        "served_model_name": None if model == path else model,
        "tp_size": _whole(facts.get("tensor_parallel_size")),
        "quantization": None if _dtype(facts) else precision,
        "dtype": _dtype(facts),
        "disable_radix_cache": plain(facts.get("prefix_caching")) is False,
        **told,
        **dict(sorted(drafts.items(), key=lambda item: (*_CHAIN, item[0]).index(item[0]))),
        "speculative_draft_model_revision": plain(facts.get("draft_revision")),
    }
    words = ["python", "-m", "sglang.launch_server"]
    kept = ((name, value) for name, value in named.items() if value not in (None, False))
    return [*words, *(word for pair in kept for word in _argument(*pair))]


def _llama(facts: Mapping[str, Any], config: Config | None) -> Words | None:
    stated = _stated(facts)
    started = bool(stated) and "llama" in stated[0]
    return stated if started and _as_measured(facts, config) else None


#: How each engine that is known is started.
_LINES: dict[str, Callable[[Mapping[str, Any], Config | None], Words | None]] = {
    "vllm": _vllm, "sglang": _sglang, "llama.cpp": _llama,
}  # fmt: skip


def _as_measured(facts: Mapping[str, Any], config: Config | None) -> bool:
    """Return whether an engine without a table of K is to draft what was measured."""
    if config is None or len(config.get(TABLE) or ()) > 1:
        return False
    measured = _whole(facts.get("num_speculative_tokens"))
    return config.get("num_speculative_tokens") in (None, measured)


def _stated(facts: Mapping[str, Any]) -> Words:
    """Return the words of the command that was measured, without where it listened and credentials;
    the executable by its name."""
    words = [str(word) for word in facts.get("command") or ()]
    try:  # A script of somebody else's may have written its command as one text.
        words = shlex.split(words[0]) if len(words) == 1 else words
    except ValueError:
        return []
    kept = _without(words, _OF_THE_RUN.__contains__)
    return [kept[0].rpartition("/")[2], *kept[1:]] if kept else []


def _without(words: Iterable[str], unwanted: Callable[[str], bool]) -> Words:
    """Return a command without the options of such names and without what a record may not hold."""
    kept: Words = []
    dropping = False
    for word in words:
        if word.startswith("-"):
            name, equals, _ = word.lstrip("-").partition("=")
            dropped = unwanted(name.partition(".")[0].replace("_", "-")) or _REMOVED in word
            dropping = dropped and not equals
            kept += [] if dropped else [word]
        elif _REMOVED in word:
            kept = kept[:-1] if kept[-1:] and kept[-1].startswith("-") else kept
        elif not dropping:
            kept.append(word)
        dropping = dropping and word.startswith("-")
    return kept


def stated_config(facts: Mapping[str, Any]) -> Config:
    """Return an arm's speculative config as it was stated; that of the command says where the draft
    lies. Empty where none is known."""
    words = [*(facts.get("command") or ()), "--speculative-config"]
    text = words[words.index("--speculative-config") + 1 :][:1]
    return _object(text[0] if text else None) or _object(facts.get("speculative_config"))


def _known(facts: Mapping[str, Any]) -> Config:
    stated = stated_config(facts)
    if stated:
        return stated
    config: Config = {"method": facts["spec_method"]}
    draft = plain(facts.get("draft_model"))
    if draft is not None and facts["spec_method"] not in _WITHOUT_MODEL:
        config["model"] = draft
        revision = plain(facts.get("draft_revision"))
        config |= {"revision": revision} if revision is not None else {}
    return config


def _options(facts: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the arguments that the server is known to have had; None where they are no options."""
    told = _object(facts.get("server_args"))
    its_own = facts.get("source_format") not in _OWN_WORDS and isinstance(facts.get("model"), str)
    return told if its_own and all(_OPTION.fullmatch(name) for name in told) else None


def _dtype(facts: Mapping[str, Any]) -> str | None:
    precision = plain(facts.get("precision"))
    return str(precision) if precision in _DTYPES else None


def _whole(value: Any) -> int | None:
    known = plain(value)
    return None if known is None else int(known)


def _argument(name: str, value: Any) -> Words:
    flag = f"--{name.lstrip('-').replace('_', '-')}"
    if isinstance(value, bool):
        return [flag if value else flag.replace("--", "--no-", 1)]
    if isinstance(value, (dict, list)):
        return [flag, json.dumps(value)]
    return [flag, str(value)]


def _quoted(word: str) -> str:
    """Return a word for a shell, which finds the home folder that a record calls ``~``."""
    text = shlex.quote(word).replace('"~/', '"\'"$HOME"\'/')
    return f"~/{text[3:-1]}" if re.fullmatch(r"'~/[\w@%+=:,./-]+'", text) else text


def _object(text: Any) -> dict[str, Any]:
    try:
        found: Any = json.loads(text) if isinstance(text, str) and text else {}
    except ValueError:  # the words of a command
        return {}
    return found if isinstance(found, dict) else {}
