"""The hash of a prompt: the same whether a report holds the text or, redacted, its hash.

A hash is the first 32 hex digits of sha256 over the prompt's text. Messages are flattened first:
one line ``role: text`` per message, the parts of a message joined without separator.
"""

import ast
import hashlib
import re
from typing import Any

import msgspec

MARKER = "sha256:"
_MARKED = re.compile(r"sha256:([0-9a-f]{32})")


class Body(msgspec.Struct, gc=False):
    """The part of a request's body that says what was asked, and how."""

    model: Any = None
    prompt: Any = None
    messages: Any = None
    temperature: Any = None
    top_p: Any = None
    seed: Any = None
    max_tokens: Any = None
    max_completion_tokens: Any = None
    ignore_eos: Any = None


class Arguments(msgspec.Struct, gc=False):
    """``request_args`` of GuideLLM."""

    body: Body | None = None


_decode = msgspec.json.Decoder(Arguments).decode


def read_arguments(text: str) -> Arguments | None:
    """``request_args`` as JSON (0.6 and later) or as a Python literal (0.4 and 0.5); None if neither."""
    try:
        return _decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError):
        return _read_literal(text)


def _read_literal(text: str) -> Arguments | None:
    try:
        return msgspec.convert(ast.literal_eval(text), Arguments)
    except (ValueError, SyntaxError, RecursionError, MemoryError, msgspec.ValidationError):
        return None


def hash_text(text: str) -> str:
    """Hash of a prompt's text; a redacted text is its own hash."""
    if text.startswith(MARKER) and (found := _MARKED.fullmatch(text)):
        return found[1]
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def prompt_text(body: Body) -> str | None:
    """The flattened prompt of a request; None where there is none."""
    if isinstance(body.prompt, str):
        return body.prompt
    if isinstance(body.messages, str):
        return body.messages
    return flatten(body.messages if body.messages is not None else body.prompt)


def flatten(messages: Any) -> str | None:
    """Messages as one text; a single redacted text stands for the whole conversation."""
    if not isinstance(messages, list) or not messages:
        return None
    texts = [_content(m) for m in messages]
    if len(texts) == 1 and _MARKED.fullmatch(texts[0]):
        return texts[0]
    return "\n".join(f"{_role(m)}: {t}" for m, t in zip(messages, texts, strict=True))


def prompt_set_hash(hashes: list[str | None]) -> str | None:
    """Hash over the sorted, unique prompt hashes; None where one is unknown or there are none."""
    known = {h for h in hashes if h is not None}
    if not known or None in hashes:
        return None
    return hashlib.sha256("\n".join(sorted(known)).encode()).hexdigest()[:32]


def _role(message: Any) -> str:
    return str(message.get("role", "")) if isinstance(message, dict) else ""


def _content(message: Any) -> str:
    content = message.get("content", "") if isinstance(message, dict) else message
    if isinstance(content, list):
        return "".join(_part(p) for p in content)
    return "" if content is None else str(content)


def _part(part: Any) -> str:
    if not isinstance(part, dict):
        return str(part)
    text = part.get("text")
    return text if isinstance(text, str) else msgspec.json.encode(part, order="sorted").decode()
