"""What two cells must share to be compared, and what of it is known of each."""

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.frames import listed, numbered, objects
from analysis.matching.difference import alike, flat
from warehouse.errors import UnknownKey
from warehouse.loads import Load, load_of
from warehouse.rows import Flag, Severity

#: What must be equal, and what a person calls it.
MATCH_FIELDS: dict[str, str] = {
    "model": "model", "model_revision": "model revision", "precision": "precision",
    "engine": "engine", "engine_version": "engine version", "gpu": "GPU",
    "gpu_count": "number of GPUs", "tensor_parallel_size": "tensor parallel size",
    "prefix_caching": "prefix caching", "server_args": "server arguments", "dataset": "dataset",
    "prompt_set_hash": "prompt set", "request_format": "request format",
    "temperature": "temperature", "top_p": "top-p", "seed": "seed",
    "max_tokens": "output token limit", "ignore_eos": "ignoring the end of text", "load": "load",
    "load_generator": "load generator", "evidence": "evidence",
}  # fmt: skip
#: What tells one arm from another.
ARM: tuple[str, ...] = ("arm_label", "draft_model", "draft_revision", "speculative_config")
#: What most reports leave out or can tell of one arm only: unknown there is taken as equal, with a
#: doubt. Of every other field unknown is another value than a known one.
UNKNOWN_MATCHES: tuple[str, ...] = (
    "model_revision", "precision", "engine", "engine_version", "prompt_set_hash",
)  # fmt: skip
#: The most likely token is taken whatever these are.
IDLE_AT_TEMPERATURE_0 = ("top_p", "seed")

#: What a load is made of, in the words of the cells.
LOAD_FACTS = ("load_profile", "concurrency", "rate", "trace")
#: What a setting's cells need not share: each level has prompts and a load of its own.
_OF_A_LEVEL = ("load", "prompt_set_hash", "seed")


def loads_of(cells: pd.DataFrame) -> list[Load | None]:
    """Return the load of each cell; None where its facts do not say it."""
    groups = numbered(cells, LOAD_FACTS)
    if not len(groups):
        return []
    _, first, back = np.unique(groups, return_index=True, return_inverse=True)
    named = (
        cells[name].iloc[first].tolist() if name in cells else [None] * len(first)
        for name in LOAD_FACTS
    )
    loads = [load_of(*facts) for facts in zip(*named, strict=True)]
    return [loads[group] for group in back]


def numbered_loads(cells: pd.DataFrame) -> tuple[tuple[Load, ...], NDArray[np.int64]]:
    """Return the loads of cells in their order, and the place of each cell's load, -1 for
    unknown."""
    found = loads_of(cells)
    loads = tuple(sorted({load for load in found if load is not None}, key=lambda x: x.order))
    places = {load: place for place, load in enumerate(loads)}
    return loads, np.array([-1 if load is None else places[load] for load in found], dtype=np.int64)


def field_codes(cells: pd.DataFrame, apart: Collection[str] = ()) -> pd.DataFrame:
    """Return each match field as integers, equal where the values are; -1 for unknown.

    ``apart``: server arguments (``server_args.max-num-seqs``) that get a column of their own and
    are left out of the others'.
    """
    columns: dict[str, Any] = {}
    for name in (*MATCH_FIELDS, *apart):
        values = cells.get("server_args" if name in apart else name)
        if name == "load":
            values = pd.Series(loads_of(cells), dtype=object)
        elif values is not None and apart and name.startswith("server_args"):
            # One argument, or all that are not looked at by themselves; None where there are none.
            stated = [arguments(text) for text in values]
            values = objects(
                [each.get(name, "") for each in stated]
                if name in apart
                else [tuple((n, v) for n, v in each.items() if n not in apart) or None
                      for each in stated],
                cells.index,
            )  # fmt: skip
        columns[name] = -1 if values is None else pd.factorize(values)[0]
    return pd.DataFrame(columns, index=cells.index, dtype=np.int64)


def conflicts(
    one: NDArray[np.int64], other: NDArray[np.int64], names: Collection[str]
) -> NDArray[np.bool_]:
    """Return where the codes of two rows of cells (rows, ``names``) differ and may not."""
    lenient = np.array([name in UNKNOWN_MATCHES for name in names], dtype=np.bool_)
    return np.asarray((one != other) & ~(lenient & ((one < 0) | (other < 0))))


def filled(cells: pd.DataFrame) -> pd.DataFrame:
    """Return the cells, with facts of UNKNOWN_MATCHES that only some cells of a setting state
    filled in for all of them.

    Where the cells state several values, the others stay unknown: so the arms of a setting stay
    together.
    """
    hard = [name for name in MATCH_FIELDS if name not in (*UNKNOWN_MATCHES, *_OF_A_LEVEL)]
    setting = numbered(cells, ("study", *hard))
    shared = {}
    for name in (name for name in UNKNOWN_MATCHES if name in cells and name not in _OF_A_LEVEL):
        known = cells[name].groupby(setting)
        agreed = known.transform("nunique") == 1
        shared[name] = cells[name].where(cells[name].notna() | ~agreed, known.transform("first"))
    return cells.assign(**shared)


@lru_cache(4096)
def arguments(text: Any) -> Mapping[str, str]:
    """Return the arguments behind JSON text as fields, ``server_args.max-num-seqs``, and their
    values as words; empty where nothing is known."""
    return {
        field_of(name): str(value).lower() for name, value in flat({"server_args": text}).items()
    }


def field_of(name: str) -> str:
    """Return a field's name; a server argument's is the same whichever way it is written."""
    kind, dot, argument = name.partition(".")
    return kind + dot + argument.lstrip("-").lower().replace("_", "-")


def stated_arguments(cells: pd.DataFrame) -> list[str]:
    """Return every server argument that a cell states, as a field."""
    texts = cells["server_args"].unique() if "server_args" in cells else ()
    return sorted({name for text in texts for name in arguments(text)})


def require(named: Collection[str], cells: pd.DataFrame) -> None:
    """Raise UnknownKey for a name that is no match field and no argument that a cell states."""
    there = stated_arguments(cells)
    wrong = next((name for name in named if name not in (*MATCH_FIELDS, *there)), None)
    if wrong is not None and (len(cells) or not wrong.startswith("server_args")):
        raise UnknownKey(
            f"{wrong!r} is no field that pairs must share; use one of {', '.join(MATCH_FIELDS)}, or one "
            f"server argument alone: {', '.join(there) or 'these cells state none'}."
        )


def differing(one: Any, other: Any) -> dict[str, tuple[str, str]]:
    """Return the arguments in which two cells' JSON texts differ, with both values."""
    first, second = arguments(one), arguments(other)
    unsaid = ["not stated" if isinstance(text, str) else "unknown" for text in (one, other)]
    return {
        name: (first.get(name, unsaid[0]), second.get(name, unsaid[1]))
        for name in sorted({*first, *second})
        if first.get(name) != second.get(name)
    }


# --- Engines of two arms: what a method brings with equal arguments is what users get, and is told.


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
    parts: list[str] = []
    for one in sorted(found, key=lambda one: not one.matters):
        first, second = (" against", "") if parts else (" in the baseline,", f" in {arm}")
        values = f"{_said(one.baseline)}{first} {_said(one.arm)}{second}"
        parts.append(f"{one.words} {values}{one.cause}")
    matters = any(one.matters for one in found)
    ran = "ran different engines" if matters else "ran one engine in other sizes"
    return f"The two arms {ran}: {'; '.join(parts)}." if parts else ""


def _said(value: Any) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return f"{value:,}" if isinstance(value, int) else str(value)


def engine_flags(cells: pd.DataFrame, chosen: pd.DataFrame) -> Iterator[tuple[Flag, ...]]:
    """Yield for each pair (row numbers ``b`` and ``s``) a flag where its engines differ."""
    engines = cells.reindex(columns=[*READ]).astype(object)
    pairs = (listed(engines.iloc[chosen[side].to_numpy()], *READ) for side in ("b", "s"))
    for one, other in zip(*pairs, strict=True):
        found = differences(one, other)
        severity: Severity = "warning" if any(x.matters for x in found) else "info"
        yield (Flag("engines_differ", severity, sentence(found, "the other arm")),) if found else ()
