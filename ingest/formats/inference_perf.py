"""inference-perf's reports: a file for each stage or one for all, and one of their requests.

Definitions after inference-perf 0.7 (``reportgen/base.py``), everything in seconds: its TPOT is
(last token - first token) / (output tokens - 1) of each request and our ITL; its normalized TPOT is
latency / output tokens and our TPOT; its ITL gives the tokens of a chunk one moment, so most of its
gaps are 0 under speculation, and is not taken. Throughput is over the first start to the last end;
percentiles are interpolated.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ingest import not_a_number
from ingest.formats import inference_perf_requests as records
from ingest.formats.inference_perf_facts import facts_of
from ingest.level import Level, cell_of, reported
from ingest.lines import head_of, members, starts_object
from ingest.model import Content, Context, Parsed
from ingest.stated import count, number, section
from ingest.unreadable import UNREADABLE, refusal
from ingest.yaml_text import load_yaml
from warehouse.errors import InvalidInput
from warehouse.rows import Cell, Flag, Measurement
from warehouse.secrets.values import scrub

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
    return starts_object(head, b"load_summary", b"successes") or records.is_list(head)


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
    if records.is_list(head_of(content.data)):
        level = _alone(records.read(content.data), settings)
    else:
        level = _level(content, settings, stage)
    return Parsed(NAME, scrub({"config": settings, "stage": stage}), _cell(level, context))


def _cell(level: Level, context: Context) -> Iterator[Cell]:
    yield cell_of(level, context)


def _alone(found: records.Found, settings: dict[str, Any]) -> Level:
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


def _own(content: Content, stage: int | None) -> records.Found | None:
    """Return the requests of this stage: stages follow one another, so each has the next ones."""
    listed = [
        one for one in content.beside if one.path.name.endswith("request_lifecycle_metrics.json")
    ]
    if not listed:
        return None
    if stage is None:
        return records.read(listed[0].data)
    others = [content, *content.beside]
    counts = {
        int(found["stage"]): _total(_decoded(one)[0])
        for one in others
        if (found := _NAMES.fullmatch(one.path.name)) and found["stage"]
    }
    before = sum(count for number, count in counts.items() if number < stage)
    return records.read(listed[0].data, (before, before + counts[stage]), sum(counts.values()))


def _decoded(content: Content) -> tuple[dict[str, Any], tuple[Flag, ...]]:
    try:
        return not_a_number.decoded(content.data, members)
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


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
