"""What a file holds, read without trust: JSON with NaN, YAML, one JSON object a line, and what stands under a name.

A value that is left out, null, or no number in the sense of IEEE 754 is unknown. A text in place of
a number is never passed over: a count of failures that vanished would make a run a good one.
"""

import hashlib
import json
import math
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, TypeVar

import msgspec
import pyarrow as pa
import yaml
from pydantic import ValidationError

from ingest.model import json_bytes
from warehouse.catalogue import METRICS
from warehouse.errors import InvalidInput
from warehouse.rows import Flag
from warehouse.secrets import scrub_text

# --- What cannot be read, and why, in words for whoever gave it: never in those of a library.


#: What decoding a JSON text may raise.
UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
#: What parsing foreign data may raise where an adapter did not foresee it.
BROKEN = (ValueError, TypeError, LookupError, ArithmeticError, RecursionError, AttributeError)
#: What to do about a file that a load generator wrote.
AGAIN = "run it again, or give the file that the load generator wrote"

_KINDS = {
    "int": "a whole number", "float": "a number", "finite": "a number", "str": "a text",
    "string": "a text", "bool": "true or false", "array": "a list", "list": "a list",
    "object": "an object", "dict": "an object", "model": "an object", "null": "null",
    "datetime": "a time like 2026-01-31T12:00:00Z",
}  # fmt: skip
_FOUND = _KINDS | {"int": "a number", "float": "a decimal number"}
_OTHER_TYPE = re.compile(r"Expected `(.+?)`, got `(.+?)`")
_LACKS = re.compile(r"missing required field `(.+?)`")
_AT = re.compile(r" - at (`key` in )?`\$\.?(.*)`$")
_BYTE = re.compile(r"\(byte (\d+)\)$")
_REASONS: dict[type[Exception], str] = {
    RecursionError: "it is nested too deeply",
    pa.ArrowException: "a number is too large, or has a fraction where a whole one belongs",
    OverflowError: "a number is too large",
}
_BOUNDS = {"ge": "at least", "gt": "more than", "le": "at most", "lt": "less than"}


def refusal(what: str, error: Exception) -> InvalidInput:
    """Return the refusal of a file that a load generator wrote: what it is, why, what to do."""
    return InvalidInput(f"{what} cannot be read: {why(error)}; {AGAIN}.")


def sentence(error: BaseException) -> str:
    """Say why a unit is refused whose reading raised this."""
    if isinstance(error, InvalidInput):
        return str(error)
    if isinstance(error, RecursionError):
        return "This is nested too deep to be a result: look at what it holds, or copy it again."
    if isinstance(error, ValidationError | msgspec.DecodeError | pa.ArrowException | OverflowError):
        return str(refusal("This report", error))
    return f"This report is not built like any known one, or was altered; {AGAIN}."


@contextmanager
def part(name: str, alone: bool = False) -> Iterator[None]:
    """Name the line or row of a file in which the refused thing stands, where it is not alone."""
    try:
        yield
    except (InvalidInput, *BROKEN) as error:
        if alone:
            raise
        raise InvalidInput(f"{name} of this file: {sentence(error)}") from None


def why(error: Exception) -> str:
    """Return what is wrong with what reading it raised this for, as a clause without its end."""
    match error:
        case ValidationError():
            return _contract(error)
        case msgspec.ValidationError():
            return _field(str(error))
        case msgspec.DecodeError() | json.JSONDecodeError():
            byte = _BYTE.search(str(error))
            where = f"byte {byte[1]}" if byte else None
            if isinstance(error, json.JSONDecodeError):
                is_over = error.pos >= len(error.doc.rstrip()) or error.msg.startswith("Untermin")
                where = None if is_over else f"character {error.pos}"
            if where is None:
                return "it ends in the middle, so it was cut off or altered"
            return f"it is no JSON from {where} on, so it is damaged or was cut off"
        case UnicodeDecodeError():
            return f"it is no text in UTF-8 from byte {error.start} on"
        case yaml.MarkedYAMLError(problem_mark=yaml.Mark(line=line)):
            return f"it is no YAML from line {line + 1} on, so it is damaged or was cut off"
        case yaml.YAMLError():
            return "it holds characters that are none in YAML"
        case OSError():
            return error.strerror or "the system does not say why"
        case _:
            reasons = (words for kind, words in _REASONS.items() if isinstance(error, kind))
            return next(reasons, "it holds a value that cannot be")


def shown(value: Any) -> str:
    """Return a value as a sentence may repeat it: what is long is named by its kind alone."""
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    if isinstance(value, int | float):
        return "too large a number" if abs(value) > 1e308 else f"{value:.15g}"
    if isinstance(value, str):
        # A longer text is not repeated in a sentence.
        return repr(scrub_text(value)) if len(value) <= 40 else "a long text"
    return kind(value)


def kind(value: Any) -> str:
    """Return what a value is, in a word or two: ``a text``, ``true or false``."""
    return _FOUND.get(type(value).__name__, "something else")


def belongs(error: ValidationError) -> str:
    """Return what belongs where the contract was not kept first."""
    first = error.errors(include_url=False, include_input=False)[0]
    broken, bounds = first["type"], first.get("ctx", {})
    if broken == "literal_error":
        return str(bounds["expected"])
    if broken.startswith("string_too"):
        most = bounds.get("max_length")
        return "a text that is not empty" if most is None else f"a text of at most {most} letters"
    for key, words in _BOUNDS.items():
        if key in bounds:
            return f"a number of {words} {bounds[key]:g}"
    return _KINDS.get(broken.partition("_")[0], "another value")


def _contract(error: ValidationError) -> str:
    first = error.errors(include_url=False)[0]
    path = [f"[{part}]" if isinstance(part, int) else f".{part}" for part in first["loc"]]
    *above, name = path or [""]
    if first["type"] == "missing":
        return f"{''.join(above).lstrip('.') or 'it'} lacks {name.lstrip('.')}"
    where = "".join((*above, name)).lstrip(".") or "it"
    if first["type"] == "extra_forbidden":
        return f"it has {where}, which the contract does not know"
    return f"{where} is {shown(first['input'])} where {belongs(error)} belongs"


def _field(message: str) -> str:
    at = _AT.search(message)
    where = (at[2].replace("[...]", "[…]") if at else "") or "it"
    if at and at[1]:
        where = f"a name in {where}"
    if lacks := _LACKS.search(message):
        return f"{where} lacks {lacks[1]}"
    if other := _OTHER_TYPE.search(message):
        wanted = [_KINDS.get(kind, kind) for kind in other[1].split(" | ") if kind != "null"]
        stands = _FOUND.get(other[2], other[2])
        return f"{where} is {stands} where {' or '.join(wanted) or 'null'} belongs"
    return f"{where} is out of range"


# --- ``NaN`` and ``Infinity`` in a report: Python writes them, JSON has none.


FLAG = Flag(
    "not_a_number", "warning",
    "The report holds NaN or Infinity where a number belongs; these values count as unknown.",
)  # fmt: skip
#: A text that never ends reaches to the end, so that it is looked at once.
_WORDS = re.compile(rb'"(?:[^"\\]++|\\(?s:.))*+(?:"|\\?\Z)|-?Infinity|NaN')
_Decoded = TypeVar("_Decoded")


def decoded(
    data: memoryview, decode: Callable[[bytes | memoryview], _Decoded], infinity: bytes = b"null"
) -> tuple[_Decoded, tuple[Flag, ...]]:
    """Return what ``decode`` makes of the data, read again with null for NaN where it is no JSON, and
    without the byte order mark that Windows writes.

    ``infinity`` stands for Infinity; texts stay as they are. Raises what ``decode`` raises.
    """
    data = json_bytes(data)
    try:
        return decode(data), ()
    except msgspec.DecodeError as error:
        if isinstance(error, msgspec.ValidationError) or "invalid character" not in str(error):
            raise

    def replaced(match: re.Match[bytes]) -> bytes:
        word = match[0]
        if word.startswith(b'"'):
            return word
        return infinity if word == b"Infinity" else b"null"

    return decode(_WORDS.sub(replaced, data)), (FLAG,)


def held_by(content: Mapping[str, Any]) -> tuple[Flag, ...]:
    """Return the flag where a value that is read already, as of YAML, holds one of them."""
    numbers = (value for value in _nested(content) if isinstance(value, float))
    return () if all(map(math.isfinite, numbers)) else (FLAG,)


def _nested(content: Any) -> Iterator[Any]:
    """Yield a value and all that it holds; what whoever is given a value adds to it is among them."""
    waiting = [content]
    while waiting:
        yield (value := waiting.pop())
        if isinstance(value, dict | list):
            waiting.extend(value.values() if isinstance(value, dict) else value)


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


def number(fields: Members, name: str, what: str | None = None) -> float | None:
    """Return the number under a name; None where it is unknown. Raises InvalidInput for anything
    else. ``what``: how to name it there."""
    value = fields.get(name)
    if (
        value is None
        or value in _NO_NUMBERS
        or (isinstance(value, float) and not math.isfinite(value))
    ):
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _wrong(what or name, kind(value), "a number")
    return value


def positive(fields: Members, name: str) -> Any:
    """Return the number under a name where it is above zero; None elsewhere. Raises InvalidInput."""
    value = number(fields, name)
    return value if value is not None and value > 0 else None


def count(fields: Members, name: str) -> int | None:
    """Return the whole number under a name; None where it is unknown. Raises InvalidInput."""
    value = number(fields, name)
    if value is not None and value != int(value):
        raise _wrong(name, f"{value:g}", "a whole number")
    return None if value is None else int(value)


def object_of(value: Any) -> dict[str, Any]:
    """Return an object as it is, an empty one in place of anything else."""
    return value if isinstance(value, dict) else {}


def objects_of(value: Any) -> list[dict[str, Any]]:
    """Return the objects of a list, or of an object's values; none of anything else."""
    listed = list(value.values()) if isinstance(value, dict) else value
    return [each for each in listed if isinstance(each, dict)] if isinstance(listed, list) else []


def text_of(value: Any) -> str | None:
    """Return a text that is not empty; None in place of anything else."""
    return value if isinstance(value, str) and value else None


def failure_of(error: Mapping[str, Any] | None, *names: str) -> str | None:
    """Return what the first of the names that is there says of an error; None without one."""
    if error is None:
        return None
    return " ".join(str(next(filter(None, map(error.get, names)), "failed")).split())


def moment_of(seconds: float | None) -> datetime | None:
    """Return a moment in unix seconds as a time in UTC; None where it is unknown, or is none."""
    try:
        return None if seconds is None else datetime.fromtimestamp(seconds, UTC)
    except (OverflowError, OSError, ValueError):
        return None


def section(fields: Members, name: str) -> dict[str, Any]:
    """Return the object under a name, an empty one where nothing is said. Raises InvalidInput."""
    value = fields.get(name)
    if value is not None and not isinstance(value, dict):
        raise _wrong(name, kind(value), "an object")
    return value or {}


def seconds(fields: Members, unit: str, name: str) -> float:
    """Return the length in seconds of the unit that an object states for a time. Raises InvalidInput
    for one that nobody knows; ``unit``: the one where it states none; ``name``: of the object."""
    stated = str(fields.get("unit", fields.get("units")) or unit)
    length = _SECONDS.get(stated.lower().removesuffix("/token"))
    if length is None:
        raise _wrong(f"the unit of {name}", f"{stated[:20]!r}", "ms, s, us or ns")
    return length


def in_its_unit(metric: str, fields: Members, unit: str, name: str) -> float:
    """Return what the statistics of a time are multiplied with to have the catalogue's unit; 1 for
    what is no time. ``unit``: theirs where they state none. Raises InvalidInput for one that nobody
    knows."""
    of_a_second = _OF_A_SECOND.get(METRICS[metric].unit)
    return 1.0 if of_a_second is None or not fields else seconds(fields, unit, name) * of_a_second


def _wrong(name: str, stated: str, wanted: str) -> InvalidInput:
    return InvalidInput(f"{name} is {stated} where {wanted} belongs; {AGAIN}.")


# --- YAML that others wrote: plain values only, and none that grows without end as it is read.


_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_LARGEST = 256 << 20


def load_yaml(data: memoryview, kind: str) -> dict[str, Any]:
    """Read one mapping from YAML. Raises InvalidInput; ``kind`` is what the file would be."""
    if len(data) > _LARGEST:
        raise InvalidInput(
            f"This YAML, {kind}, is larger than {_LARGEST >> 20} MB: export it as JSON instead."
        )
    try:
        content = yaml.load(bytes(data), Loader=_LOADER)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise InvalidInput(
            f"This YAML, {kind}, cannot be read: {why(error)}; mend it or copy it again."
        ) from None
    if not isinstance(content, dict):
        raise InvalidInput(
            f"This YAML is not {kind}: it holds no names with values, so mend it or copy it again."
        )
    _plain(content, kind)
    return content


def load_report(data: memoryview, kind: str) -> dict[str, Any]:
    """Read a report from YAML, which has no end of its own. Raises InvalidInput, also where it is cut
    off within a line: every writer of YAML ends the last one."""
    if bytes(data[-1:]) != b"\n":
        raise cut_off(kind)
    return load_yaml(data, kind)


def cut_off(kind: str) -> InvalidInput:
    """Return what is said of a report in YAML whose end is not there."""
    return InvalidInput(
        f"This YAML, {kind}, is cut off: it ends before all was written; copy it again from its "
        "source."
    )


def _plain(content: Any, kind: str) -> None:
    """Make every name a text, as in JSON: YAML takes numbers and nothing for names too. Raises
    InvalidInput where the values, aliases followed, are too many or without end.
    """
    for number, value in enumerate(_nested(content), start=1):
        # Aliases let a few lines stand for any number of values; reports hold far fewer than this.
        if number > 5_000_000:
            raise InvalidInput(
                f"This YAML, {kind}, repeats itself by aliases beyond any report: write it anew."
            )
        for name in (
            [name for name in value if not isinstance(name, str)] if isinstance(value, dict) else ()
        ):
            value["null" if name is None else str(name)] = value.pop(name)


# --- Files that hold one JSON object a line, as load generators append them.


_HEAD, _SHORT = 1 << 16, 1 << 12
_members = msgspec.json.Decoder(dict[str, Any]).decode


def lines(data: memoryview) -> Iterator[tuple[int, memoryview]]:
    """Return every line that is not empty, with its number from 1."""
    return ((number, data[start:end]) for number, start, end in _spans(data))


def former(data: memoryview) -> tuple[str, ...]:
    """Return the hashes of what the file held before each of its lines was appended."""
    digest, done, hashes = hashlib.sha256(), 0, []
    for _, _, end in list(_spans(data))[:-1]:
        # Some end a line with its newline, some begin the next one with it.
        for part in (data[done:end], data[end : end + 1]):
            digest.update(part)
            hashes.append(digest.hexdigest())
        done = end + 1
    return tuple(hashes)


def _spans(data: memoryview) -> Iterator[tuple[int, int, int]]:
    whole: Any = data.obj
    start, number, size = len(data) - len(json_bytes(data)), 0, len(data)
    while start < size:
        number += 1
        end = whole.find(b"\n", start)
        end = size if end < 0 else end
        if end - start > _SHORT or bytes(data[start:end]).strip():
            yield number, start, end
        start = end + 1


def decoded_lines(
    data: memoryview, decode: Callable[[bytes | memoryview], _Decoded], kind: str
) -> Iterator[tuple[int, tuple[_Decoded, tuple[Flag, ...]]]]:
    """Yield the number of each line and what ``decode`` makes of it. ``kind`` is the format's, for the
    sentence of InvalidInput."""
    for number, line in lines(data):
        try:
            yield number, decoded(line, decode)
        except UNREADABLE as error:
            raise InvalidInput(
                f"Line {number} of this file, {kind}, cannot be read ({why(error)}): the run that wrote "
                "it was cut off or the line was altered; remove it or run that one again."
            ) from None


def head_of(data: memoryview, size: int = _HEAD) -> bytes:
    """Return the beginning of a file, by which it is recognised."""
    return bytes(json_bytes(data)[:size]).lstrip()


def starts_object(head: bytes, *marks: bytes) -> bool:
    """Return whether a head begins a JSON object and names all of the keys."""
    return head[:1] == b"{" and all(b'"' + mark + b'"' in head for mark in marks)


def json_object(data: memoryview, what: str) -> tuple[dict[str, Any], tuple[Flag, ...]]:
    """Return a file's one JSON object, and the flag where it holds NaN. Raises InvalidInput, which calls
    the file ``what``."""
    try:
        return decoded(data, _members)
    except UNREADABLE as error:
        raise refusal(what, error) from None
