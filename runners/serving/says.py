"""What a server says of itself: models, version, metrics and, where it tells, its configuration."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from runners.serving import endpoint
from runners.serving.endpoint import SILENT

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
    """One model that the server lists. None: it does not say."""

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

    def as_json(self) -> dict[str, Any]:
        """What is known, by name, without the whole."""
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
        """Whether it keeps prefixes."""
        return {"True": True, "False": False}.get(self.cache.get("enable_prefix_caching", ""))


def listen(url: str) -> Said:
    """Ask a server everything about itself; what it does not answer stays unknown."""
    said = glance(url)
    return said if said.engine is None else replace(said, resolved=resolved(url))


def glance(url: str) -> Said:
    """What it shows without its configuration, which takes seconds."""
    metrics = _read(f"{url}/metrics") or ""
    is_vllm = "vllm:" in metrics
    drafts, draft_tokens = counters(metrics)
    return Said(
        engine="vllm" if is_vllm else None,
        version=_version(url) if is_vllm else None,
        models=_models(_json(f"{url}/v1/models")),
        drafts=drafts,
        draft_tokens=draft_tokens,
        cache=_labels(metrics),
    )


def counters(metrics: str) -> tuple[bool | None, int | None]:
    """Whether the server drafts, by vLLM's ``/metrics``, and how many tokens at most."""
    if "vllm:" not in metrics:
        return None, None
    positions = [int(found) for found in _POSITION.findall(metrics)]
    return bool(_DRAFTS.search(metrics)), max(positions, default=-1) + 1 or None


def resolved(url: str) -> Resolved | None:
    """vLLM's configuration; None where it has no such route (VLLM_SERVER_DEV_MODE opens it)."""
    said = _json(f"{url}/server_info?config_format=json", _CONFIGURATION_S)
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
    )


def _part(config: dict[str, Any], name: str) -> dict[str, Any]:
    part = config.get(name)
    return part if isinstance(part, dict) else {}


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _number(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _version(url: str) -> str | None:
    said = _json(f"{url}/version")
    return _text(said.get("version")) if isinstance(said, dict) else None


def _models(said: Any) -> tuple[Served, ...] | None:
    cards = said.get("data") if isinstance(said, dict) else None
    if not isinstance(cards, list):
        return None
    known = [card for card in cards if isinstance(card, dict) and _text(card.get("id"))]
    return tuple(
        Served(card["id"], _text(card.get("root")), _number(card.get("max_model_len")))
        for card in known
    )


def _labels(metrics: str) -> dict[str, str]:
    found = _CACHE.search(metrics)
    return dict(_LABEL.findall(found[1])) if found else {}


def _json(url: str, timeout_s: float = 10.0) -> Any:
    try:
        return json.loads(_read(url, timeout_s) or "null")
    except ValueError:
        return None


def _read(url: str, timeout_s: float = 10.0) -> str | None:
    try:
        return endpoint.fetch(url, timeout_s)
    except SILENT:
        return None
