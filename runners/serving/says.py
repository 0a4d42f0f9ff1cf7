"""What a server says of itself, in values; vLLM's words for counters, cache and configuration."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from runners.serving import endpoint
from runners.serving.endpoint import SILENT
from warehouse.arms import TABLE

#: The first question makes vLLM collect what its machine is, which takes seconds.
_CONFIGURATION_S = 60.0
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
_POSITION = re.compile(
    r'^vllm:spec_decode_num_accepted_tokens_per_pos(?:_total)?\{.*position="(\d+)"', re.MULTILINE
)
_DRAFTS = re.compile(r"^vllm:spec_decode_num_drafts(?:_total)?[{ ]", re.MULTILINE)
_CACHE = re.compile(r"^vllm:cache_config_info\{(.*)\}", re.MULTILINE)


@dataclass(frozen=True)
class Served:
    """One model that the server lists. None: the server does not say it."""

    name: str
    root: str | None = None
    max_model_len: int | None = None


@dataclass(frozen=True)
class Resolved:
    """vLLM's configuration as the engine runs with it, after its own defaults. None: unsaid."""

    dtype: str | None = None
    quantization: str | None = None
    reasoning_parser: str | None = None
    tensor_parallel_size: int | None = None
    method: str | None = None
    draft_tokens: int | None = None
    whole: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)
    """All that it told, in its own words."""
    table: list[Any] | None = None
    """K by batch size; None also where vLLM took it away, as it does beside data parallelism."""
    rejection_sample_method: str | None = None
    draft_sample_method: str | None = None
    parallel_drafting: bool | None = None
    adaptive_verification: bool | None = None
    disable_eagle_block_drop: bool | None = None

    def as_json(self) -> dict[str, Any]:
        """Return what is known, by name, without the field ``whole``."""
        known = {name: value for name, value in vars(self).items() if value is not None}
        return {name: value for name, value in known.items() if name != "whole"}


@dataclass(frozen=True)
class Said:
    """All that a server said of itself. None: it was not said."""

    engine: str | None = None
    version: str | None = None
    models: tuple[Served, ...] | None = None
    drafts: bool | None = None
    """Whether it has counters of drafts; None where its metrics are not vLLM's."""
    draft_tokens: int | None = None
    cache: Mapping[str, str] = field(default_factory=dict)
    """Labels of vLLM's ``cache_config_info``."""
    resolved: Resolved | None = None

    @property
    def prefix_caching(self) -> bool | None:
        """Whether the server keeps prefixes; None where it does not say."""
        return {"True": True, "False": False}.get(self.cache.get("enable_prefix_caching", ""))


def counters(metrics: str) -> tuple[bool | None, int | None]:
    """Return whether the server drafts, by vLLM's ``/metrics``, and how many tokens at most."""
    if "vllm:" not in metrics:
        return None, None
    positions = [int(found) for found in _POSITION.findall(metrics)]
    return bool(_DRAFTS.search(metrics)), max(positions, default=-1) + 1 or None


def resolved(url: str) -> Resolved | None:
    """Return vLLM's configuration; None where it has no such route (VLLM_SERVER_DEV_MODE opens
    it)."""
    said = json_of(f"{url}/server_info?config_format=json", _CONFIGURATION_S)
    config = said.get("vllm_config") if isinstance(said, dict) else None
    if not isinstance(config, dict):
        return None
    model, speculation = _part(config, "model_config"), _part(config, "speculative_config")
    return Resolved(
        dtype=_text(model.get("dtype")),
        quantization=_text(model.get("quantization")),
        reasoning_parser=_text(_part(config, "structured_outputs_config").get("reasoning_parser")),
        tensor_parallel_size=_number(_part(config, "parallel_config").get("tensor_parallel_size")),
        method=_text(speculation.get("method")),
        draft_tokens=_number(speculation.get("num_speculative_tokens")),
        whole=config,
        table=_list(speculation.get(TABLE)),
        rejection_sample_method=_text(speculation.get("rejection_sample_method")),
        draft_sample_method=_text(speculation.get("draft_sample_method")),
        parallel_drafting=_truth(speculation.get("parallel_drafting")),
        adaptive_verification=_truth(speculation.get("enable_adaptive_verification")),
        disable_eagle_block_drop=_truth(speculation.get("disable_eagle_block_drop")),
    )


def _part(config: dict[str, Any], name: str) -> dict[str, Any]:
    part = config.get(name)
    return part if isinstance(part, dict) else {}


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _truth(value: Any) -> bool | None:
    return value if isinstance(value, bool) else None


def _list(value: Any) -> list[Any] | None:
    return value if isinstance(value, list) else None


def _number(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def version(url: str) -> str | None:
    """Return what vLLM's ``/version`` says."""
    said = json_of(f"{url}/version")
    return _text(said.get("version")) if isinstance(said, dict) else None


def models(url: str) -> tuple[Served, ...] | None:
    """Return the models that ``/v1/models`` lists; None where it does not."""
    said = json_of(f"{url}/v1/models")
    cards = said.get("data") if isinstance(said, dict) else None
    if not isinstance(cards, list):
        return None
    known = [card for card in cards if isinstance(card, dict) and _text(card.get("id"))]
    return tuple(
        Served(card["id"], _text(card.get("root")), _number(card.get("max_model_len")))
        for card in known
    )


def cache_labels(metrics: str) -> dict[str, str]:
    """Return the labels of vLLM's ``cache_config_info``; empty where there is none."""
    found = _CACHE.search(metrics)
    return dict(_LABEL.findall(found[1])) if found else {}


def json_of(url: str, timeout_s: float = 10.0) -> Any:
    """Return the JSON at an address; None where there is none."""
    try:
        return json.loads(read(url, timeout_s) or "null")
    except ValueError:
        return None


def read(url: str, timeout_s: float = 10.0) -> str | None:
    """Return the text at an address; None where there is none."""
    try:
        return endpoint.fetch(url, timeout_s)
    except SILENT:
        return None
