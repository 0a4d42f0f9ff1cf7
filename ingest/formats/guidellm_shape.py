"""The parts of a GuideLLM report that are read, as typed structs; fields not named are skipped.

One set of structs covers all generations: a field that a generation lacks stays None.
"""

from typing import Any

import msgspec
from msgspec import Raw

#: Stands for a field that a report does not have; its length is 0.
ABSENT = Raw()


class Shape(msgspec.Struct, gc=False):
    """The base of all parts of a report: not tracked by the garbage collector, since a report holds
    no cycles."""


class ReportMetadata(Shape):
    version: int | None = None
    guidellm_version: str | None = None


class Timings(Shape):
    targeted_start: float | None = None
    request_start: float | None = None
    first_token_iteration: float | None = None
    last_token_iteration: float | None = None
    token_iterations: int | None = None
    request_end: float | None = None
    resolve_end: float | None = None


class RequestInfo(Shape):
    timings: Timings | None = None
    turn_index: int | None = None
    error: str | None = None


class RequestSpeculation(Shape):
    num_spec_steps: int | None = None
    num_draft_tokens: int | None = None
    num_accepted_draft_tokens: int | None = None
    acceptance_histogram: list[int] | None = None

    @property
    def counts(self) -> tuple[Any, Any, Any]:
        """Steps, drafted and accepted tokens."""
        return self.num_spec_steps, self.num_draft_tokens, self.num_accepted_draft_tokens


class ResponseMetrics(Shape):
    speculative_decoding: RequestSpeculation | None = None


class GuidellmRequest(Shape):
    """One record: ``info`` since 0.4, the ``*_time`` fields before. Texts stay undecoded."""

    info: RequestInfo | None = None
    request_args: Raw = ABSENT
    prompt: Raw = ABSENT
    output: Raw = ABSENT
    tool_calls: list[Raw] | None = None
    prompt_tokens: int | None = None
    output_tokens: int | None = None
    request_type: str | None = None
    response_metrics: ResponseMetrics | None = None
    start_time: float | None = None
    end_time: float | None = None
    first_token_time: float | None = None
    last_token_time: float | None = None
    error: str | None = None


class Records(Shape):
    successful: list[GuidellmRequest] | None = None
    errored: list[GuidellmRequest] | None = None
    incomplete: list[GuidellmRequest] | None = None


class Totals(Shape):
    successful: int = 0
    errored: int = 0
    incomplete: int = 0
    total: int = 0


class RunTotals(Shape):
    """The times and totals of a run: ``run_stats`` (0.2, 0.3) or ``scheduler_metrics``."""

    requests_made: Totals | None = None
    measure_start_time: float | None = None
    measure_end_time: float | None = None


class EndState(Shape):
    end_processing_constraints: dict[str, Raw] | None = None


class Summary(Shape):
    mean: float | None = None
    median: float | None = None
    std_dev: float | None = None
    min: float | None = None
    max: float | None = None
    percentiles: dict[str, float | None] | None = None


class ByStatus(Shape):
    successful: Summary | None = None


class Metrics(Shape):
    request_totals: Totals | None = None
    requests_per_second: ByStatus | None = None
    request_concurrency: ByStatus | None = None
    request_latency: ByStatus | None = None
    time_to_first_token_ms: ByStatus | None = None
    inter_token_latency_ms: ByStatus | None = None
    time_per_output_token_ms: ByStatus | None = None
    output_tokens_per_second: ByStatus | None = None
    tokens_per_second: ByStatus | None = None
    prompt_token_count: ByStatus | None = None
    output_token_count: ByStatus | None = None


class Benchmark(Shape):
    metrics: Metrics
    requests: Records = msgspec.field(default_factory=Records)
    """Empty in a report whose records were taken out, to pass it on or to keep it small."""
    config: dict[str, Any] | None = None
    args: dict[str, Any] | None = None
    worker: dict[str, Any] | None = None
    run_id: str | None = None
    run_stats: RunTotals | None = None
    scheduler_metrics: RunTotals | None = None
    scheduler_state: EndState | None = None
    request_totals: Totals | None = None
    start_time: float | None = None
    end_time: float | None = None
    warmup_duration: float | None = None
    cooldown_duration: float | None = None


class GuidellmReport(Shape):
    benchmarks: list[Benchmark]
    metadata: ReportMetadata | None = None
    args: dict[str, Any] | None = None
    config: dict[str, Any] | None = None
    conclusions: Raw = ABSENT
