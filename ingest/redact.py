"""Replaces the texts of a GuideLLM report by their hashes, so that it can be published."""

from typing import Any

import msgspec

from ingest.prompts import Body, prompt_text, read_arguments
from warehouse.prompt_hash import MARKER, hash_text
from warehouse.secrets.values import scrub

_TEXTS = ("output", "reasoning_output")


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
    for key in (*_TEXTS, "prompt"):
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
