"""LLMPerf's results: ``…_summary.json`` and ``…_individual_responses.json`` beside it.

Definitions after ``token_benchmark_ray.py``, in seconds: its "inter token latency" is the sum of
all gaps, the first token's wait among them, divided by the number of chunks or tokens: neither our
ITL nor our TPOT, so it is not taken. Its throughput is over the run, and percentiles are
interpolated. Tokens are counted by Llama's tokenizer, whatever the model. A request is recorded
without the moment it began.
"""

import contextlib
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from ingest.level import Level, Requests, cell_of, reported
from ingest.lines import head_of, members, starts_object
from ingest.model import Content, Context, Parsed
from ingest.read import json_bytes
from ingest.stated import decoded, number, positive
from ingest.unreadable import UNREADABLE, refusal
from warehouse.rows import Measurement
from warehouse.secrets import scrub

NAME, KIND = "llmperf", "an LLMPerf result"

_SUMMARY, _REQUESTS = "_summary.json", "_individual_responses.json"
_METRICS = {"ttft": ("ttft_s", 1000.0), "request_latency": ("end_to_end_latency_s", 1.0),
            "prompt_tokens": ("number_input_tokens", 1.0),
            "output_tokens": ("number_output_tokens", 1.0)}  # fmt: skip
_MINUTE = 60.0


class Response(msgspec.Struct):
    """One request."""

    ttft_s: float | None = None
    end_to_end_latency_s: float | None = None
    number_input_tokens: float | None = None
    number_output_tokens: float | None = None
    error_code: Any = None
    error_msg: str | None = None


_responses = msgspec.json.Decoder(list[Response]).decode


def sniff(data: memoryview) -> bool:
    """Recognise the settings and results of a summary in one flat object."""
    return starts_object(head_of(data), b"num_concurrent_requests", b"results_ttft_s_mean")


def beside(path: Path) -> tuple[Path, ...]:
    """Return the file with the requests of a summary."""
    if not path.name.endswith(_SUMMARY):
        return ()
    return (path.with_name(path.name.removesuffix(_SUMMARY) + _REQUESTS),)


def is_by_product(path: Path) -> bool:
    """Return whether a file holds requests whose summary is there."""
    stem = path.name.removesuffix(_REQUESTS)
    return stem != path.name and path.with_name(stem + _SUMMARY).is_file()


def parse(content: Content, context: Context) -> Parsed:
    """Read a summary with its requests, which is one cell. Raises InvalidInput."""
    try:
        said, flags = decoded(content.data, members)
    except UNREADABLE as error:
        raise refusal("This LLMPerf result", error) from None
    completed = _number(said, "results_num_completed_requests")
    per_minute = _number(said, "results_num_completed_requests_per_min") or 0
    length = completed / per_minute * _MINUTE if completed and per_minute > 0 else None
    errors = "results_number_errors"
    errored = _number(said, errors) if errors in said else 0
    level = Level(
        generator=NAME,
        facts=_facts(said),
        reported=_reported(said),
        completed=None if completed is None else int(completed),
        errored=None if errored is None else int(errored),
        started_at=_moment(_number(said, "timestamp"), length),
        duration=length,
        flags=flags,
        requests=_requests(content),
    )
    config = {key: value for key, value in said.items() if not key.startswith("results_")}
    return Parsed(NAME, scrub(config), iter([cell_of(level, context)]))


def _facts(said: dict[str, Any]) -> dict[str, Any]:
    lengths = number(said, "mean_input_tokens"), number(said, "mean_output_tokens")
    known = None not in lengths
    return {
        "model": said.get("model") or None,
        "request_format": "chat_completions",
        "dataset": f"sonnet {lengths[0]:g}/{lengths[1]:g}" if known else None,
        "load_profile": "concurrent",
        "concurrency": positive(said, "num_concurrent_requests"),
    }


def _reported(said: dict[str, Any]) -> Iterator[Measurement]:
    for metric, (name, factor) in _METRICS.items():
        own = {
            key.removeprefix(f"results_{name}_").removeprefix("quantiles_"): _number(said, key)
            for key in said
            if key.startswith(f"results_{name}_")
        }
        yield from reported(metric, own, factor)
    rate = _number(said, "results_mean_output_throughput_token_per_s")
    yield from reported("output_throughput", rate)
    yield from reported("error_rate", _number(said, "results_error_rate"))
    per_minute = _number(said, "results_num_completed_requests_per_min")
    if per_minute is not None:
        yield from reported("request_throughput", per_minute / _MINUTE)


def _number(said: dict[str, Any], name: str) -> float | None:
    """Return a number; LLMPerf writes numpy's integers as texts."""
    value = said.get(name)
    with contextlib.suppress(ValueError):
        value = float(value) if isinstance(value, str) else value
    return number({name: value}, name)


def _moment(ended: float | None, length: float | None) -> datetime | None:
    """Return when the run began; the summary holds the moment at which it ended."""
    if ended is None or length is None:
        return None
    try:
        return datetime.fromtimestamp(ended - length, UTC)
    except (OverflowError, OSError, ValueError):
        return None


def _requests(content: Content) -> Requests | None:
    if not content.beside:
        return None
    try:
        rows = _responses(json_bytes(content.beside[0].data))
    except UNREADABLE as error:
        raise refusal("The requests of this LLMPerf result", error) from None
    errors = [_error(row) for row in rows]
    good = [error is None for error in errors]
    latencies = [
        row.end_to_end_latency_s if ok else None for row, ok in zip(rows, good, strict=True)
    ]
    return Requests(
        columns={
            "first_token": [row.ttft_s if ok else None for row, ok in zip(rows, good, strict=True)],
            "last_token": latencies,
            "end": latencies,
            "prompt_tokens": [row.number_input_tokens for row in rows],
            "output_tokens": [row.number_output_tokens for row in rows],
        },
        errors=errors,
        timed=False,
    )


def _error(row: Response) -> str | None:
    if row.error_code is None:
        return None
    return f"{row.error_code} {' '.join((row.error_msg or '').split())}".strip()
