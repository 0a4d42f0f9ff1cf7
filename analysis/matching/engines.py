"""Engines of two arms: what a method brings with equal arguments is what users get, and is told."""

import json
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import pandas as pd

from analysis.frames import listed
from analysis.matching.difference import alike
from analysis.matching.fields import arguments
from warehouse.rows import Flag, Severity

#: Settings that make another engine, and what they are called.
SETTINGS = {
    "async_scheduling": "asynchronous scheduling", "model_runner": "model runner",
    "attention_backend": "attention backend", "cuda_graphs": "CUDA graphs",
    "enforce_eager": "eager execution", "compile_mode": "compile mode",
    "kv_cache_dtype": "type of the KV cache",
}  # fmt: skip
#: Sizes of one engine.
SIZES = {"kv_cache_tokens": "KV cache in tokens", "cuda_graph_max": "largest CUDA graph"}
_OFF, _CHOICE = " (the method switches it off)", " (the method's choice)"
_EQUAL = " (the method's doing: the arguments are equal)"
_TAKEN = " (taken for the method's doing: whether the arguments are equal is not known)"
_GIVEN = " (by the method, or by the arguments that differ by leave)"
#: What of a cell tells its engine.
READ = ("engine_settings", "server_args", "engine")


@dataclass(frozen=True)
class EngineDifference:
    """What differs between a baseline's engine and an arm's. ``words``: what it is called;
    ``matters``: whether with its drafts switched off this server would not be the baseline's;
    ``cause``: who brings it, as words in brackets."""

    field: str
    words: str
    baseline: Any
    arm: Any
    matters: bool
    cause: str = ""


@lru_cache(4096)
def differences(one: tuple[Any, ...], other: tuple[Any, ...]) -> tuple[EngineDifference, ...]:
    """Return in which known settings an arm's engine (``other``) differs from the baseline's, each
    given as what its cell says of READ. A cause that nobody tells is taken for the method."""
    first, second = (json.loads(x[0]) if isinstance(x[0], str) else {} for x in (one, other))
    # SGLang tells its arguments after its own changes to them.
    known = isinstance(one[1], str) and isinstance(other[1], str) and other[2] != "sglang"
    same = arguments(one[1]) == arguments(other[1])
    usual = _TAKEN if not known else _EQUAL if same else _GIVEN
    found = []
    for name, words in (SETTINGS | SIZES).items():
        here, there = first.get(name), second.get(name)
        if alike(here, there):
            continue
        cause = "" if name in SIZES else usual
        if name in str(second.get("by_method")):
            cause = _OFF if there is False else _CHOICE
        found.append(EngineDifference(name, words, here, there, name in SETTINGS, cause))
    return tuple(found)


def sentence(found: Collection[EngineDifference], arm: str) -> str:
    """Say in what the engine of an arm, which is called ``arm``, differs; empty for nothing."""
    said: list[str] = []
    for one in sorted(found, key=lambda one: not one.matters):
        first, second = (" against", "") if said else (" in the baseline,", f" in {arm}")
        values = f"{_said(one.baseline)}{first} {_said(one.arm)}{second}"
        said.append(f"{one.words} {values}{one.cause}")
    matters = any(one.matters for one in found)
    ran = "ran different engines" if matters else "ran one engine in other sizes"
    return f"The two arms {ran}: {'; '.join(said)}." if said else ""


def _said(value: Any) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return f"{value:,}" if isinstance(value, int) else str(value)


def engine_flags(cells: pd.DataFrame, chosen: pd.DataFrame) -> Iterator[tuple[Flag, ...]]:
    """Yield for each pair (row numbers ``b`` and ``s``) a flag where its engines differ."""
    told = cells.reindex(columns=[*READ]).astype(object)
    pairs = (listed(told.iloc[chosen[side].to_numpy()], *READ) for side in ("b", "s"))
    for one, other in zip(*pairs, strict=True):
        found = differences(one, other)
        severity: Severity = "warning" if any(x.matters for x in found) else "info"
        said = sentence(found, "the other arm")
        yield (Flag("engines_differ", severity, said),) if found else ()
