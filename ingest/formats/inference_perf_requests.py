"""The requests of an inference-perf run: one list for all its stages, times of one monotonic clock."""

import re
from dataclasses import dataclass
from typing import Any

import msgspec

from ingest.level import Requests
from ingest.prompts import Body, prompt_text
from ingest.read import json_bytes
from ingest.stated import count
from ingest.unreadable import UNREADABLE, refusal
from warehouse.prompt_hash import hash_text, prompt_set_hash

_LIST = re.compile(rb'\[\s*\{\s*"start_time":\s*[-+.\deE]+,\s*"end_time":')


class Response(msgspec.Struct):
    """What the server answered to a request, since 0.6."""

    output_tokens: int | None = None
    output_token_times: list[float] | None = None
    server_usage: dict[str, Any] | None = None


class Info(msgspec.Struct):
    """Counts and times of a request: in parts of their own since 0.6, flat before."""

    response_metrics: Response | None = None
    request_metrics: dict[str, Any] | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    output_token_times: list[float] | None = None


class Entry(msgspec.Struct):
    """One request. Its body is JSON in a text."""

    start_time: float
    end_time: float
    request: Any = None
    info: Info | None = None
    error: dict[str, Any] | None = None


@dataclass(frozen=True)
class Found:
    """The requests of a stage or of all, and what their bodies say."""

    requests: Requests
    completed: int
    errored: int
    duration: float
    facts: dict[str, Any]


_entries = msgspec.json.Decoder(list[Entry]).decode
_body = msgspec.json.Decoder(Body).decode


def is_list(head: bytes) -> bool:
    """Return whether a head begins a list of inference-perf's requests."""
    return _LIST.match(head) is not None


def read(data: memoryview, place: tuple[int, int] | None = None, total: int = 0) -> Found:
    """Read the requests; with ``place`` those that started first to last of ``total``.

    Raises InvalidInput. A place that does not fit the list holds nothing.
    """
    try:
        entries = _entries(json_bytes(data))
    except UNREADABLE as error:
        raise refusal("The requests of this inference-perf run", error) from None
    entries.sort(key=lambda entry: entry.start_time)
    if place is not None:
        entries = entries[place[0] : place[1]] if total == len(entries) else []
    failed = sum(entry.error is not None for entry in entries)
    ends = [entry.end_time for entry in entries] or [0.0]
    begin = entries[0].start_time if entries else 0.0
    hashes, bodies = _prompts(entries)
    return Found(
        requests=Requests(
            _columns(entries), [_error(one) for one in entries], {"prompt_hash": hashes}
        ),
        completed=len(entries) - failed,
        errored=failed,
        duration=max(ends) - begin,
        facts=_facts(hashes, bodies, whole=not failed),
    )


def _columns(entries: list[Entry]) -> dict[str, list[Any]]:
    moments = [_moments(entry) for entry in entries]
    return {
        "start": [entry.start_time for entry in entries],
        "end": [entry.end_time for entry in entries],
        "first_token": [times[0] if times else None for times in moments],
        "last_token": [times[-1] if times else None for times in moments],
        "prompt_tokens": [_prompt_tokens(entry) for entry in entries],
        "output_tokens": [_output_tokens(entry) for entry in entries],
    }


def _moments(entry: Entry) -> list[float]:
    info = entry.info or Info()
    told = info.response_metrics.output_token_times if info.response_metrics else None
    return told or info.output_token_times or []


def _usage(entry: Entry, name: str) -> int | None:
    response = (entry.info or Info()).response_metrics
    return count(response.server_usage or {}, name) if response else None


def _prompt_tokens(entry: Entry) -> int | None:
    """Return the prompt tokens as the server counted them, else as the client did."""
    info = entry.info or Info()
    text = (info.request_metrics or {}).get("text")
    counted = text.get("input_tokens") if isinstance(text, dict) else info.input_tokens
    told = _usage(entry, "prompt_tokens")
    return counted if told is None else told


def _output_tokens(entry: Entry) -> int | None:
    info = entry.info or Info()
    response = info.response_metrics
    counted = response.output_tokens if response else info.output_tokens
    told = _usage(entry, "completion_tokens")
    return counted if told is None else told


def _error(entry: Entry) -> str | None:
    if entry.error is None:
        return None
    said = entry.error.get("error_msg") or entry.error.get("error_type") or "failed"
    return " ".join(str(said).split())


def _prompts(entries: list[Entry]) -> tuple[list[str | None], list[Body]]:
    hashes: list[str | None] = []
    bodies = []
    for entry in entries:
        body = _read_body(entry.request)
        text = None if body is None else prompt_text(body)
        hashes.append(None if text is None else hash_text(text))
        bodies += [] if body is None else [body]
    return hashes, bodies


def _read_body(request: Any) -> Body | None:
    try:
        return _body(request) if isinstance(request, str) else msgspec.convert(request, Body)
    except (msgspec.MsgspecError, UnicodeEncodeError):
        return None


def _facts(hashes: list[str | None], bodies: list[Body], whole: bool) -> dict[str, Any]:
    """Return the facts in which the bodies of all requests agree."""
    first = bodies[0] if bodies else Body()
    lengths = {one.max_tokens for one in bodies}
    said = {name: getattr(first, name) for name in ("temperature", "top_p", "seed", "ignore_eos")}
    said["prompt_set_hash"] = prompt_set_hash(hashes) if whole else None
    said["model"] = first.model if isinstance(first.model, str) else None
    said["max_tokens"] = lengths.pop() if len(lengths) == 1 else None
    return {key: value for key, value in said.items() if value is not None}
