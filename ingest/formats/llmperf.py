"""LLMPerf's results: ``…_summary.json`` and ``…_individual_responses.json`` beside it.

Definitions after ``token_benchmark_ray.py``, in seconds: its "inter token latency" is the sum of
all gaps, the first token's wait among them, divided by the number of chunks or tokens: neither our
ITL nor our TPOT, so it is not taken. Its throughput is over the run, and percentiles are
interpolated. Tokens are counted by Llama's tokenizer, whatever the model. A request is recorded
without the moment it began.
"""

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from ingest.level import LevelReport, LevelRequests, cell_of, reported
from ingest.model import Context, FileContent, Parsed, json_bytes
from ingest.stated import (
    UNREADABLE,
    head_of,
    json_object,
    moment_of,
    number,
    positive,
    refusal,
    starts_object,
)
from warehouse.rows import Measurement
from warehouse.secrets import scrub

NAME, KIND = "llmperf", "an LLMPerf result"

_SUMMARY, _REQUESTS = "_summary.json", "_individual_responses.json"
_METRICS = {"ttft": ("ttft_s", 1000.0), "request_latency": ("end_to_end_latency_s", 1.0),
            "prompt_tokens": ("number_input_tokens", 1.0),
            "output_tokens": ("number_output_tokens", 1.0)}  # fmt: skip
_MINUTE = 60.0
_RATES = {"output_throughput": ("results_mean_output_throughput_token_per_s", 1.0),
          "error_rate": ("results_error_rate", 1.0),
          "request_throughput": ("results_num_completed_requests_per_min", _MINUTE)}  # fmt: skip


class LlmperfResponse(msgspec.Struct):
    ttft_s: float | None = None
    end_to_end_latency_s: float | None = None
    number_input_tokens: float | None = None
    number_output_tokens: float | None = None
    error_code: Any = None
    error_msg: str | None = None


_responses = msgspec.json.Decoder(list[LlmperfResponse]).decode


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


def parse(content: FileContent, context: Context) -> Parsed:
    """Read a summary with its requests, which is one cell. Raises InvalidInput."""
    report, flags = json_object(content.data, "This LLMPerf result")
    completed = _number(report, "results_num_completed_requests")
    per_minute = _number(report, "results_num_completed_requests_per_min") or 0
    length = completed / per_minute * _MINUTE if completed and per_minute > 0 else None
    errors, ended = "results_number_errors", _number(report, "timestamp")
    errored = _number(report, errors) if errors in report else 0
    lengths = number(report, "mean_input_tokens"), number(report, "mean_output_tokens")
    level = LevelReport(
        generator=NAME,
        facts={
            "model": report.get("model") or None,
            "request_format": "chat_completions",
            "dataset": None if None in lengths else f"sonnet {lengths[0]:g}/{lengths[1]:g}",
            "load_profile": "concurrent",
            "concurrency": positive(report, "num_concurrent_requests"),
        },
        reported=_reported(report),
        completed=None if completed is None else int(completed),
        errored=None if errored is None else int(errored),
        started_at=moment_of(None if ended is None or length is None else ended - length),
        duration=length,
        flags=flags,
        requests=_requests(content),
    )
    config = {key: value for key, value in report.items() if not key.startswith("results_")}
    return Parsed(NAME, scrub(config), iter([cell_of(level, context)]))


def _reported(report: Mapping[str, Any]) -> Iterator[Measurement]:
    for metric, (name, factor) in _METRICS.items():
        own = {
            key.removeprefix(f"results_{name}_").removeprefix("quantiles_"): _number(report, key)
            for key in report
            if key.startswith(f"results_{name}_")
        }
        yield from reported(metric, own, factor)
    for metric, (name, divisor) in _RATES.items():
        if (rate := _number(report, name)) is not None:
            yield from reported(metric, rate / divisor)


def _number(report: Mapping[str, Any], name: str) -> float | None:
    """Return a number; LLMPerf writes numpy's integers as texts."""
    value = report.get(name)
    with contextlib.suppress(ValueError):
        value = float(value) if isinstance(value, str) else value
    return number({name: value}, name)


def _requests(content: FileContent) -> LevelRequests | None:
    if not content.beside:
        return None
    try:
        rows = _responses(json_bytes(content.beside[0].data))
    except UNREADABLE as error:
        raise refusal("The requests of this LLMPerf result", error) from None
    errors = [
        None if row.error_code is None
        else f"{row.error_code} {' '.join((row.error_msg or '').split())}".strip()
        for row in rows
    ]  # fmt: skip
    good = [
        row if error is None else LlmperfResponse() for row, error in zip(rows, errors, strict=True)
    ]
    ends = [row.end_to_end_latency_s for row in good]
    return LevelRequests(
        columns={
            "first_token": [row.ttft_s for row in good], "last_token": ends, "end": ends,
            "prompt_tokens": [row.number_input_tokens for row in rows],
            "output_tokens": [row.number_output_tokens for row in rows],
        },
        errors=errors,
        timed=False,
    )  # fmt: skip
