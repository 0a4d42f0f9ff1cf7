"""What cannot be read, and why, in words for whoever gave it: never in those of a library."""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import msgspec
import pyarrow as pa
import yaml
from pydantic import ValidationError

from warehouse.errors import InvalidInput
from warehouse.secrets import scrub_text

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
_WORDS: dict[type[Exception], str] = {
    RecursionError: "it is nested too deeply",
    pa.ArrowException: "a number is too large, or has a fraction where a whole one belongs",
    OverflowError: "a number is too large",
}
_ELSE = "it holds a value that cannot be"
#: A longer text is not repeated in a sentence.
_LONGEST = 40
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
            return _json(error)
        case UnicodeDecodeError():
            return f"it is no text in UTF-8 from byte {error.start} on"
        case yaml.YAMLError():
            return _yaml(error)
        case OSError():
            return error.strerror or "the system does not say why"
        case _:
            return next((words for one, words in _WORDS.items() if isinstance(error, one)), _ELSE)


def shown(value: Any) -> str:
    """Return a value as a sentence may repeat it: what is long is named by its kind alone."""
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    if isinstance(value, int | float):
        return "too large a number" if abs(value) > 1e308 else f"{value:.15g}"
    if isinstance(value, str):
        return repr(scrub_text(value)) if len(value) <= _LONGEST else "a long text"
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
    *above, name = _path(first["loc"])
    if first["type"] == "missing":
        return f"{''.join(above).lstrip('.') or 'it'} lacks {name.lstrip('.')}"
    where = "".join((*above, name)).lstrip(".") or "it"
    if first["type"] == "extra_forbidden":
        return f"it has {where}, which the contract does not know"
    return f"{where} is {shown(first['input'])} where {belongs(error)} belongs"


def _path(parts: tuple[int | str, ...]) -> list[str]:
    return [f"[{one}]" if isinstance(one, int) else f".{one}" for one in parts] or [""]


def _field(said: str) -> str:
    at = _AT.search(said)
    where = (at[2].replace("[...]", "[…]") if at else "") or "it"
    if at and at[1]:
        where = f"a name in {where}"
    if lacks := _LACKS.search(said):
        return f"{where} lacks {lacks[1]}"
    if other := _OTHER_TYPE.search(said):
        wanted = [_KINDS.get(one, one) for one in other[1].split(" | ") if one != "null"]
        found = _FOUND.get(other[2], other[2])
        return f"{where} is {found} where {' or '.join(wanted) or 'null'} belongs"
    return f"{where} is out of range"


def _json(error: Exception) -> str:
    if isinstance(error, json.JSONDecodeError):
        is_over = error.pos >= len(error.doc.rstrip()) or error.msg.startswith("Unterminated")
        place = None if is_over else f"character {error.pos}"
    else:
        byte = _BYTE.search(str(error))
        place = f"byte {byte[1]}" if byte else None
    if place is None:
        return "it ends in the middle, so it was cut off or altered"
    return f"it is no JSON from {place} on, so it is damaged or was cut off"


def _yaml(error: yaml.YAMLError) -> str:
    mark = getattr(error, "problem_mark", None)
    if mark is None:
        return "it holds characters that are none in YAML"
    return f"it is no YAML from line {mark.line + 1} on, so it is damaged or was cut off"
