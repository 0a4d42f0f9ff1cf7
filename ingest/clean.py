"""The last gate before the warehouse: no credentials, no control characters, finite numbers."""

import math
from dataclasses import replace
from typing import Any

import msgspec
import pyarrow as pa

from ingest.prompts import Body, prompt_text, read_arguments
from warehouse.contract import MARKER, Facts, hash_text
from warehouse.json_text import on_one_line
from warehouse.rows import Cell
from warehouse.secrets import scrub, scrub_text

# --- Replaces the texts of a GuideLLM report by their hashes, so that it can be published.


_HASHED = ("output", "reasoning_output")


def redact(report: bytes) -> bytes:
    """Return a GuideLLM report (JSON) without prompt and output texts and without credentials.

    Each prompt becomes ``sha256:<32 hex>`` of its flattened text, each output of its own text.
    """
    content = msgspec.json.decode(report)
    for benchmark in content.get("benchmarks", ()):
        for records in (benchmark.get("requests") or {}).values():
            for record in records or ():
                _redact_record(record)
    return msgspec.json.encode(scrub(content))


def _redact_record(record: dict[str, Any]) -> None:
    for key in (*_HASHED, "prompt"):
        if isinstance(record.get(key), str):
            record[key] = MARKER + hash_text(record[key])
    if record.get("tool_calls"):
        record["tool_calls"] = None
    if isinstance(record.get("request_args"), str):
        record["request_args"] = _redact_arguments(record["request_args"])


def _redact_arguments(text: str) -> str | None:
    arguments = read_arguments(text)
    if arguments is None or arguments.body is None:
        return None
    marked = _marked(arguments.body)
    body = {k: v for k, v in msgspec.to_builtins(arguments.body).items() if v is not None}
    kept = {k: v for k, v in body.items() if k not in ("prompt", "messages")}
    return msgspec.json.encode({"body": kept | marked}).decode()


def _marked(body: Body) -> dict[str, Any]:
    text = prompt_text(body)
    if text is None:
        return {}
    marker = MARKER + hash_text(text)
    if body.messages is not None:
        return {"messages": [{"role": "user", "content": marker}]}
    return {"prompt": marker}


# --- The last gate before the warehouse: no credentials, no control characters, finite numbers.


_TEXTS = ("error", "prompt", "output")


def clean_text(text: str) -> str:
    """Return a text without credentials and control characters."""
    return on_one_line(scrub_text(_encodable(text)))


def clean_cell(cell: Cell, keep_text: bool) -> Cell:
    """Return the cell without credentials in any of its texts, and without infinite
    measurements."""
    told: dict[str, Any] = {
        name: clean_text(value) for name, value in vars(cell).items() if isinstance(value, str)
    }
    return replace(
        cell,
        **told,
        facts=_clean_facts(cell.facts),
        flags=tuple(replace(flag, sentence=clean_text(flag.sentence)) for flag in cell.flags),
        measurements=tuple(m for m in cell.measurements if math.isfinite(m.value)),
        requests=None if cell.requests is None else _clean_requests(cell.requests, keep_text),
    )


def _clean_facts(facts: Facts) -> Facts:
    stated = facts.model_dump(exclude_unset=True)
    return Facts(**{key: _clean_value(scrub(value)) for key, value in stated.items()})


def _clean_value(value: Any) -> Any:
    return clean_text(value) if isinstance(value, str) else value


def _encodable(text: str) -> str:
    """Replace lone surrogates, which JSON can spell and UTF-8 cannot store."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _clean_requests(requests: pa.Table, keep_text: bool) -> pa.Table:
    for name in _TEXTS:
        column = requests.column(name)
        if column.null_count == len(column):
            continue
        index = requests.schema.get_field_index(name)
        kept = _scrub_column(column) if keep_text or name == "error" else _nulls(column)
        requests = requests.set_column(index, requests.schema.field(index), kept)
    return requests


def _scrub_column(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return a column without credentials. Each distinct text is looked at once: thousands of
    requests share a few errors."""
    encoded = column.combine_chunks().dictionary_encode()
    if isinstance(encoded, pa.ChunkedArray):
        encoded = encoded.chunk(0)
    texts = pa.array([scrub_text(t) for t in encoded.dictionary.to_pylist()], pa.string())
    return pa.chunked_array([texts.take(encoded.indices)])


def _nulls(column: pa.ChunkedArray) -> pa.ChunkedArray:
    return pa.chunked_array([pa.nulls(len(column), column.type)])
