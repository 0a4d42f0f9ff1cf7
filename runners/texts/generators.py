"""Built-in texts: code, prose and structured documents, and the prompts cut from them.

One document in twelve is held out: prompts come from these alone, the lab's models are trained on
the others (``runners/lab``). Which ones is decided by the document's name, so the rule holds
on every machine and for every Python version.
"""

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from random import Random
from typing import Literal, get_args

from runners.texts import text_stdlib, text_structured

Kind = Literal["code", "structured", "prose"]
KINDS: tuple[Kind, ...] = get_args(Kind)
HELD_OUT_ONE_IN = 12
_SOURCES: dict[Kind, Callable[[Callable[[str], bool]], Iterator[tuple[str, str]]]] = {
    "code": text_stdlib.code_documents,
    "structured": text_structured.documents,
    "prose": text_stdlib.prose_documents,
}


@dataclass(frozen=True)
class Document:
    """One text; its name says where it comes from and whether it is held out."""

    name: str
    text: str


def is_held_out(name: str) -> bool:
    """Return whether a document is kept from training; code and docstrings of a module share its
    name."""
    return int(_digest(name)[:16], 16) % HELD_OUT_ONE_IN == 0


@cache
def documents(kind: Kind, held_out: bool) -> tuple[Document, ...]:
    """Return the documents of a kind to ask about, or to train on.

    Ordered by a hash of their names, so that the first few are a fair sample of all.
    """
    found = _SOURCES[kind](lambda name: is_held_out(name) is held_out)
    return tuple(Document(*pair) for pair in sorted(found, key=lambda pair: _digest(pair[0])))


def prompts(kind: Kind, min_chars: int = 150, max_chars: int = 320) -> list[str]:
    """Return every prompt that the held-out documents give: distinct, none overlapping another.

    A prompt starts at a line's start, ends at a line's end, and has between ``min_chars`` and
    ``max_chars`` characters; its length is drawn from a seed of the document's own.
    """
    found: dict[str, None] = {}
    for document in documents(kind, held_out=True):
        found.update(dict.fromkeys(_cut(document, min_chars, max_chars)))
    return list(found)


def _cut(document: Document, min_chars: int, max_chars: int) -> Iterator[str]:
    rng = Random(document.name)
    wanted, text = rng.randint(min_chars, max_chars), ""
    for line in document.text.splitlines(keepends=True):
        if len(text) + len(line) > max_chars:
            text = ""  # too short as it stands, too long with this line
        text = (text + line if text else line.lstrip("\n"))[: max_chars + 1]
        if wanted <= len(text.rstrip()) <= max_chars:
            yield text.rstrip()
            wanted, text = rng.randint(min_chars, max_chars), ""


def _digest(name: str) -> str:
    return hashlib.sha256(name.encode()).hexdigest()
