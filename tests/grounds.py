"""What answers stand on, kept from one test to the next: reading and comparing a study is most of
what a page or a command costs, and comes out the same as long as the warehouse does."""

import pytest

from answers.ground import Asked, Ground, ground
from warehouse.store import Reader

#: Where an answer takes it from.
_TAKEN = (
    "answers.decide.read.read",
    "answers.compare.read.ground",
    "answers.published.answer.ground",
)
_MOST = 16
_kept: dict[str, Ground] = {}


def kept(reader: Reader, asked: Asked) -> Ground:
    """``ground``, computed once for a generation, the runs excluded from it, and what is asked."""
    key = repr((_seen(reader), asked))
    if key not in _kept:
        if len(_kept) == _MOST:
            del _kept[next(iter(_kept))]
        _kept[key] = ground(reader, asked)
    return _kept[key]


def _seen(reader: Reader) -> tuple[object, ...]:
    """What tells apart all that readers have before them, also in a warehouse that is made anew."""
    current = reader.root.resolve() / "CURRENT"
    written = current.stat().st_mtime_ns if current.exists() else None
    return current, written, reader.generation, reader._annotated, reader._everything


def keep(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every answer take it from here until the test is over."""
    for name in _TAKEN:
        monkeypatch.setattr(name, kept)
