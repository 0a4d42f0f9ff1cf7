"""The last gate before the warehouse: no credentials, no control characters, finite numbers."""

import ast
from dataclasses import replace
from typing import Any

import msgspec
import pyarrow as pa

from warehouse.contract import Facts, flatten_messages, is_redacted
from warehouse.json_text import single_line
from warehouse.rows import Cell
from warehouse.secrets import scrub, scrub_text

# --- The prompt of a request, however a report writes it down: its hash is ``warehouse.contract``'s.
#
# Messages are flattened: one line ``role: text`` per message, the parts of a message joined without
# separator.


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
        pass
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
    pairs = []
    for message in messages:
        is_plain = not isinstance(message, dict)
        role = "" if is_plain else str(message.get("role", ""))
        content = message if is_plain else message.get("content", "")
        if isinstance(content, list):
            content = "".join(map(_text_of_part, content))
        pairs.append((role, "" if content is None else str(content)))
    return pairs[0][1] if len(pairs) == 1 and is_redacted(pairs[0][1]) else flatten_messages(pairs)


def _text_of_part(part: Any) -> str:
    if not isinstance(part, dict):
        return str(part)
    text = part.get("text")
    return text if isinstance(text, str) else msgspec.json.encode(part, order="sorted").decode()


# --- The last gate before the warehouse: no credentials, no control characters.


def clean_text(text: str) -> str:
    """Return a text without credentials and control characters, and without lone surrogates, which JSON
    can spell and UTF-8 cannot store."""
    return single_line(scrub_text(text.encode("utf-8", "replace").decode("utf-8")))


def clean_cell(cell: Cell, keep_text: bool) -> Cell:
    """Return the cell without credentials in any of its texts, and without texts of requests unless
    they are kept."""
    texts: dict[str, Any] = {
        name: clean_text(value) for name, value in vars(cell).items() if isinstance(value, str)
    }
    facts: dict[str, Any] = {}
    for key, value in cell.facts.model_dump(exclude_unset=True).items():
        scrubbed = scrub(value)
        facts[key] = clean_text(scrubbed) if isinstance(scrubbed, str) else scrubbed
    return replace(
        cell,
        **texts,
        facts=Facts(**facts),
        flags=tuple(replace(flag, sentence=clean_text(flag.sentence)) for flag in cell.flags),
        requests=None if cell.requests is None else _clean_requests(cell.requests, keep_text),
    )


def _clean_requests(requests: pa.Table, keep_text: bool) -> pa.Table:
    for name in ("error", "prompt", "output"):
        column = requests.column(name)
        if column.null_count < len(column):
            place = requests.schema.get_field_index(name)
            kept = pa.chunked_array([pa.nulls(len(column), column.type)])
            if keep_text or name == "error":
                # Each distinct text is looked at once: thousands of requests share a few errors.
                encoded = column.combine_chunks().dictionary_encode()
                if isinstance(encoded, pa.ChunkedArray):
                    encoded = encoded.chunk(0)
                texts = [scrub_text(text) for text in encoded.dictionary.to_pylist()]
                kept = pa.chunked_array([pa.array(texts, pa.string()).take(encoded.indices)])
            requests = requests.set_column(place, requests.schema.field(place), kept)
    return requests
