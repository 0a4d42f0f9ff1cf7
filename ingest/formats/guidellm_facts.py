"""The facts of a cell that a GuideLLM report states; what it does not state stays unknown."""

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from ingest.formats.guidellm_adapter import Adapter, at
from ingest.formats.guidellm_requests import Asked
from ingest.formats.guidellm_shape import Benchmark, Metrics, Report, Request, Summary
from ingest.prompts import Body
from warehouse.catalogue import METRICS, PERCENTILES
from warehouse.contract import FACT_KEYS, Facts, prompt_set_hash
from warehouse.rows import Flag, Measurement

# --- What a GuideLLM report says of itself, in the catalogue's words; its units are already ours.


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


# --- Whether GuideLLM sent the requests of an open load when it meant to.


_SCHEDULED = ("constant", "poisson", "trace")
#: Seconds by which one request in twenty may be later than the most punctual one.
_LATE_S = 0.25


def late(benchmark: Benchmark, records: list[Request]) -> tuple[Flag, ...]:
    """Return a flag where arrivals were not those of the load that was asked for.

    A client that is starved, or starts after the first times are over, sends in heaps.
    """
    strategy = at(benchmark.config, "strategy")
    if (at(strategy, "type_") or at(strategy, "kind")) not in _SCHEDULED:
        return ()
    timings = [r.info.timings for r in records if r.info and r.info.timings]
    lags = np.array(
        [t.request_start - t.targeted_start for t in timings
         if t.request_start and t.targeted_start],
        dtype=np.float64,
    )  # fmt: skip
    if lags.size < 2:
        return ()
    behind = float(np.quantile(lags - lags.min(), 0.95, method="inverted_cdf"))
    if behind <= _LATE_S:
        return ()
    return (
        Flag(
            "sent_late",
            "warning",
            f"One request in twenty was sent {behind:.2f} s or more behind its time, so arrivals "
            "are not those of the load; give the load generator a core of its own, or lower the rate.",
        ),
    )


# --- The facts of a cell that a GuideLLM report states; what it does not state stays unknown.


#: Strategies that may have a limit of requests at once; sweeps are made of these.
_LIMITED = ("throughput", "constant", "poisson")
_SAMPLING = ("temperature", "top_p", "seed", "ignore_eos")


def facts_of(
    adapter: Adapter, report: Report, benchmark: Benchmark, said: Asked, given: dict[str, Any]
) -> Facts:
    """Return the report's own facts, then its labels, then what the user gave, which wins."""
    backend = adapter.backend(report, benchmark)
    own = _model(backend, said) | _load(report, benchmark) | _sampling(backend, said)
    own["request_format"] = _format(adapter, backend, benchmark, said)
    if said.whole:
        own["prompt_set_hash"] = prompt_set_hash(said.hashes)
    return Facts(**(own | _labels(report) | given))


def _model(backend: dict[str, Any], said: Asked) -> dict[str, Any]:
    model = backend.get("model") or (said.first and said.first.model)
    return {"model": model if isinstance(model, str) else None}


def _load(report: Report, benchmark: Benchmark) -> dict[str, Any]:
    strategy = at(benchmark.config or benchmark.args, "strategy") or {}
    kind = strategy.get("type_") or strategy.get("kind")
    streams = 1 if kind == "synchronous" else strategy.get("streams")
    # The strategy's own max_concurrency is what was resolved, also where no limit was asked for.
    limit = at(benchmark.config or benchmark.args, "profile", "max_concurrency")
    return {
        "load_profile": kind,
        "concurrency": limit if kind in _LIMITED else streams,
        "rate": strategy.get("rate"),
        "trace": _trace(report, strategy) if kind == "trace" else None,
    }


def _trace(report: Report, strategy: dict[str, Any]) -> str | None:
    """Return the name of the file that was replayed, and how fast."""
    data = at(report.config, "spec", "data")
    first = data[0] if isinstance(data, list) and data else None
    path = at(first, "path") or at(first, "source")
    if not isinstance(path, str) or not path:
        return None
    scale = strategy.get("time_scale") or 1
    return Path(path).name + ("" if scale == 1 else f" (time x {scale:g})")


def _sampling(backend: dict[str, Any], said: Asked) -> dict[str, Any]:
    extra = at(backend, "extras", "body") or {}
    body = said.first or Body()
    found = {k: _either(getattr(body, k), extra.get(k)) for k in _SAMPLING}
    asked_for = next(iter(said.max_tokens)) if len(said.max_tokens) == 1 else None
    configured = None if said.max_tokens else backend.get("max_tokens")
    return found | {"max_tokens": _either(asked_for, configured)}


def _either(first: Any, second: Any) -> Any:
    return second if first is None else first


def _format(
    adapter: Adapter, backend: dict[str, Any], benchmark: Benchmark, said: Asked
) -> str | None:
    if said.first is not None and said.first.messages is not None:
        return "chat_completions"
    record = next(iter(benchmark.requests.successful or ()), None)
    named = (record and record.request_type) or str(backend.get("request_format") or "")
    if "completions" not in named:
        return adapter.default_format
    return "chat_completions" if "chat" in named else "text_completions"


def _labels(report: Report) -> dict[str, Any]:
    labels = at(report.config, "metadata", "labels") or {}
    return {k: v for k, v in labels.items() if k in FACT_KEYS}
