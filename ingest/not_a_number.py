"""``NaN`` and ``Infinity`` in a report: Python writes them, JSON has none."""

import math
import re
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

from ingest.read import json_bytes
from warehouse.rows import Flag

FLAG = Flag(
    "not_a_number", "warning",
    "The report holds NaN or Infinity where a number belongs; these values count as unknown.",
)  # fmt: skip
#: A text that never ends reaches to the end, so that it is looked at once.
_WORDS = re.compile(rb'"(?:[^"\\]++|\\(?s:.))*+(?:"|\\?\Z)|-?Infinity|NaN')
_Read = TypeVar("_Read")


def decoded(
    data: memoryview, decode: Callable[[bytes | memoryview], _Read], infinity: bytes = b"null"
) -> tuple[_Read, tuple[Flag, ...]]:
    """Return what ``decode`` makes of the data, read again with null for NaN where it is no JSON, and
    without the byte order mark that Windows writes.

    ``infinity`` stands for Infinity; texts stay as they are. Raises what ``decode`` raises.
    """
    data = json_bytes(data)
    try:
        return decode(data), ()
    except msgspec.DecodeError as error:
        malformed = not isinstance(error, msgspec.ValidationError)
        if not malformed or "invalid character" not in str(error):
            raise

    def replaced(match: re.Match[bytes]) -> bytes:
        word = match[0]
        if word.startswith(b'"'):
            return word
        return infinity if word == b"Infinity" else b"null"

    return decode(_WORDS.sub(replaced, data)), (FLAG,)


def held_by(said: dict[str, Any]) -> tuple[Flag, ...]:
    """Return the flag where a value that is read already, as of YAML, holds one of them."""
    waiting: list[Any] = [said]
    while waiting:
        one = waiting.pop()
        if isinstance(one, float) and not math.isfinite(one):
            return (FLAG,)
        if isinstance(one, dict | list):
            waiting.extend(one.values() if isinstance(one, dict) else one)
    return ()
