"""GenAI-Perf's reports (``profile_export_genai_perf.json``), whose successor is AIPerf.

Definitions after ``genai_perf/profile_data_parser``: ITL is (latency - TTFT) / (output tokens - 1)
of each request, throughput is over the run, percentiles are interpolated; tokens are counted by its
own tokenizer. Failed requests are not counted.
"""

from collections.abc import Iterator
from typing import Any

from ingest.level import Level, cell_of, reported
from ingest.lines import head_of, members, starts_object
from ingest.model import Content, Context, Parsed
from ingest.stated import count, decoded, in_its_unit, positive, section
from ingest.unreadable import UNREADABLE, refusal
from warehouse.rows import Measurement
from warehouse.secrets import scrub

NAME, KIND = "genai-perf", "a GenAI-Perf report"

_HEAD = 1 << 20
_METRICS = {
    "ttft": "time_to_first_token",
    "itl": "inter_token_latency",
    "request_latency": "request_latency",
    "prompt_tokens": "input_sequence_length",
    "output_tokens": "output_sequence_length",
    "output_throughput": "output_token_throughput",
    "request_throughput": "request_throughput",
}


def sniff(data: memoryview) -> bool:
    """Recognise the settings of Triton's perf analyzer, which GenAI-Perf drives; AIPerf has
    none."""
    head = head_of(data, _HEAD)
    return starts_object(head, b"input_config", b"perf_analyzer", b"request_latency")


def parse(content: Content, context: Context) -> Parsed:
    """Read a report, which is one cell. Raises InvalidInput."""
    try:
        said, flags = decoded(content.data, members)
    except UNREADABLE as error:
        raise refusal("This GenAI-Perf report", error) from None
    config = _object(said.get("input_config"))
    level = Level(
        generator=NAME,
        facts=_facts(config),
        reported=_reported(said),
        completed=count(section(said, "request_count"), "avg"),
        flags=flags,
    )
    return Parsed(NAME, scrub({"input_config": config}), iter([cell_of(level, context)]))


def _reported(said: dict[str, Any]) -> Iterator[Measurement]:
    for metric, name in _METRICS.items():
        told = section(said, name)
        yield from reported(metric, told, in_its_unit(metric, told, "ms", name))


def _facts(config: dict[str, Any]) -> dict[str, Any]:
    endpoint, models = _object(config.get("endpoint")), config.get("model_names")
    first = models[0] if isinstance(models, list) and models else models
    formats = {"chat": "chat_completions", "completions": "text_completions"}
    backend = endpoint.get("backend")
    return {
        "model": first if isinstance(first, str) and first else None,
        "engine": "tensorrt-llm" if backend == "tensorrtllm" else backend or None,
        "request_format": formats.get(str(endpoint.get("type"))),
        "dataset": _dataset(_object(config.get("input"))),
        **_load(_object(_object(config.get("perf_analyzer")).get("stimulus"))),
    }


def _load(stimulus: dict[str, Any]) -> dict[str, Any]:
    """Return the facts of a load such as ``{"concurrency": 8}`` or ``{"request_rate": 4}``, whose
    requests come evenly."""
    rate = positive(stimulus, "request_rate")
    if rate is not None:
        return {"load_profile": "constant", "rate": rate}
    limit = positive(stimulus, "concurrency")
    return {"load_profile": "concurrent" if limit else None, "concurrency": limit}


def _dataset(given: dict[str, Any]) -> str | None:
    file = given.get("file")
    if isinstance(file, str) and file:
        return file.rpartition("/")[2]
    lengths = (
        positive(_object(given.get("synthetic_tokens")), "mean"),
        positive(_object(given.get("output_tokens")), "mean"),
    )
    return f"synthetic {lengths[0]}/{lengths[1]}" if all(lengths) else None


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
