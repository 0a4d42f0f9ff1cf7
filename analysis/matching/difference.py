"""How two cells or runs differ in what they were, not in what they measured."""

import json
import re
import shlex
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

#: What says how it went, or when and where it is kept, and not what was run.
OUTCOMES: frozenset[str] = frozenset(
    {
        "cell", "cell_id", "source_id", "index", "run_id", "path", "ingested_at", "started_at",
        "ended_at", "duration", "requests_made", "completed", "errored", "incomplete",
        "requests_complete", "stop_reason", "status", "failure", "failure_cause", "flags", "bytes",
        "repeat", "order", "launch", "attempt", "timeline", "log_excerpt", "cells", "failed",
        "fingerprint", "provenance",
    }
)  # fmt: skip
#: What an engine made of its arguments; its sizes differ by less than this share from start to start.
_ENGINE, _APART = "engine_settings.", 0.01
_OPTION = re.compile(r"--?(?P<name>[A-Za-z][\w.-]*)(?:=(?P<value>.*))?", re.DOTALL)


@dataclass(frozen=True)
class Change:
    """One field (``server_args.max_num_seqs``) and its two values; None where one lacks it."""

    field: str
    before: Any
    after: Any

    @property
    def sentence(self) -> str:
        """The change in words: ``engine version: 0.30.0 → 0.32.0``."""
        return f"{self.field}: {_said(self.before)} → {_said(self.after)}"


def differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> tuple[Change, ...]:
    """Return the fields in which two records differ, by name.

    Records are rows of the queries cells or runs. JSON text is taken apart, so that one server
    argument is one field; command lines are compared option by option, in any order. OUTCOMES are
    left out, and so is what neither states, and of an engine's own settings what is ``alike``.
    """
    one, other = flat(before), flat(after)
    return tuple(
        Change(name, one.get(name), other.get(name))
        for name in sorted(one.keys() | other.keys())
        if one.get(name) != other.get(name)
        and not (name.startswith(_ENGINE) and alike(one.get(name), other.get(name)))
    )


def alike(one: Any, other: Any) -> bool:
    """Return whether a setting of two engines may be the same: unknown of one, equal, or a size that
    no two starts have quite alike."""
    if one is None or other is None or one == other:
        return True
    numbers = isinstance(one, int) and isinstance(other, int)
    return numbers and abs(other - one) <= _APART * abs(one)


def flat(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return the record's stated fields, nested ones with a dotted name."""
    found: dict[str, Any] = {}
    for name, value in record.items():
        if name not in OUTCOMES:
            found |= _flat(str(name), _parsed(value))
    return found


def _flat(name: str, value: Any) -> dict[str, Any]:
    if isinstance(value, Mapping):
        inner: dict[str, Any] = {}
        for key, part in value.items():
            inner |= _flat(f"{name}.{key}", _parsed(part))
        return inner
    if isinstance(value, (list, tuple)):
        if name.startswith("commands."):
            return _flat(name, options(value))
        return {name: tuple(value)} if value else {}
    return {} if value is None or pd.isna(value) else {name: value}


def options(command: Sequence[Any]) -> dict[str, Any]:
    """Return a command line as option -> value (True for a bare one); ``words`` holds the rest."""
    left = deque(word for part in command for word in _words(str(part)))
    found: dict[str, Any] = {}
    plain: list[str] = []
    while left:
        word = left.popleft()
        match = _OPTION.fullmatch(word)
        if match is None:
            plain.append(word)
        elif match["value"] is not None:
            found[match["name"]] = match["value"]
        elif left and _OPTION.fullmatch(left[0]) is None:
            found[match["name"]] = left.popleft()
        else:
            found[match["name"]] = True
    return found | ({"words": " ".join(plain)} if plain else {})


def _words(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:
        return text.split()


def _parsed(value: Any) -> Any:
    if isinstance(value, str) and value[:1] in ("{", "["):
        try:
            return json.loads(value)
        except ValueError:
            return value
    return value.item() if hasattr(value, "item") and not hasattr(value, "__len__") else value


def _said(value: Any) -> str:
    if value is None:
        return "not stated"
    return ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)
