"""The lab's training text: the three kinds in equal parts, none of it held out, none of it kept."""

import hashlib
from collections.abc import Iterator
from random import Random

from runners.texts.generators import KINDS, Document, Kind, documents

CHARS_PER_KIND = 1_500_000


def training_documents(chars_per_kind: int = CHARS_PER_KIND, seed: int = 0) -> list[Document]:
    """Documents of all kinds, up to so many characters of each, shuffled together by seed."""
    found = [d for kind in KINDS for d in _up_to(documents(kind, held_out=False), chars_per_kind)]
    Random(seed).shuffle(found)
    return found


def held_out_text(kind: Kind, chars: int = 60_000) -> str:
    """A stretch of held-out text, to measure on."""
    return "".join(d.text for d in documents(kind, held_out=True))[:chars]


def corpus_hash(found: list[Document]) -> str:
    """Says whether two trainings read the same text."""
    return hashlib.sha256("\0".join(d.text for d in found).encode()).hexdigest()[:32]


def _up_to(found: tuple[Document, ...], chars: int) -> Iterator[Document]:
    """Documents until the characters are used up; the last one may be cut."""
    for document in found:
        if chars <= 0:
            return
        yield Document(document.name, document.text[:chars])
        chars -= len(document.text)
