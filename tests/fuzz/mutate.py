"""Changes a sample as damage, other versions and bad luck would: most of it stays what it was."""

import copy
import json
import random
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

Path = tuple[Any, ...]
_NUMBERS = (
    0, -1, 1, 0.5, -0.0, 1e-9, 1e9, 1e15, 2**31, 2**53, 2**63, 2**64, 10**30, -(2**63), 1e308,
    float("nan"), float("inf"), float("-inf"), 1e-320, True,
)  # fmt: skip
_TEXTS = (
    "", " ", "\x00", "\ud800", "\u202e", "NaN", "1e999", "-5", "none", "null", "a" * 5000,
    "../../etc/passwd", "'; drop table cells; --", "=1+1", "<b>x</b>", "-" * 3000, "20261399-999999",
)  # fmt: skip
_OTHERS: tuple[Any, ...] = (None, [], {}, "", 0, [None], {"": None}, [[[]]], True)


def mutated(sample: Any, source: random.Random) -> bytes:
    """The sample with one to four changes, as bytes; sometimes damaged as bytes too."""
    with _deep_values():
        value = copy.deepcopy(sample)
        for _ in range(source.choice((1, 1, 1, 2, 4))):
            value = _change(value, source)
        data = json.dumps(value).encode()
    return _damaged(data, source) if source.random() < 0.1 else data


@contextmanager
def _deep_values() -> Iterator[None]:
    """Let Python walk through what was made deep four times over; what reads it keeps its limit."""
    usual = sys.getrecursionlimit()
    sys.setrecursionlimit(10_000)
    try:
        yield
    finally:
        sys.setrecursionlimit(usual)


def _change(value: Any, source: random.Random) -> Any:
    paths = [path for path in _paths(value, ()) if path]
    if not paths:
        return source.choice(_OTHERS)
    path = _deep(paths, source)
    holder = _at(value, path[:-1])
    source.choice(_CHANGES)(holder, path[-1], source)
    return value


def _deep(paths: list[Path], source: random.Random) -> Path:
    """A path, as often of a short one as of one of the many that end in lists of requests."""
    depth = source.choice(sorted({len(path) for path in paths}))
    return source.choice([path for path in paths if len(path) == depth])


def _paths(value: Any, path: Path) -> list[Path]:
    found = [path]
    members = value.items() if isinstance(value, dict) else ()
    if isinstance(value, list):
        members = enumerate(value[:40])
    for key, member in members:
        found += _paths(member, (*path, key))
    return found


def _at(value: Any, path: Path) -> Any:
    for key in path:
        value = value[key]
    return value


def _number(holder: Any, key: Any, source: random.Random) -> None:
    known = holder[key]
    if isinstance(known, int | float) and source.random() < 0.6:
        holder[key] = known * source.choice((-1, 0.1, 0.7, 1.5, 2, 10, 1000, 1e6))
    else:
        holder[key] = source.choice(_NUMBERS)


def _text(holder: Any, key: Any, source: random.Random) -> None:
    holder[key] = source.choice(_TEXTS)


def _other(holder: Any, key: Any, source: random.Random) -> None:
    holder[key] = copy.deepcopy(source.choice(_OTHERS))


def _gone(holder: Any, key: Any, source: random.Random) -> None:
    del holder[key]


def _deeper(holder: Any, key: Any, source: random.Random) -> None:
    for _ in range(source.choice((1, 3, 60, 400))):
        holder[key] = source.choice(([holder[key]], {"x": holder[key]}))


def _again(holder: Any, key: Any, source: random.Random) -> None:
    if isinstance(holder, list):
        holder[key:key] = [copy.deepcopy(holder[key])] * source.choice((1, 2, 30))
    else:
        holder[f"{key}_"] = holder[key]


def _shorter(holder: Any, key: Any, source: random.Random) -> None:
    if isinstance(holder[key], list | str):
        holder[key] = holder[key][: source.randint(0, max(len(holder[key]) - 1, 0))]


def _swapped(holder: Any, key: Any, source: random.Random) -> None:
    other = source.choice(list(holder) if isinstance(holder, dict) else range(len(holder)))
    holder[key], holder[other] = holder[other], holder[key]


_CHANGES: tuple[Callable[[Any, Any, random.Random], None], ...] = (
    _number, _number, _number, _text, _other, _gone, _deeper, _again, _shorter, _swapped,
)  # fmt: skip


def _damaged(data: bytes, source: random.Random) -> bytes:
    at = source.randrange(len(data)) if data else 0
    how = source.randrange(4)
    if how == 0:
        return data[:at]
    if how == 1:
        return data[:at] + source.randbytes(source.choice((1, 4, 64))) + data[at:]
    if how == 2:
        return data[:at] + source.randbytes(1) + data[at + 1 :]
    return data[:at] + data[source.randrange(len(data)) :]
