"""The lab's training text: all three kinds, none of it held out, none of it kept."""

import hashlib
from collections.abc import Iterator, Mapping
from random import Random

from runners.texts.generators import KINDS, Document, Kind, documents

#: Characters of each kind. Structured text is learnt soon; prose is short of text to learn from.
CHARS: Mapping[Kind, int] = {"code": 1_500_000, "structured": 700_000, "prose": 1_500_000}


def training_documents(chars: Mapping[Kind, int] = CHARS, seed: int = 0) -> list[Document]:
    """Return documents of all kinds, up to so many characters of each, shuffled together by
    seed."""
    found = [d for kind in KINDS for d in _up_to(documents(kind, held_out=False), chars[kind])]
    Random(seed).shuffle(found)
    return found


def held_out_text(kind: Kind, chars: int = 60_000) -> str:
    """Return a stretch of held-out text, to measure on."""
    return "".join(d.text for d in documents(kind, held_out=True))[:chars]


def corpus_hash(found: list[Document]) -> str:
    """Return a hash that tells whether two trainings read the same text."""
    return hashlib.sha256("\0".join(d.text for d in found).encode()).hexdigest()[:32]


def _up_to(found: tuple[Document, ...], chars: int) -> Iterator[Document]:
    """Yield documents until the characters are used up; the last one may be cut."""
    for document in found:
        if chars <= 0:
            return
        yield Document(document.name, document.text[:chars])
        chars -= len(document.text)
