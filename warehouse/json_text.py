"""Answers as JSON: the one place where a value becomes its text."""

import json
from collections.abc import Mapping
from math import isfinite
from typing import Any


def finite(value: Any) -> Any:
    """Return the value with None for every number in it that JSON has no word for: a bound that lies
    beyond all numbers, and what is not a number."""
    if isinstance(value, float):
        return value if isfinite(value) else None
    if isinstance(value, Mapping):
        return {name: finite(one) for name, one in value.items()}
    return [finite(one) for one in value] if isinstance(value, list | tuple) else value


def json_text(value: Any, indent: int | None = None, plain: bool = True) -> str:
    """Return the value as JSON. ``plain``: only in ASCII, so that a terminal can show it as it is; of
    a kind that JSON does not know it holds the text."""
    return json.dumps(
        finite(value), allow_nan=False, default=str, indent=indent, ensure_ascii=plain
    )
