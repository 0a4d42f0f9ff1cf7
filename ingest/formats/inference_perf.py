"""inference-perf's reports: a file for each stage or one for all, and one of their requests.

Definitions after inference-perf 0.7 (``reportgen/base.py``), everything in seconds: its TPOT is
(last token - first token) / (output tokens - 1) of each request and our ITL; its normalized TPOT is
latency / output tokens and our TPOT; its ITL gives the tokens of a chunk one moment, so most of its
gaps are 0 under speculation, and is not taken. Throughput is over the first start to the last end;
percentiles are interpolated.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from ingest.clean import Body, prompt_text
from ingest.level import LevelReport, LevelRequests, cell_of, error_rate, reported
from ingest.model import Context, FileContent, Parsed, json_bytes
from ingest.stated import (
    UNREADABLE,
    count,
    failure_of,
    head_of,
    json_object,
    load_yaml,
    number,
    object_of,
    objects_of,
    positive,
    refusal,
    section,
    starts_object,
    text_of,
)
from warehouse.contract import hash_text, prompt_set_hash
from warehouse.errors import InvalidInput
from warehouse.rows import Flag, Measurement
from warehouse.secrets import scrub

NAME, KIND = "inference-perf", "an inference-perf report"

_NAMES = re.compile(r"(?P<prefix>.*?)(?:summary|stage_(?P<stage>\d+))_lifecycle_metrics\.json$")
_OTHERS = re.compile(
    r"(?P<prefix>.*?)(?:(?:summary|stage_\d+)_(?:prometheus|session_lifecycle)_metrics"
    r"|per_(?:request|session)_lifecycle_metrics|adapter_.*_lifecycle_metrics"
    r"|inference-perf\.partial\.stage_\d+|validation)\.(?:json|ya?ml)$"
)
_SUMMARY, _REQUESTS = "summary_lifecycle_metrics.json", "per_request_lifecycle_metrics.json"
_LIST = re.compile(rb'\[\s*\{\s*"start_time":\s*[-+.\deE]+,\s*"end_time":')
_LATENCIES = {"ttft": ("time_to_first_token", 1000.0), "itl": ("time_per_output_token", 1000.0),
              "tpot": ("normalized_time_per_output_token", 1000.0),
              "request_latency": ("request_latency", 1.0)}  # fmt: skip
_RATES = {"output_throughput": "output_tokens_per_sec", "total_throughput": "total_tokens_per_sec",
          "request_throughput": "requests_per_sec"}  # fmt: skip
_LENGTHS = {"prompt_tokens": ("prompt_tokens", "prompt_len"),
            "output_tokens": ("output_tokens", "output_len")}  # fmt: skip


def sniff(data: memoryview) -> bool:
    """Recognise the three sections of a report, or a list of its requests."""
    head = head_of(data)
    return starts_object(head, b"load_summary", b"successes") or _LIST.match(head) is not None


def beside(path: Path) -> tuple[Path, ...]:
    """Return the files of the settings, the requests, and the other stages, whose counts tell which
    requests are whose."""
    found = _NAMES.fullmatch(path.name)
    prefix = found["prefix"] if found else path.name.removesuffix(_REQUESTS)
    settings = path.with_name(f"{prefix}config.yaml")
    if found is None:
        return (settings,)
    requests = path.with_name(prefix + _REQUESTS)
    stages = _stages(path, prefix) if found["stage"] and requests.is_file() else []
    return (settings, requests, *(one for one in stages if one != path))


def stands_for(path: Path) -> tuple[Path, ...]:
    """Return the summary of a stage, and the requests, each of which is a result without the
    others."""
    found = _NAMES.fullmatch(path.name)
    if found is None:
        return ()
    named = (path.with_name(found["prefix"] + name) for name in (_SUMMARY, _REQUESTS))
    return tuple(one for one in named if one != path)


def is_by_product(path: Path) -> bool:
    """Return whether a file repeats the stages, or measures something else beside them."""
    if (found := _NAMES.fullmatch(path.name)) is not None:
        return not found["stage"] and bool(_stages(path, found["prefix"]))
    other = _OTHERS.fullmatch(path.name)
    if other is None:
        return False
    summary = path.with_name(other["prefix"] + _SUMMARY)
    return summary.is_file() or bool(_stages(path, other["prefix"]))


def _stages(path: Path, prefix: str) -> list[Path]:
    named = (
        (_NAMES.fullmatch(one.name), one) for one in path.parent.glob("*_lifecycle_metrics.json")
    )
    found = {int(m["stage"]): one for m, one in named if m and m["stage"] and m["prefix"] == prefix}
    return [found[stage] for stage in sorted(found)]


def parse(content: FileContent, context: Context) -> Parsed:
    """Read one stage, one summary, or the requests alone: one cell. Raises InvalidInput."""
    stated = next((one for one in content.beside if one.path.name.endswith("config.yaml")), None)
    settings = (
        {} if stated is None else load_yaml(stated.data, "the settings of an inference-perf run")
    )
    found = _NAMES.fullmatch(content.path.name)
    stage = int(found["stage"]) if found and found["stage"] else None
    if _LIST.match(head_of(content.data)):
        level = _of_requests(content.data)
        level = replace(level, facts=facts_of(settings, {}, None) | dict(level.facts))
    else:
        level = _of_report(content, settings, stage)
    config = scrub({"config": settings, "stage": stage})
    return Parsed(NAME, config, (cell_of(one, context) for one in (level,)))


def _of_report(content: FileContent, settings: Mapping[str, Any], stage: int | None) -> LevelReport:
    report, flags = json_object(content.data, f"{content.path.name} of inference-perf")
    successes, failures = section(report, "successes"), section(report, "failures")
    if "latency" not in successes:
        raise InvalidInput(
            "This is what inference-perf read from the server's own metrics, which are not those "
            "of its requests: give the stage_…_lifecycle_metrics.json beside it."
        )
    completed = count(successes, "count") or 0
    errored = count(failures, "count") if "count" in failures else 0
    own = _requests_of_stage(content, stage)
    if own is not None and (own.completed, own.errored) != (completed, errored):
        not_divided = (
            "The file of all requests does not fit what its stages count, so none is taken to belong to "
            "this stage."
        )
        own, flags = None, (*flags, Flag("requests_not_divided", "info", not_divided))
    length = number(report, "benchmark_time_seconds")
    facts = facts_of(settings, object_of(report.get("load_summary")), stage)
    return LevelReport(
        generator=NAME,
        facts=facts if own is None else facts | dict(own.facts),
        reported=_reported(successes, completed, errored),
        completed=completed,
        errored=errored,
        duration=own.duration if length is None and own is not None else length,
        flags=flags,
        requests=None if own is None else own.requests,
    )


def _requests_of_stage(content: FileContent, stage: int | None) -> LevelReport | None:
    """Return the requests of this stage: stages follow one another, so each has the next ones."""
    listed = [
        one for one in content.beside if one.path.name.endswith("request_lifecycle_metrics.json")
    ]
    if not listed:
        return None
    if stage is None:
        return _of_requests(listed[0].data)
    counts = {}
    for one in (content, *content.beside):
        if (found := _NAMES.fullmatch(one.path.name)) and found["stage"]:
            report, _ = json_object(one.data, f"{one.path.name} of inference-perf")
            ended = section(report, "successes"), section(report, "failures")
            counts[int(found["stage"])] = sum(count(part, "count") or 0 for part in ended)
    before = sum(own for place, own in counts.items() if place < stage)
    return _of_requests(listed[0].data, (before, before + counts[stage]), sum(counts.values()))


def _reported(
    successes: Mapping[str, Any], completed: int, errored: int | None
) -> Iterator[Measurement]:
    latencies, rates = section(successes, "latency"), section(successes, "throughput")
    for metric, (name, factor) in _LATENCIES.items():
        yield from reported(metric, section(latencies, name), factor)
    for metric, name in _RATES.items():
        yield from reported(metric, rates.get(name))
    for metric, names in _LENGTHS.items():
        sections = (successes[name] for name in names if section(successes, name))
        yield from reported(metric, next(sections, None))
    yield from error_rate(completed, errored)


# --- What the settings of a run and the load of a stage say of a cell.


def facts_of(
    settings: Mapping[str, Any], load_summary: Mapping[str, Any], stage: int | None
) -> dict[str, Any]:
    """Return the facts; ``load_summary`` is the report's own load. None for what neither says."""
    server, data = object_of(settings.get("server")), object_of(settings.get("data"))
    kind, ignore = server.get("type"), server.get("ignore_eos")
    dataset = text_of(data.get("type"))
    if path := text_of(data.get("path")):
        dataset = path.rstrip("/").rpartition("/")[2]
    elif dataset is not None:
        # Random texts are told apart by the lengths asked for.
        sides = (object_of(data.get(f"{side}_distribution")) for side in ("input", "output"))
        lengths = [number(side, "mean") for side in sides]
        dataset += "" if None in lengths else f" {lengths[0]:g}/{lengths[1]:g}"
    return {
        "model": server.get("model_name") or None,
        "engine": kind if kind in ("vllm", "sglang", "tgi") else None,
        "evidence": "mock" if kind == "mock" else None,
        "request_format": {"completion": "text_completions", "chat": "chat_completions"}.get(
            str(object_of(settings.get("api")).get("type"))
        ),
        "dataset": dataset,
        "ignore_eos": ignore if isinstance(ignore, bool) else None,
        **_load(object_of(settings.get("load")), load_summary, stage),
    }


def _load(
    load: Mapping[str, Any], load_summary: Mapping[str, Any], stage: int | None
) -> dict[str, Any]:
    stages = load.get("stages")
    listed = objects_of(stages) if isinstance(stages, list) else []
    place = 0 if stage is None and len(listed) == 1 else stage
    own = listed[place] if place is not None and place < len(listed) else {}
    at_once = positive(load_summary, "concurrency") or positive(own, "concurrency_level")
    if at_once is not None:
        return {"load_profile": "concurrent", "concurrency": int(at_once)}
    rate = positive(own, "rate") or positive(load_summary, "requested_rate")
    kind = load.get("type")
    arrivals = kind if kind in ("constant", "poisson") else None
    return {"load_profile": arrivals, "rate": rate} if rate is not None else {}


# --- The requests of a run: one list for all its stages, times of one monotonic clock.


class EntryResponse(msgspec.Struct):
    output_tokens: int | None = None
    output_token_times: list[float] | None = None
    server_usage: dict[str, Any] | None = None


class EntryInfo(msgspec.Struct):
    response_metrics: EntryResponse | None = None
    request_metrics: dict[str, Any] | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    output_token_times: list[float] | None = None


class RequestEntry(msgspec.Struct):
    """One request. Its body is JSON in a text."""

    start_time: float
    end_time: float
    request: Any = None
    info: EntryInfo | None = None
    error: dict[str, Any] | None = None


_entries = msgspec.json.Decoder(list[RequestEntry]).decode
_body = msgspec.json.Decoder(Body).decode


def _of_requests(
    data: memoryview, place: tuple[int, int] | None = None, total: int = 0
) -> LevelReport:
    """Read the requests; with ``place`` those that started first to last of ``total``.

    Raises InvalidInput. A place that does not fit the list holds nothing."""
    try:
        entries = _entries(json_bytes(data))
    except UNREADABLE as error:
        raise refusal("The requests of this inference-perf run", error) from None
    entries.sort(key=lambda entry: entry.start_time)
    if place is not None:
        entries = entries[place[0] : place[1]] if total == len(entries) else []
    bodies = [_body_of(entry.request) for entry in entries]
    texts = [None if body is None else prompt_text(body) for body in bodies]
    hashes = [None if text is None else hash_text(text) for text in texts]
    asked = [body for body in bodies if body is not None]
    # The facts in which the bodies of all requests agree.
    first, lengths = asked[0] if asked else Body(), {body.max_tokens for body in asked}
    facts = {name: getattr(first, name) for name in ("temperature", "top_p", "seed", "ignore_eos")}
    facts["model"] = text_of(first.model)
    facts["max_tokens"] = lengths.pop() if len(lengths) == 1 else None
    errors = [failure_of(entry.error, "error_msg", "error_type") for entry in entries]
    failed = sum(error is not None for error in errors)
    if not failed:
        facts["prompt_set_hash"] = prompt_set_hash(hashes)
    columns = {
        "start": [entry.start_time for entry in entries],
        "end": [entry.end_time for entry in entries],
    } | dict(zip(_COUNTED, zip(*map(_counted, entries), strict=True), strict=False))
    return LevelReport(
        generator=NAME,
        facts={key: value for key, value in facts.items() if value is not None},
        reported=(),
        completed=len(entries) - failed,
        errored=failed,
        duration=max(columns["end"], default=0.0) - (columns["start"][0] if entries else 0.0),
        requests=LevelRequests(columns, errors, {"prompt_hash": hashes}),
    )


def _body_of(request: Any) -> Body | None:
    try:
        return _body(request) if isinstance(request, str) else msgspec.convert(request, Body)
    except (msgspec.MsgspecError, UnicodeEncodeError):
        return None


_COUNTED = ("first_token", "last_token", "prompt_tokens", "output_tokens")


def _counted(entry: RequestEntry) -> tuple[Any, ...]:
    info = entry.info or EntryInfo()
    response = info.response_metrics or EntryResponse(info.output_tokens)
    text = (info.request_metrics or {}).get("text")
    prompt = text.get("input_tokens") if isinstance(text, dict) else info.input_tokens
    usage = response.server_usage or {}
    asked, answered = count(usage, "prompt_tokens"), count(usage, "completion_tokens")
    times: list[Any] = response.output_token_times or info.output_token_times or [None]
    return (
        times[0], times[-1],
        prompt if asked is None else asked, response.output_tokens if answered is None else answered,
    )  # fmt: skip
