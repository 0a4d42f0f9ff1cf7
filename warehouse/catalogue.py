"""The one metric catalogue: what each measurement is called, its unit, its direction, its meaning.

Adding a metric is adding one row to ``METRICS``: the columns of stored requests, canonical values, checks
of ingested numbers, charts, SLOs, tables and docs/definitions.md derive from it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from warehouse.errors import UnknownKey

Better = Literal["higher", "lower", "neither"]
#: Which completed requests count: those in flight in the measured window at all, those whose first token
#: lies in it, or those that produced tokens in it.
Counted = Literal["in flight", "first token", "producing"]

#: The quantile, 0-1, that each percentile name stands for ("p001" is 0.1 %).
QUANTILES: dict[str, float] = {
    "p001": 0.001, "p01": 0.01, "p05": 0.05, "p10": 0.10, "p25": 0.25, "p50": 0.50,
    "p75": 0.75, "p90": 0.90, "p95": 0.95, "p99": 0.99, "p999": 0.999,
}  # fmt: skip
PERCENTILES: tuple[str, ...] = tuple(QUANTILES)
#: Statistics a measurement may carry. Rates have only a mean: their other statistics are
#: instantaneous rates weighted by time and say nothing about throughput.
STATISTICS: tuple[str, ...] = ("mean", "std", "min", "max", *PERCENTILES)


@dataclass(frozen=True)
class PerRequest:
    """How one request's value is calculated, in the metric's unit.

    ``value`` and ``weight`` take the columns of a report's requests and return one number each:
    ``start``, ``first_token``, ``last_token``, ``end`` (s), ``prompt_tokens``, ``output_tokens`` as they are
    stored; ``finished`` and ``ended`` (s), the last token and the end of a completed request; ``tokens``
    and ``gaps``, its output tokens and those after the first, where there are any. Unknown is NaN.
    """

    value: Callable[[Any], Any]
    counted: Counted = "in flight"
    #: The weight of a request in means and percentiles; None: all count alike.
    weight: Callable[[Any], Any] | None = None


@dataclass(frozen=True)
class Metric:
    """One row of the catalogue."""

    key: str
    label: str
    unit: str
    better: Better
    decimals: int
    definition: str
    #: True where percentiles over requests exist; False where only a mean does.
    distribution: bool = False
    #: None where a single request has no value of it.
    request: PerRequest | None = None
    #: What a change for the better and one for the worse are called.
    changes: tuple[str, str] = ("better", "worse")
    lowest: float = 0.0
    #: What cannot be is outside, whatever is measured: it is rejected. The same holds of a request's.
    highest: float = float("inf")
    #: Above it a value was never seen anywhere: it is taken in with a flag.
    doubtful: float = float("inf")

    @property
    def statistics(self) -> tuple[str, ...]:
        """The statistics that a measurement of the metric may carry."""
        return STATISTICS if self.distribution else ("mean",)


#: A time beyond a week is a clock's mistake. A cell lasts no longer than a month.
_WEEK_S = 7 * 86_400.0
_WEEK_MS = _WEEK_S * 1000
LONGEST_CELL_S = 31 * 86_400.0
#: So many requests of a cell nobody could keep.
MOST_REQUESTS = 1_000_000_000
_MOST_TOKENS = 2.0**31 - 1

METRICS: dict[str, Metric] = {
    m.key: m
    for m in (
        Metric(
            "output_throughput", "Output throughput", "tok/s", "higher", 1,
            "Output tokens of completed requests inside the measured window / window length; "
            "tokens are spread evenly between a request's first and last token.",
            changes=("more output tokens per second", "fewer output tokens per second"),
            highest=1e9, doubtful=1e7,
        ),
        Metric(
            "total_throughput", "Total throughput", "tok/s", "higher", 1,
            "Prompt and output tokens of completed requests inside the measured window / window "
            "length; prompt tokens count at the first token.",
            changes=("more tokens per second", "fewer tokens per second"),
            highest=1e10, doubtful=1e8,
        ),
        Metric(
            "request_throughput", "Request throughput", "req/s", "higher", 3,
            "Completed requests that ended inside the measured window / window length.",
            changes=("more requests per second", "fewer requests per second"),
            highest=1e8, doubtful=1e5,
        ),
        Metric(
            "request_attainment", "Rate attained", "ratio", "higher", 3,
            "Completed requests per second, from the first completion to the last / requests per "
            "second offered. A report without requests: its request throughput / rate offered, "
            "which the wait for the last requests lowers. A trace: the time in which its requests "
            "came / the time in which they were completed. Unknown where requests came for less than "
            "the median request took.",
            changes=("more of the offered rate", "less of the offered rate"),
            highest=1e3, doubtful=10.0,
        ),
        Metric(
            "ttft", "Time to first token (TTFT)", "ms", "lower", 1,
            "Request sent to first token, over completed requests whose first token lies in the "
            "measured window.", distribution=True,
            request=PerRequest(lambda r: (r.first_token - r.start) * 1000, "first token"),
            changes=("shorter time to first token", "longer time to first token"),
            highest=_WEEK_MS, doubtful=3.6e6,
        ),
        Metric(
            "ttft_first_turn", "TTFT, first turns", "ms", "lower", 1,
            "Time to first token of the first turns of sessions.", distribution=True,
            changes=("shorter time to first token of first turns", "longer time to first token of first turns"),
            highest=_WEEK_MS, doubtful=3.6e6,
        ),
        Metric(
            "ttft_later_turns", "TTFT, later turns", "ms", "lower", 1,
            "Time to first token of the turns of sessions that wait for an answer before them. They are sent "
            "with all that was said before, which a prefix cache may hold.", distribution=True,
            changes=("shorter time to first token of later turns", "longer time to first token of later turns"),
            highest=_WEEK_MS, doubtful=3.6e6,
        ),
        Metric(
            "itl", "Inter-token latency (ITL)", "ms", "lower", 2,
            "(last token - first token) / (output tokens - 1) of each request, weighted by "
            "output tokens - 1. vLLM's bench calls this TPOT.", distribution=True,
            request=PerRequest(
                lambda r: (r.last_token - r.first_token) * 1000 / r.gaps, "producing",
                weight=lambda r: r.gaps,
            ),
            changes=("shorter gap between tokens", "longer gap between tokens"),
            highest=_WEEK_MS, doubtful=60_000,
        ),
        Metric(
            "tpot", "Time per output token (TPOT)", "ms", "lower", 2,
            "(last token - request sent) / output tokens of each request, weighted by output "
            "tokens; the first token is included. Not vLLM's TPOT.", distribution=True,
            request=PerRequest(
                lambda r: (r.finished - r.start) * 1000 / r.tokens, weight=lambda r: r.tokens
            ),
            changes=("less time per output token", "more time per output token"),
            highest=_WEEK_MS, doubtful=3.6e6,
        ),
        Metric(
            "chunk_gap", "Gap between streamed chunks", "ms", "lower", 2,
            "Gap between streamed chunks. vLLM's bench calls this ITL; with speculation a chunk "
            "holds several tokens, so it is never mixed with ITL.", distribution=True,
            changes=("shorter gap between chunks", "longer gap between chunks"),
            highest=_WEEK_MS, doubtful=600_000,
        ),
        Metric(
            "request_latency", "Request latency", "s", "lower", 2,
            "Request sent to last token, over completed requests.", distribution=True,
            request=PerRequest(lambda r: r.ended - r.start),
            changes=("shorter request latency", "longer request latency"),
            highest=_WEEK_S, doubtful=21_600,
        ),
        Metric(
            "prompt_tokens", "Prompt length", "tokens", "neither", 0,
            "Prompt tokens per completed request, as counted by the server.", distribution=True,
            request=PerRequest(lambda r: r.prompt_tokens),
            highest=_MOST_TOKENS, doubtful=1.1e7,
        ),
        Metric(
            "output_tokens", "Output length", "tokens", "neither", 0,
            "Output tokens per completed request, as counted by the server.", distribution=True,
            request=PerRequest(lambda r: r.output_tokens),
            highest=_MOST_TOKENS, doubtful=2e6,
        ),
        Metric(
            "achieved_concurrency", "Achieved concurrency", "requests", "neither", 1,
            "Requests in flight, averaged over the measured window.",
            highest=1e8, doubtful=1e5,
        ),
        Metric(
            "error_rate", "Error rate", "ratio", "lower", 4,
            "Errored requests / (completed + errored requests), whole run.", highest=1.0,
        ),
        # Of the texts of completed answers, before they are dropped.
        Metric(
            "repeating_answers", "Answers that repeat themselves", "ratio", "lower", 3,
            "Completed answers that end in one block said over and over / those whose text is known: the last "
            "half or quarter of the text is one block at least three times, and zlib makes the text more "
            "than 2.4 times smaller (the ratio at which OpenAI's Whisper gives an answer up).", highest=1.0,
        ),
        Metric(
            "json_answers", "Answers that are JSON", "ratio", "higher", 3,
            "Completed answers that are a JSON object or array, without white space, a code fence and the reasoning "
            "before it / those whose text is known. Calls of tools (in tool_call tags, or GuideLLM's tool_calls) "
            "must each have a name and arguments that are an object.", highest=1.0,
        ),
        Metric(
            "acceptance_rate", "Acceptance rate", "ratio", "higher", 3,
            "Accepted draft tokens / drafted tokens.", highest=1.0,
        ),
        Metric(
            "mean_acceptance_length", "Mean acceptance length", "tokens/step", "higher", 2,
            "1 + accepted draft tokens / drafts: tokens per verification step, bonus token "
            "included.", lowest=1.0, highest=1001.0, doubtful=65.0,
            changes=("more tokens a step", "fewer tokens a step"),
        ),
        # Of the machine, read each second and averaged over the measured window.
        Metric(
            "gpu_clock", "GPU clock (SM)", "MHz", "neither", 0,
            "Clock of the slowest GPU of the server.", highest=1e5, doubtful=1e4,
        ),
        Metric(
            "gpu_power", "GPU power", "W", "neither", 0, "Power of all GPUs of the server.",
            highest=1e7, doubtful=1e5,
        ),
        Metric(
            "cpu_clock", "Processor clock", "MHz", "neither", 0,
            "Clock of the processor, mean over its cores.", highest=1e5, doubtful=1e4,
        ),
        Metric(
            "cpu_steal", "Processor time stolen", "ratio", "neither", 4,
            "Time that a hypervisor gave to others / time of all cores.", highest=1.0,
        ),
        Metric(
            "launches_beside", "Launches beside", "launches", "neither", 1,
            "Other launches on the same machine.", highest=1e4,
        ),
        Metric(
            "kv_cache_tokens", "KV cache", "tokens", "higher", 0,
            "Tokens that the engine's KV cache holds, as the engine says it (vLLM: "
            "kv_cache_size_tokens, else blocks x block size), over its ranks.",
            changes=("more room in the KV cache", "less room in the KV cache"),
            highest=1e12, doubtful=1e10,
        ),
        Metric(
            "prefix_cache_hit_rate", "Prefix cache hits", "ratio", "neither", 3,
            "Prompt tokens found in the prefix cache / prompt tokens looked up, by the engine's "
            "counters around the load.", highest=1.0,
        ),
    )
}  # fmt: skip

#: Metrics that a request has a value of.
REQUEST_METRICS: tuple[str, ...] = tuple(m.key for m in METRICS.values() if m.request)
#: Of those the ones for which less or more is better, so that each request can meet a bound on it.
JUDGED_PER_REQUEST: tuple[str, ...] = tuple(
    key for key in REQUEST_METRICS if METRICS[key].better != "neither"
)


def line_of(text: str) -> tuple[str, str]:
    """Return the metric and the statistic that ``itl:p95`` names; without one the median, or the
    mean.

    Raises UnknownKey.
    """
    key, _, statistic = text.partition(":")
    metric = METRICS.get(key)
    if metric is None:
        raise UnknownKey(f"There is no metric {key!r}; choose one of {', '.join(METRICS)}.")
    statistic = statistic or ("p50" if metric.distribution else "mean")
    if statistic not in metric.statistics:
        raise UnknownKey(f"{key} has no {statistic!r}; choose {', '.join(metric.statistics)}.")
    return key, statistic


def percentile_label(statistic: str) -> str:
    """Return how a statistic is shown: ``p95`` as ``P95``, ``p50`` as ``median``."""
    if statistic == "p50":
        return "median"
    return f"P{QUANTILES[statistic] * 100:g}" if statistic in QUANTILES else statistic


def counted(count: int, what: str, many: str = "") -> str:
    """Return a count with its noun: ``1 pair``, ``2,000 pairs``. ``many``: an irregular plural."""
    return f"{count:,} {what if count == 1 else many or what + 's'}"


def duration(seconds: float) -> str:
    """Write a duration: ``40 s``, ``12 min``, ``3.5 h``."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
