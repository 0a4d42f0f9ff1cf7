"""Files that hold one JSON object a line, as load generators append them."""

import hashlib
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import msgspec
import yaml

from ingest import stated
from ingest.read import json_bytes
from ingest.unreadable import UNREADABLE, why
from warehouse.errors import InvalidInput
from warehouse.rows import Flag

# --- YAML that others wrote: plain values only, and none that grows without end as it is read.


_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
#: Aliases let a few lines stand for any number of values; reports hold far fewer than this.
_MOST = 5_000_000
_LARGEST = 256 << 20


def load_yaml(data: memoryview, kind: str) -> dict[str, Any]:
    """Read one mapping from YAML. Raises InvalidInput; ``kind`` is what the file would be."""
    if len(data) > _LARGEST:
        raise InvalidInput(
            f"This YAML, {kind}, is larger than {_LARGEST >> 20} MB: export it as JSON instead."
        )
    try:
        said = yaml.load(bytes(data), Loader=_LOADER)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise InvalidInput(
            f"This YAML, {kind}, cannot be read: {why(error)}; mend it or copy it again."
        ) from None
    if not isinstance(said, dict):
        raise InvalidInput(
            f"This YAML is not {kind}: it holds no names with values, so mend it or copy it again."
        )
    _plain(said, kind)
    return said


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


def _plain(said: Any, kind: str) -> None:
    """Make every name a text, as in JSON: YAML takes numbers and nothing for names too. Raises
    InvalidInput where the values, aliases followed, are too many or without end."""
    waiting, seen = [said], 0
    while waiting:
        one = waiting.pop()
        seen += 1
        if seen > _MOST:
            raise InvalidInput(
                f"This YAML, {kind}, repeats itself by aliases beyond any report: write it anew."
            )
        if isinstance(one, dict):
            for name in [name for name in one if not isinstance(name, str)]:
                one["null" if name is None else str(name)] = one.pop(name)
            waiting.extend(one.values())
        elif isinstance(one, list):
            waiting.extend(one)


# --- Files that hold one JSON object a line, as load generators append them.


_HEAD, _SHORT = 1 << 16, 1 << 12
_Read = TypeVar("_Read")


def lines(data: memoryview) -> Iterator[tuple[int, memoryview]]:
    """Return every line that is not empty, with its number from 1."""
    return ((number, data[start:end]) for number, start, end in _spans(data))


def former(data: memoryview) -> tuple[str, ...]:
    """Return the hashes of what the file held before each of its lines was appended."""
    digest, done = hashlib.sha256(), 0
    found = []
    for _, _, end in list(_spans(data))[:-1]:
        # Some end a line with its newline, some begin the next one with it.
        for part in (data[done:end], data[end : end + 1]):
            digest.update(part)
            found.append(digest.hexdigest())
        done = end + 1
    return tuple(found)


def _spans(data: memoryview) -> Iterator[tuple[int, int, int]]:
    """Yield number, begin and end of every line that is not empty."""
    whole: Any = data.obj
    start, number, size = len(data) - len(json_bytes(data)), 0, len(data)
    while start < size:
        number += 1
        end = whole.find(b"\n", start)
        end = size if end < 0 else end
        if end - start > _SHORT or bytes(data[start:end]).strip():
            yield number, start, end
        start = end + 1


def decoded(
    data: memoryview, decode: Callable[[bytes | memoryview], _Read], kind: str
) -> Iterator[tuple[_Read, tuple[Flag, ...]]]:
    """Yield what ``decode`` makes of each line. ``kind`` is the format's, for the sentence of
    InvalidInput."""
    for number, line in lines(data):
        try:
            yield stated.decoded(line, decode)
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


def members(data: memoryview | bytes) -> dict[str, Any]:
    """Return one JSON object as a dictionary, as it stands: ``time_per_output_token`` is no
    credential."""
    return msgspec.json.decode(data, type=dict[str, Any])
