"""What ``vllm bench throughput`` and ``vllm bench latency`` write with ``--output-json``.

Both run the engine without a server. Throughput counts prompt and output tokens over the time of
the run; latency is that of whole batches: every request of a batch waits as long as the batch. So
each has less to say than ``vllm bench serve``, and nothing of a first token.
"""

import re
from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any

import numpy as np

from ingest.level import LevelReport, cell_of, contradicted, is_number, reported
from ingest.model import Context, FileContent, Parsed
from ingest.stated import count, head_of, json_object, number, section, starts_object, text_of
from warehouse.errors import InvalidInput
from warehouse.rows import Flag
from warehouse.secrets import scrub

NAME, KIND = "vllm-offline", "a result of vllm bench throughput or vllm bench latency"

_THROUGHPUT = (b"elapsed_time", b"num_requests", b"total_num_tokens", b"tokens_per_second")
_LATENCY = (b"avg_latency", b"latencies")
_RATES = {"total_throughput": "tokens_per_second", "request_throughput": "requests_per_second"}
_PERCENTILE = re.compile(r"\d\d?(\.\d{1,4})?|100")


def sniff(data: memoryview) -> bool:
    """Recognise the few keys of a throughput or a latency result."""
    head = head_of(data)
    return starts_object(head, *_THROUGHPUT) or starts_object(head, *_LATENCY)


def parse(content: FileContent, context: Context) -> Parsed:
    """Read a result, which is one cell. Raises InvalidInput."""
    result, flags = json_object(content.data, "This vllm bench result")
    level = _throughput(result, flags) if "elapsed_time" in result else _latency(result, flags)
    config = {key: value for key, value in result.items() if key != "latencies"}
    return Parsed(NAME, scrub(config), iter([cell_of(level, context)]))


def _throughput(result: Mapping[str, Any], flags: tuple[Flag, ...]) -> LevelReport:
    requests, elapsed = count(result, "num_requests"), number(result, "elapsed_time")
    if requests is None or elapsed is None or elapsed <= 0:
        raise InvalidInput(
            "This vllm bench throughput result lacks its number of requests or its time; run it again."
        )
    tokens = count(result, "total_num_tokens")
    if tokens is not None and tokens < requests:
        raise InvalidInput(
            f"This vllm bench throughput result counts {tokens:,} tokens in {requests:,} requests, "
            "which cannot be: it was altered; copy it again from its source."
        )
    counted = None if tokens is None else tokens / elapsed
    return LevelReport(
        generator="vllm-throughput",
        facts={
            "model": text_of(result.get("model_id")),
            "engine": "vllm",
            "load_profile": "throughput",
        },
        reported=chain.from_iterable(
            reported(metric, result.get(name)) for metric, name in _RATES.items()
        ),
        completed=requests,
        duration=elapsed,
        flags=(*flags, *contradicted("total_throughput", result.get("tokens_per_second"), counted)),
    )


def _latency(result: Mapping[str, Any], flags: tuple[Flag, ...]) -> LevelReport:
    batches, mean = result.get("latencies"), number(result, "avg_latency")
    if not isinstance(batches, list) or not batches or not all(map(is_number, batches)):
        raise InvalidInput(
            "This vllm bench latency result lacks the time of some of its batches; run it again."
        )
    if min(batches) < 0:
        raise InvalidInput(
            f"A batch of this vllm bench latency result took {min(batches):g} s, which cannot be: it "
            "was altered; copy it again from its source."
        )
    percentiles = section(result, "percentiles")
    return LevelReport(
        generator="vllm-latency",
        facts={"model": text_of(result.get("model_id")), "engine": "vllm"},
        reported=reported("request_latency", {"mean": mean, **percentiles}),
        completed=len(batches),
        flags=(
            *flags,
            Flag(
                "batch_latency",
                "info",
                "The latency is that of whole batches without a server, and the file does not say how "
                "large they were; say it with --set concurrency=….",
            ),
            *_contradictions(mean, percentiles, batches),
        ),
    )


def _contradictions(
    mean: float | None, percentiles: Mapping[str, Any], batches: list[float]
) -> Iterator[Flag]:
    """Yield a flag where the file states another mean, or the first other percentile, than its
    batches have; vLLM interpolates them.
    """
    yield from contradicted("request_latency", mean, sum(batches) / len(batches))
    for name in filter(_PERCENTILE.fullmatch, percentiles):
        told = float(np.percentile(batches, float(name)))
        if found := list(contradicted("request_latency", number(percentiles, name), told)):
            yield from found
            return
