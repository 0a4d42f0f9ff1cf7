"""A choice of K as what vLLM takes: ``--speculative-config`` and the whole ``vllm serve`` line."""

import json
import shlex
from collections.abc import Mapping
from typing import Any

from analysis.drafts.dynamic_k import DynamicTable
from analysis.frames import plain
from warehouse.arms import TABLE

Config = dict[str, Any]

#: Methods whose "draft model" is the target itself or nothing at all.
_WITHOUT_MODEL = {"ngram", "ngram_gpu", "suffix"}


def speculative_config(facts: Mapping[str, Any], table: DynamicTable) -> Config | None:
    """Return the value of ``--speculative-config``; None where nothing is to be drafted at any
    load.

    ``facts``: those of any cell of the arm (spec_method, draft_model, draft_revision, and
    speculative_config as JSON text, whose further keys are kept).
    """
    if table.largest == 0:
        return None
    config = _known(facts)
    config["num_speculative_tokens"] = table.largest
    config.pop(TABLE, None)
    if len(table.entries) > 1:
        config[TABLE] = [list(e) for e in table.entries]
    return config


def serve_line(facts: Mapping[str, Any], config: Config | None) -> str:
    """Return the command line ``vllm serve MODEL …`` for a shell; ``facts`` as above with model,
    tensor_parallel_size and server_args (JSON text)."""
    words = ["vllm", "serve", str(facts["model"])]
    if plain(facts.get("tensor_parallel_size")) is not None:
        words += ["--tensor-parallel-size", str(int(facts["tensor_parallel_size"]))]
    for name, value in _object(facts.get("server_args")).items():
        words += _argument(f"--{name.lstrip('-').replace('_', '-')}", value)
    if config is not None:
        words += ["--speculative-config", json.dumps(config)]
    return shlex.join(words)


def _known(facts: Mapping[str, Any]) -> Config:
    stated = _object(facts.get("speculative_config"))
    if stated:
        return dict(stated)
    config: Config = {"method": facts["spec_method"]}
    draft = plain(facts.get("draft_model"))
    if draft is not None and facts["spec_method"] not in _WITHOUT_MODEL:
        config["model"] = draft
        revision = plain(facts.get("draft_revision"))
        config |= {"revision": revision} if revision is not None else {}
    return config


def _argument(name: str, value: Any) -> list[str]:
    if isinstance(value, bool):
        return [name if value else name.replace("--", "--no-", 1)]
    if isinstance(value, (dict, list)):
        return [name, json.dumps(value)]
    return [name, str(value)]


def _object(text: Any) -> dict[str, Any]:
    found: Any = json.loads(text) if isinstance(text, str) and text else {}
    return found if isinstance(found, dict) else {}
