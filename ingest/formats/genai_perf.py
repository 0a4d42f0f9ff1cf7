"""GenAI-Perf's reports (``profile_export_genai_perf.json``), whose successor is AIPerf.

Definitions after ``genai_perf/profile_data_parser``: ITL is (latency - TTFT) / (output tokens - 1)
of each request, throughput is over the run, percentiles are interpolated; tokens are counted by its
own tokenizer. Failed requests are not counted.
"""

from collections.abc import Mapping
from typing import Any

from ingest.level import LevelReport, cell_of, reported_sections
from ingest.model import Context, FileContent, Parsed
from ingest.stated import (
    count,
    head_of,
    json_object,
    object_of,
    positive,
    section,
    starts_object,
    text_of,
)
from warehouse.secrets import scrub

NAME, KIND = "genai-perf", "a GenAI-Perf report"

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
    return starts_object(
        head_of(data, 1 << 20), b"input_config", b"perf_analyzer", b"request_latency"
    )


def parse(content: FileContent, context: Context) -> Parsed:
    """Read a report, which is one cell. Raises InvalidInput."""
    report, flags = json_object(content.data, "This GenAI-Perf report")
    config = object_of(report.get("input_config"))
    level = LevelReport(
        generator=NAME,
        facts=_facts(config),
        reported=reported_sections(report, _METRICS, "ms"),
        completed=count(section(report, "request_count"), "avg"),
        flags=flags,
    )
    return Parsed(NAME, scrub({"input_config": config}), iter([cell_of(level, context)]))


def _facts(config: Mapping[str, Any]) -> dict[str, Any]:
    endpoint, models = object_of(config.get("endpoint")), config.get("model_names")
    first = models[0] if isinstance(models, list) and models else models
    formats = {"chat": "chat_completions", "completions": "text_completions"}
    backend = endpoint.get("backend")
    # A load such as ``{"concurrency": 8}``, or ``{"request_rate": 4}``, whose requests come evenly.
    stimulus = object_of(object_of(config.get("perf_analyzer")).get("stimulus"))
    rate, limit = positive(stimulus, "request_rate"), None
    if rate is None:
        limit = positive(stimulus, "concurrency")
    return {
        "model": text_of(first),
        "engine": "tensorrt-llm" if backend == "tensorrtllm" else backend or None,
        "request_format": formats.get(str(endpoint.get("type"))),
        "dataset": _dataset(object_of(config.get("input"))),
        "load_profile": "constant" if rate is not None else "concurrent" if limit else None,
        "rate": rate,
        "concurrency": limit,
    }


def _dataset(given: Mapping[str, Any]) -> str | None:
    if file := text_of(given.get("file")):
        return file.rpartition("/")[2]
    lengths = [
        positive(object_of(given.get(name)), "mean")
        for name in ("synthetic_tokens", "output_tokens")
    ]
    return f"synthetic {lengths[0]}/{lengths[1]}" if all(lengths) else None
