"""inference-perf's reports: a file for each stage or one for all, and one of their requests.

Definitions after inference-perf 0.7 (``reportgen/base.py``), everything in seconds: its TPOT is
(last token - first token) / (output tokens - 1) of each request and our ITL; its normalized TPOT is
latency / output tokens and our TPOT; its ITL gives the tokens of a chunk one moment, so most of its
gaps are 0 under speculation, and is not taken. Throughput is over the first start to the last end;
percentiles are interpolated.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from ingest.level import Level, Requests, cell_of, reported
from ingest.lines import head_of, load_yaml, members, starts_object
from ingest.model import Content, Context, Parsed
from ingest.prompts import Body, prompt_text
from ingest.read import json_bytes
from ingest.stated import count, decoded, number, positive, section
from ingest.unreadable import UNREADABLE, refusal
from warehouse.contract import hash_text, prompt_set_hash
from warehouse.errors import InvalidInput
from warehouse.rows import Cell, Flag, Measurement
from warehouse.secrets import scrub

# --- What the settings of an inference-perf run and the load of a stage say of a cell.


_FORMATS = {"completion": "text_completions", "chat": "chat_completions"}
_SERVERS = ("vllm", "sglang", "tgi")


def facts_of(settings: dict[str, Any], told: dict[str, Any], stage: int | None) -> dict[str, Any]:
    """Return the facts; ``told`` is the report's own load. None for what neither says."""
    server, data = _object(settings.get("server")), _object(settings.get("data"))
    kind = server.get("type")
    ignore = server.get("ignore_eos")
    return {
        "model": server.get("model_name") or None,
        "engine": kind if kind in _SERVERS else None,
        "evidence": "mock" if kind == "mock" else None,
        "request_format": _FORMATS.get(str(_object(settings.get("api")).get("type"))),
        "dataset": _dataset(data),
        "ignore_eos": ignore if isinstance(ignore, bool) else None,
        **_load(_object(settings.get("load")), told, stage),
    }


def _dataset(data: dict[str, Any]) -> str | None:
    """Name the dataset by the kind of data: a file by its name, random texts by the lengths asked
    for."""
    kind, path = data.get("type"), data.get("path")
    if isinstance(path, str) and path:
        return path.rstrip("/").rpartition("/")[2]
    if not isinstance(kind, str):
        return None
    lengths = [
        number(_object(data.get(f"{side}_distribution")), "mean") for side in ("input", "output")
    ]
    return kind if None in lengths else f"{kind} {lengths[0]:g}/{lengths[1]:g}"


def _load(load: dict[str, Any], told: dict[str, Any], stage: int | None) -> dict[str, Any]:
    """Return the load of a stage; a summary of several stages has none."""
    stages = load.get("stages")
    listed = [one for one in stages if isinstance(one, dict)] if isinstance(stages, list) else []
    place = 0 if stage is None and len(listed) == 1 else stage
    own = listed[place] if place is not None and place < len(listed) else {}
    at_once = positive(told, "concurrency") or positive(own, "concurrency_level")
    if at_once is not None:
        return {"load_profile": "concurrent", "concurrency": int(at_once)}
    rate = positive(own, "rate") or positive(told, "requested_rate")
    kind = load.get("type")
    arrivals = kind if kind in ("constant", "poisson") else None
    return {"load_profile": arrivals, "rate": rate} if rate is not None else {}


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


# --- The requests of an inference-perf run: one list for all its stages, times of one monotonic clock.


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


# --- inference-perf's reports: a file for each stage or one for all, and one of their requests.


NAME, KIND = "inference-perf", "an inference-perf report"

_NAMES = re.compile(r"(?P<prefix>.*?)(?:summary|stage_(?P<stage>\d+))_lifecycle_metrics\.json$")
_OTHERS = re.compile(
    r"(?P<prefix>.*?)(?:(?:summary|stage_\d+)_(?:prometheus|session_lifecycle)_metrics"
    r"|per_(?:request|session)_lifecycle_metrics|adapter_.*_lifecycle_metrics"
    r"|inference-perf\.partial\.stage_\d+|validation)\.(?:json|ya?ml)$"
)
_LATENCIES = {"ttft": ("time_to_first_token", 1000.0), "itl": ("time_per_output_token", 1000.0),
              "tpot": ("normalized_time_per_output_token", 1000.0),
              "request_latency": ("request_latency", 1.0)}  # fmt: skip
_RATES = {"output_throughput": "output_tokens_per_sec", "total_throughput": "total_tokens_per_sec",
          "request_throughput": "requests_per_sec"}  # fmt: skip
_LENGTHS = {"prompt_tokens": ("prompt_tokens", "prompt_len"),
            "output_tokens": ("output_tokens", "output_len")}  # fmt: skip
_NOT_DIVIDED = Flag(
    "requests_not_divided",
    "info",
    "The file of all requests does not fit what its stages count, so none is taken to belong to "
    "this stage.",
)


def sniff(data: memoryview) -> bool:
    """Recognise the three sections of a report, or a list of its requests."""
    head = head_of(data)
    return starts_object(head, b"load_summary", b"successes") or is_list(head)


def beside(path: Path) -> tuple[Path, ...]:
    """Return the files of the settings, the requests, and the other stages, whose counts tell which
    requests are whose."""
    found = _NAMES.fullmatch(path.name)
    prefix = (
        found["prefix"] if found else path.name.removesuffix("per_request_lifecycle_metrics.json")
    )
    settings = path.with_name(f"{prefix}config.yaml")
    if found is None:
        return (settings,)
    requests = path.with_name(f"{prefix}per_request_lifecycle_metrics.json")
    stages = _stages(path, prefix) if found["stage"] and requests.is_file() else {}
    return (settings, requests, *(one for one in stages.values() if one != path))


def stands_for(path: Path) -> tuple[Path, ...]:
    """Return the summary of a stage, and the requests, each of which is a result without the
    others."""
    found = _NAMES.fullmatch(path.name)
    if found is None:
        return ()
    names = ("summary_lifecycle_metrics.json", "per_request_lifecycle_metrics.json")
    named = (path.with_name(f"{found['prefix']}{name}") for name in names)
    return tuple(one for one in named if one != path)


def is_by_product(path: Path) -> bool:
    """Return whether a file repeats the stages, or measures something else beside them."""
    found = _NAMES.fullmatch(path.name)
    if found is not None:
        return not found["stage"] and bool(_stages(path, found["prefix"]))
    other = _OTHERS.fullmatch(path.name)
    if other is None:
        return False
    summary = path.with_name(f"{other['prefix']}summary_lifecycle_metrics.json")
    return summary.is_file() or bool(_stages(path, other["prefix"]))


def _stages(path: Path, prefix: str) -> dict[int, Path]:
    """Return the stage files in the folder of ``path``, in their order."""
    named = (
        (_NAMES.fullmatch(one.name), one) for one in path.parent.glob("*_lifecycle_metrics.json")
    )
    found = {int(m["stage"]): one for m, one in named if m and m["stage"] and m["prefix"] == prefix}
    return dict(sorted(found.items()))


def parse(content: Content, context: Context) -> Parsed:
    """Read one stage, one summary, or the requests alone: one cell. Raises InvalidInput."""
    settings = _settings(content)
    found = _NAMES.fullmatch(content.path.name)
    stage = int(found["stage"]) if found and found["stage"] else None
    if is_list(head_of(content.data)):
        level = _alone(read(content.data), settings)
    else:
        level = _level(content, settings, stage)
    return Parsed(NAME, scrub({"config": settings, "stage": stage}), _cell(level, context))


def _cell(level: Level, context: Context) -> Iterator[Cell]:
    yield cell_of(level, context)


def _alone(found: Found, settings: dict[str, Any]) -> Level:
    return Level(
        generator=NAME,
        facts=facts_of(settings, {}, None) | found.facts,
        reported=(),
        completed=found.completed,
        errored=found.errored,
        duration=found.duration,
        requests=found.requests,
    )


def _level(content: Content, settings: dict[str, Any], stage: int | None) -> Level:
    said, flags = _decoded(content)
    successes, failures = section(said, "successes"), section(said, "failures")
    if "latency" not in successes:
        raise InvalidInput(
            "This is what inference-perf read from the server's own metrics, which are not those "
            "of its requests: give the stage_…_lifecycle_metrics.json beside it."
        )
    completed = count(successes, "count") or 0
    errored = count(failures, "count") if "count" in failures else 0
    found = _own(content, stage)
    if found is not None and (found.completed, found.errored) != (completed, errored):
        found, flags = None, (*flags, _NOT_DIVIDED)
    length = number(said, "benchmark_time_seconds")
    return Level(
        generator=NAME,
        facts=facts_of(settings, _object(said.get("load_summary")), stage)
        | (found.facts if found else {}),
        reported=_reported(successes, completed, errored),
        completed=completed,
        errored=errored,
        duration=found.duration if length is None and found else length,
        flags=flags,
        requests=found.requests if found else None,
    )


def _own(content: Content, stage: int | None) -> Found | None:
    """Return the requests of this stage: stages follow one another, so each has the next ones."""
    listed = [
        one for one in content.beside if one.path.name.endswith("request_lifecycle_metrics.json")
    ]
    if not listed:
        return None
    if stage is None:
        return read(listed[0].data)
    others = [content, *content.beside]
    counts = {
        int(found["stage"]): _total(_decoded(one)[0])
        for one in others
        if (found := _NAMES.fullmatch(one.path.name)) and found["stage"]
    }
    before = sum(count for number, count in counts.items() if number < stage)
    return read(listed[0].data, (before, before + counts[stage]), sum(counts.values()))


def _decoded(content: Content) -> tuple[dict[str, Any], tuple[Flag, ...]]:
    try:
        return decoded(content.data, members)
    except UNREADABLE as error:
        raise refusal(f"{content.path.name} of inference-perf", error) from None


def _settings(content: Content) -> dict[str, Any]:
    for one in content.beside:
        if one.path.name.endswith("config.yaml"):
            return load_yaml(one.data, "the settings of an inference-perf run")
    return {}


def _reported(
    successes: dict[str, Any], completed: int, errored: int | None
) -> Iterator[Measurement]:
    latencies, rates = section(successes, "latency"), section(successes, "throughput")
    for metric, (name, factor) in _LATENCIES.items():
        yield from reported(metric, section(latencies, name), factor)
    for metric, name in _RATES.items():
        yield from reported(metric, rates.get(name))
    for metric, names in _LENGTHS.items():
        told = (successes[name] for name in names if section(successes, name))
        yield from reported(metric, next(told, None))
    if errored is not None and completed + errored > 0:
        yield from reported("error_rate", errored / (completed + errored))


def _total(said: dict[str, Any]) -> int:
    ended = section(said, "successes"), section(said, "failures")
    return sum(count(one, "count") or 0 for one in ended)
