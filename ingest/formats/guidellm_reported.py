"""What a GuideLLM report says of itself, in the catalogue's words; its units are already ours."""

import math
from collections.abc import Iterator

from ingest.formats.guidellm_shape import Metrics, Summary
from warehouse.catalogue import METRICS, PERCENTILES
from warehouse.rows import Measurement

_NAMES = {
    "output_throughput": "output_tokens_per_second",
    "total_throughput": "tokens_per_second",
    "request_throughput": "requests_per_second",
    "achieved_concurrency": "request_concurrency",
    "ttft": "time_to_first_token_ms",
    "itl": "inter_token_latency_ms",
    "tpot": "time_per_output_token_ms",
    "request_latency": "request_latency",
    "prompt_tokens": "prompt_token_count",
    "output_tokens": "output_token_count",
}


def reported(metrics: Metrics) -> Iterator[Measurement]:
    """Yield the values that the report states of successful requests; of rates only the mean, since
    their other statistics are instantaneous."""
    for metric, name in _NAMES.items():
        group = getattr(metrics, name)
        if group is not None and group.successful is not None:
            for statistic, value in _statistics(group.successful, METRICS[metric].distribution):
                if value is not None and math.isfinite(value):
                    yield Measurement("reported", metric, statistic, value)


def _statistics(summary: Summary, distribution: bool) -> Iterator[tuple[str, float | None]]:
    yield "mean", summary.mean
    if not distribution:
        return
    yield from (("std", summary.std_dev), ("min", summary.min), ("max", summary.max))
    percentiles = {"p50": summary.median} | (summary.percentiles or {})
    yield from ((p, percentiles.get(p)) for p in PERCENTILES)
