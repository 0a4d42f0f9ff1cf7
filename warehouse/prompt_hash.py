"""The hash of a prompt and of a set of prompts: runners and ingest must reach the same one.

A prompt's hash is the first 32 hex digits of sha256 over its text; a conversation is flattened
first, one line ``role: text`` per message.
"""

import hashlib
import re

MARKER = "sha256:"
_MARKED = re.compile(r"sha256:([0-9a-f]{32})")


def is_redacted(text: str) -> bool:
    """Return whether a text was replaced by its hash."""
    return _MARKED.fullmatch(text) is not None


def hash_text(text: str) -> str:
    """Return the hash of a prompt's text; a redacted text is its own hash."""
    if text.startswith(MARKER) and (found := _MARKED.fullmatch(text)):
        return found[1]
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def flatten_messages(messages: list[tuple[str, str]]) -> str:
    """Return role and text of each message as one text."""
    return "\n".join(f"{role}: {text}" for role, text in messages)


def prompt_set_hash(hashes: list[str | None]) -> str | None:
    """Return a hash over the sorted, unique prompt hashes; None where one is unknown or there are
    none."""
    known = {h for h in hashes if h is not None}
    if not known or None in hashes:
        return None
    return hashlib.sha256("\n".join(sorted(known)).encode()).hexdigest()[:32]
