"""What a record was asked, held against what the study asks now: which facts differ.

Records from before these facts were kept are read by what they do say: commands, arguments,
settings and variables. What a record does not say is not held against it.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from runners.models.model_files import is_path

_SETTINGS = ("temperature", "top_p", "seed", "max_tokens", "ignore_eos")
_BODY = ("temperature", "top_p", "seed", "ignore_eos")


def differences(
    record: Mapping[str, Any], now: Mapping[str, Any], prompt_set_hash: str | None
) -> list[str]:
    """Return the names of the facts that a record and a planned cell say otherwise.

    Where the hash of the prompts is known it counts, and not the words by which they are found.
    """
    kept = _part(record, "environment").get("asked")
    said = kept if isinstance(kept, dict) else _of_old(record, now)
    names = [name for name in now if name in said and not _same(name, said[name], now[name])]
    hashed = record.get("prompt_set_hash")
    if hashed is None or prompt_set_hash is None:
        return names
    others = [name for name in names if name != "dataset"]
    return others + (["prompts"] if hashed != prompt_set_hash else [])


def _same(name: str, said: Any, now: Any) -> bool:
    """Return whether a fact is the one that was asked; of the window only what the study says
    counts."""
    if name != "window" or not isinstance(said, dict):
        return bool(said == now)
    return all(said.get(key) == value for key, value in now.items())


def _of_old(record: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, Any]:
    """Return the facts that an old record knows, in the words of ``now``."""
    words = _part(record, "commands")
    server, load = _words(words.get("vllm")), _words(words.get("guidellm"))
    said: dict[str, Any] = {
        "tensor_parallel_size": record.get("tensor_parallel_size"),
        "prompts": record.get("planned_requests"),
        "concurrency": record.get("concurrency"),
        "environment": _environment(record, now),
        "request": _request(record, load, now),
        "window": _window(load, now),
    }
    said = {name: value for name, value in said.items() if value is not None}
    if "spec_method" in record:
        said["speculative_config"] = record.get("speculative_config")
    if "server_args" in record:
        caching = record.get("prefix_caching")
        known = {} if caching is None else {"enable_prefix_caching": caching}
        said["server_args"] = {**_part(record, "server_args"), **known}
    if record.get("prefix_cache") == "reset":
        said["prefix_cache"] = "reset"  # "kept" also stands where emptying was asked for in vain.
    return said | _names(server, now)


def _names(server: Sequence[str], now: Mapping[str, Any]) -> dict[str, Any]:
    """Return model, revision and tokenizer of the server's command; folders are compared by their
    name."""
    if len(server) < 3:
        return {}
    found = {
        "model": server[2],
        "revision": _after(server, "--revision"),
        "tokenizer": _after(server, "--tokenizer"),
    }
    return {name: _alike(value, now.get(name)) for name, value in found.items()}


def _alike(said: str | None, now: str | None) -> str | None:
    if said is None or now is None or not is_path(now):
        return said
    return now if Path(said).name == Path(now).name else said


def _request(
    record: Mapping[str, Any], load: Sequence[str], now: Mapping[str, Any]
) -> dict[str, Any] | None:
    if "request_format" not in record:
        return None
    said = {name: record.get(name) for name in _SETTINGS} | {"format": record["request_format"]}
    said["ignore_eos"] = bool(said["ignore_eos"])
    body = next((_part(_part(each, "extras"), "body") for each in _objects(load)
                 if "extras" in each), None)  # fmt: skip
    said["extra_body"] = (
        _part(now, "request").get("extra_body")
        if body is None
        else {name: value for name, value in body.items() if name not in _BODY}
    )
    return said


def _window(load: Sequence[str], now: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the shares left out at the two ends; the number of warm-up requests was not written
    down."""
    if not load:
        return None
    profile = next((each for each in _objects(load) if "streams" in each), None)
    ends = {}
    for name, option in (("warm_up", "warmup"), ("cool_down", "cooldown")):
        phase = _object(_after(load, f"--{option}")) if profile is None else profile.get(option)
        ends[name] = phase.get("percent", 0.0) if isinstance(phase, dict) else 0.0
    return {**_part(now, "window"), **ends}


def _environment(record: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return a record's values of the variables that the study sets now; others may be the
    machine's."""
    there = _part(record, "environment").get("variables")
    if not isinstance(there, dict):
        return None
    return {name: there.get(name) for name in _part(now, "environment")}


def _objects(words: Sequence[str]) -> list[dict[str, Any]]:
    return [found for word in words if (found := _object(word))]


def _object(word: str | None) -> dict[str, Any] | None:
    try:
        found = json.loads(word) if word is not None and word.startswith("{") else None
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def _after(words: Sequence[str], option: str) -> str | None:
    place = words.index(option) + 1 if option in words else len(words)
    return words[place] if place < len(words) else None


def _words(said: Any) -> list[str]:
    return [str(word) for word in said] if isinstance(said, list) else []


def _part(said: Mapping[str, Any], name: str) -> dict[str, Any]:
    part = said.get(name)
    return part if isinstance(part, dict) else {}
