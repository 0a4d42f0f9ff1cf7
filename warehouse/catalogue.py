"""The one metric catalogue: what each measurement is called, its unit, its direction, its meaning.

Adding a metric is adding one row to ``METRICS``; labels and units are typed nowhere else.
"""

from dataclasses import dataclass
from typing import Literal

Better = Literal["higher", "lower", "neither"]

#: Statistics a measurement may carry. Rates have only a mean: their other statistics are
#: instantaneous rates weighted by time and say nothing about throughput.
PERCENTILES: tuple[str, ...] = (
    "p001", "p01", "p05", "p10", "p25", "p50", "p75", "p90", "p95", "p99", "p999",
)  # fmt: skip
STATISTICS: tuple[str, ...] = ("mean", "std", "min", "max", *PERCENTILES)

#: The quantile, 0-1, that each percentile name stands for ("p001" is 0.1 %).
QUANTILES: dict[str, float] = {
    "p001": 0.001, "p01": 0.01, "p05": 0.05, "p10": 0.10, "p25": 0.25, "p50": 0.50,
    "p75": 0.75, "p90": 0.90, "p95": 0.95, "p99": 0.99, "p999": 0.999,
}  # fmt: skip


@dataclass(frozen=True)
class Metric:
    """One row of the catalogue."""

    key: str
    label: str
    unit: str
    better: Better
    decimals: int
    definition: str
    distribution: bool = False
    """True where percentiles over requests exist; False where only a mean does."""


METRICS: dict[str, Metric] = {
    m.key: m
    for m in (
        Metric(
            "output_throughput", "Output throughput", "tok/s", "higher", 1,
            "Output tokens of completed requests inside the measured window / window length; "
            "tokens are spread evenly between a request's first and last token.",
        ),
        Metric(
            "total_throughput", "Total throughput", "tok/s", "higher", 1,
            "Prompt and output tokens of completed requests inside the measured window / window "
            "length; prompt tokens count at the first token.",
        ),
        Metric(
            "request_throughput", "Request throughput", "req/s", "higher", 3,
            "Completed requests that ended inside the measured window / window length.",
        ),
        Metric(
            "request_attainment", "Rate attained", "ratio", "higher", 3,
            "Completed requests per second, from the first completion to the last / requests per "
            "second offered. A report without requests: its request throughput / rate offered, "
            "which the wait for the last requests lowers.",
        ),
        Metric(
            "ttft", "Time to first token (TTFT)", "ms", "lower", 1,
            "Request sent to first token, over completed requests whose first token lies in the "
            "measured window.", distribution=True,
        ),
        Metric(
            "itl", "Inter-token latency (ITL)", "ms", "lower", 2,
            "(last token - first token) / (output tokens - 1) of each request, weighted by "
            "output tokens - 1. vLLM's bench calls this TPOT.", distribution=True,
        ),
        Metric(
            "tpot", "Time per output token (TPOT)", "ms", "lower", 2,
            "(last token - request sent) / output tokens of each request, weighted by output "
            "tokens; the first token is included. Not vLLM's TPOT.", distribution=True,
        ),
        Metric(
            "chunk_gap", "Gap between streamed chunks", "ms", "lower", 2,
            "Gap between streamed chunks. vLLM's bench calls this ITL; with speculation a chunk "
            "holds several tokens, so it is never mixed with ITL.", distribution=True,
        ),
        Metric(
            "request_latency", "Request latency", "s", "lower", 2,
            "Request sent to last token, over completed requests.", distribution=True,
        ),
        Metric(
            "prompt_tokens", "Prompt length", "tokens", "neither", 0,
            "Prompt tokens per completed request, as counted by the server.", distribution=True,
        ),
        Metric(
            "output_tokens", "Output length", "tokens", "neither", 0,
            "Output tokens per completed request, as counted by the server.", distribution=True,
        ),
        Metric(
            "achieved_concurrency", "Achieved concurrency", "requests", "neither", 1,
            "Requests in flight, averaged over the measured window.",
        ),
        Metric(
            "error_rate", "Error rate", "ratio", "lower", 4,
            "Errored requests / (completed + errored requests), whole run.",
        ),
        Metric(
            "acceptance_rate", "Acceptance rate", "ratio", "higher", 3,
            "Accepted draft tokens / drafted tokens.",
        ),
        Metric(
            "mean_acceptance_length", "Mean acceptance length", "tokens/step", "higher", 2,
            "1 + accepted draft tokens / drafts: tokens per verification step, bonus token "
            "included.",
        ),
    )
}  # fmt: skip


def percentile_label(statistic: str) -> str:
    """How a statistic is shown: ``p95`` as ``P95``, ``p50`` as ``median``."""
    if statistic == "p50":
        return "median"
    if statistic in QUANTILES:
        return f"P{QUANTILES[statistic] * 100:g}"
    return statistic


def arm_label(
    spec_method: str | None, num_speculative_tokens: int | None, draft_model: str | None = None
) -> str:
    """The name of an arm: ``baseline``, ``eagle3 K=3``, ``unknown``.

    ``draft_model`` is appended only where a caller has two drafts with one method to tell apart.
    """
    if spec_method is None:
        return "unknown"
    if spec_method == "none":
        return "baseline"
    k = "?" if num_speculative_tokens is None else str(num_speculative_tokens)
    return f"{spec_method} K={k}" + (f" ({draft_model})" if draft_model else "")
