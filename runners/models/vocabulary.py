"""Tokens and their numbers, read from tokenizer files: a draft speaks to its target in numbers."""

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

#: tokenizer files that are compared as they are, because only their own library reads them
_OPAQUE = ("tokenizer.model", "tekken.json", "tiktoken.model", "vocab.txt", "spiece.model")
_TEMPLATES = ("chat_template.jinja", "chat_template.json")


@dataclass(frozen=True)
class Vocabulary:
    """The number of each token; or, where a file cannot be read here, the hash of that file."""

    ids: dict[str, int] | None = None
    digest: str | None = None


@dataclass(frozen=True)
class Difference:
    """How two vocabularies differ: tokens under other numbers, and tokens that only one of them
    has."""

    renumbered: int
    only_first: int
    only_second: int

    @property
    def is_none(self) -> bool:
        """Whether the two vocabularies are the same."""
        return not (self.renumbered or self.only_first or self.only_second)


def read(folder: Path) -> Vocabulary | None:
    """Read the vocabulary of a model's folder; None where it has no tokenizer of its own."""
    said = _json(folder / "tokenizer.json")
    if said is not None:
        return Vocabulary(
            ids=_listed(said.get("model", {}).get("vocab"))
            | {token["content"]: token["id"] for token in said.get("added_tokens") or []}
        )
    plain = _json(folder / "vocab.json")
    if plain is not None:
        return Vocabulary(ids=_listed(plain) | (_json(folder / "added_tokens.json") or {}))
    for name in _OPAQUE:
        if (folder / name).is_file():
            return Vocabulary(digest=hashlib.sha256((folder / name).read_bytes()).hexdigest())
    return None


def difference(first: Vocabulary, second: Vocabulary) -> Difference | None:
    """Return how two vocabularies differ; None where that cannot be read from the files."""
    if first.ids is not None and second.ids is not None:
        shared = first.ids.keys() & second.ids.keys()
        return Difference(
            renumbered=sum(first.ids[token] != second.ids[token] for token in shared),
            only_first=len(first.ids) - len(shared),
            only_second=len(second.ids) - len(shared),
        )
    same = first.digest is not None and first.digest == second.digest
    return Difference(0, 0, 0) if same else None


def has_chat_template(folder: Path) -> bool:
    """Return whether the tokenizer says how a conversation is written as one text."""
    if any((folder / name).is_file() for name in _TEMPLATES):
        return True
    return bool((_json(folder / "tokenizer_config.json") or {}).get("chat_template"))


def _listed(vocab: Any) -> dict[str, int]:
    """Return token -> number. BPE and WordPiece write {token: id}, Unigram [[token, score], …]."""
    if isinstance(vocab, dict):
        return dict(vocab)
    pairs = vocab if isinstance(vocab, list) else []
    return {str(pair[0]): number for number, pair in enumerate(pairs) if isinstance(pair, list)}


def _json(path: Path) -> dict[str, Any] | None:
    try:
        said = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None
    return said if isinstance(said, dict) else None
