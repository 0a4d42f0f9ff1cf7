"""What a file states under a name: a number, a count or a section. What else stands there is damage.

A value that is left out, null, or no number in the sense of IEEE 754 is unknown. A text in place of
a number is never passed over: a count of failures that vanished would make a run a good one.
"""

import math
import re
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import msgspec

from ingest.read import json_bytes
from ingest.unreadable import AGAIN, kind
from warehouse.catalogue import METRICS
from warehouse.errors import InvalidInput
from warehouse.rows import Flag

# --- ``NaN`` and ``Infinity`` in a report: Python writes them, JSON has none.


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


# --- What a file states under a name: a number, a count or a section. What else stands there is damage.


Members = Mapping[str, Any]

#: How files without a word for them spell what is no number, as of a rate without a bound.
_NO_NUMBERS = ("inf", "Infinity", "-inf", "-Infinity", "nan", "NaN")
#: How long each is in seconds, by all names that load generators give it.
_SECONDS = {
    **dict.fromkeys(("ns", "nanoseconds"), 1e-9), **dict.fromkeys(("us", "µs", "microseconds"), 1e-6),
    **dict.fromkeys(("ms", "milliseconds"), 1e-3), **dict.fromkeys(("s", "sec", "seconds"), 1.0),
}  # fmt: skip

#: How many of the units of the catalogue's times make a second.
_OF_A_SECOND = {"ms": 1000.0, "s": 1.0}


def number(said: Members, name: str, what: str | None = None) -> float | None:
    """Return the number under a name; None where it is unknown. Raises InvalidInput for anything
    else. ``what``: how to name it there."""
    value = said.get(name)
    if (
        value is None
        or value in _NO_NUMBERS
        or (isinstance(value, float) and not math.isfinite(value))
    ):
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _wrong(what or name, kind(value), "a number")
    return value


def positive(said: Members, name: str) -> Any:
    """Return the number under a name where it is above zero; None elsewhere. Raises InvalidInput."""
    value = number(said, name)
    return value if value is not None and value > 0 else None


def count(said: Members, name: str) -> int | None:
    """Return the whole number under a name; None where it is unknown. Raises InvalidInput."""
    value = number(said, name)
    if value is not None and value != int(value):
        raise _wrong(name, f"{value:g}", "a whole number")
    return None if value is None else int(value)


def section(said: Members, name: str) -> dict[str, Any]:
    """Return the object under a name, an empty one where nothing is said. Raises InvalidInput."""
    value = said.get(name)
    if value is not None and not isinstance(value, dict):
        raise _wrong(name, kind(value), "an object")
    return value or {}


def seconds(said: Members, unit: str, name: str) -> float:
    """Return the length in seconds of the unit that an object states for a time. Raises InvalidInput
    for one that nobody knows; ``unit``: the one where it states none; ``name``: of the object."""
    told = said.get("unit", said.get("units")) or unit
    known = _SECONDS.get(str(told).lower().removesuffix("/token"))
    if known is None:
        raise _wrong(f"the unit of {name}", f"{str(told)[:20]!r}", "ms, s, us or ns")
    return known


def in_its_unit(metric: str, said: Members, unit: str, name: str) -> float:
    """Return what the statistics of a time are multiplied with to have the catalogue's unit; 1 for
    what is no time. ``unit``: theirs where they state none. Raises InvalidInput for one that nobody
    knows."""
    of_a_second = _OF_A_SECOND.get(METRICS[metric].unit)
    return 1.0 if of_a_second is None or not said else seconds(said, unit, name) * of_a_second


def _wrong(name: str, found: str, wanted: str) -> InvalidInput:
    return InvalidInput(f"{name} is {found} where {wanted} belongs; {AGAIN}.")
