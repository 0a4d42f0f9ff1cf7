"""The prompt of a request, however a report writes it down: its hash is ``warehouse.contract``'s.

Messages are flattened: one line ``role: text`` per message, the parts of a message joined without
separator.
"""

import ast
from typing import Any

import msgspec

from warehouse.contract import flatten_messages, is_redacted


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
    """The arguments of a request as GuideLLM keeps them in ``request_args``."""

    body: Body | None = None


_decode = msgspec.json.Decoder(Arguments).decode


def read_arguments(text: str) -> Arguments | None:
    """Read ``request_args`` from JSON (0.6 and later) or from a Python literal (0.4 and 0.5); None
    if it is neither."""
    try:
        return _decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError):
        return _read_literal(text)


def _read_literal(text: str) -> Arguments | None:
    try:
        return msgspec.convert(ast.literal_eval(text), Arguments)
    except (ValueError, SyntaxError, RecursionError, MemoryError, msgspec.ValidationError):
        return None


def prompt_text(body: Body) -> str | None:
    """Return the flattened prompt of a request; None where there is none."""
    if isinstance(body.prompt, str):
        return body.prompt
    if isinstance(body.messages, str):
        return body.messages
    return flatten(body.messages if body.messages is not None else body.prompt)


def flatten(messages: Any) -> str | None:
    """Return messages as one text; a single redacted text stands for the whole conversation."""
    if not isinstance(messages, list) or not messages:
        return None
    texts = [_content(m) for m in messages]
    if len(texts) == 1 and is_redacted(texts[0]):
        return texts[0]
    return flatten_messages(list(zip(map(_role, messages), texts, strict=True)))


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
