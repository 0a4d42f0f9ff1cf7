"""What this vLLM knows: speculative methods, their settings, its own command line.

In: {"commands": [[word, …], …]}, the words after ``vllm serve``. Out: {"methods": […],
"settings": […], "memory_share": default of --gpu-memory-utilization, "device": "cuda", "cpu" …,
"suffix_decoding": whether its package is there, "choices": {setting: the words that it takes},
"switches_off": {"async-scheduling", "model-runner": methods that go without},
"refusals": [null or the parser's words, one for
each command]}. What a release does not have is null. Takes seconds, as every import of vLLM does.
"""

import argparse
import contextlib
import importlib
import importlib.util
import inspect
import io
import json
import os
import re
import sys
import typing
from typing import Any


def _member(module: str, name: str) -> Any:
    try:
        return getattr(importlib.import_module(module), name, None)
    except ImportError:
        return None


def _words(literal: Any) -> list[str]:
    members = typing.get_args(literal)
    if not members:
        return [literal] if isinstance(literal, str) else []
    return [word for member in members for word in _words(member)]


def _methods() -> list[str] | None:
    return _words(_member("vllm.config.speculative", "SpeculativeMethod")) or None


def _choices() -> dict[str, list[str]]:
    """Return the words of the settings that take few; a release without a setting names none."""
    named = {"rejection_sample_method": "RejectionSampleMethod",
             "draft_sample_method": "DraftSampleMethod"}  # fmt: skip
    found = {name: _words(_member("vllm.config.speculative", kind)) for name, kind in named.items()}
    return {name: known for name, known in found.items() if known}


def _switches_off() -> dict[str, list[str]]:
    """Return the methods with which this release switches off what it else has. It knows that only
    in the middle of its own start, so its source is read."""
    config = _member("vllm.config.vllm", "VllmConfig")
    source = "" if config is None else inspect.getsource(config)
    # A method of one model's own is "mtp" by then.
    every = {one for one in _methods() or () if not one.endswith("_mtp")}
    before, there, _ = source.partition("Async scheduling not supported with %s-based")
    condition = before.rpartition("elif (")[2]
    types = re.findall(r"\b\w+Types\b", condition)
    kept = {word for one in types for word in _words(_member("vllm.config.speculative", one))}
    kept |= set(re.findall(r'"(\w+)"', condition))
    body = source.partition("def _get_v2_model_runner_unsupported_features")[2].partition(
        "\n    def "
    )[0]
    first: set[str] = set()
    for negated, named in re.findall(r"if speculative_config\.method (not )?in \(([^)]*)\)", body):
        listed = set(re.findall(r'"(\w+)"', named))
        first |= every - listed if negated else every & listed
    return {
        "async-scheduling": sorted(every - kept) if there else [], "model-runner": sorted(first),
    }  # fmt: skip


def _parser() -> argparse.ArgumentParser | None:
    commands = _member("vllm.entrypoints.cli.serve", "cmd_init")
    flexible = _member("vllm.utils.argparse_utils", "FlexibleArgumentParser")
    flexible = flexible or _member("vllm.utils", "FlexibleArgumentParser")
    if commands is None or flexible is None:
        return None
    made: argparse.ArgumentParser = commands()[0].subparser_init(flexible().add_subparsers())
    return made


def _refusal(parser: argparse.ArgumentParser, words: list[str]) -> str | None:
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said):
            parser.parse_args(words)
    except (SystemExit, ValueError, argparse.ArgumentError) as error:
        last = said.getvalue().strip().splitlines()[-1:] or [str(error)]
        return last[0].rpartition("error: ")[2]
    return None


def main() -> None:
    asked = json.loads(sys.stdin.readline())
    # vLLM logs to stdout; the answer alone goes there.
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    parser = _parser() if asked["commands"] else None
    config = _member("vllm.config.speculative", "SpeculativeConfig")
    settings = getattr(config, "__dataclass_fields__", None)
    share = getattr(_member("vllm.config.cache", "CacheConfig"), "gpu_memory_utilization", None)
    answer = {
        "methods": _methods(),
        "settings": None if settings is None else sorted(settings),
        "memory_share": float(share) if isinstance(share, (int, float)) else None,
        "device": getattr(_member("vllm.platforms", "current_platform"), "device_type", None)
        or None,
        "suffix_decoding": importlib.util.find_spec("arctic_inference") is not None,
        "choices": _choices(),
        "switches_off": _switches_off(),
        "refusals": [
            None if parser is None else _refusal(parser, words) for words in asked["commands"]
        ],
    }
    out.write(json.dumps(answer) + "\n")
    out.close()


main()
