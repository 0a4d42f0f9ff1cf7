"""What tables of other people call the metrics of the catalogue."""

import re
from dataclasses import dataclass

from warehouse.catalogue import METRICS, QUANTILES

#: Words that tell a metric, in the order in which they are looked for.
_METRICS: tuple[tuple[str, str], ...] = (
    ("ttft", r"\bttft\b|time to first token"),
    ("tpot", r"\btpot\b|time per output token"),
    ("itl", r"\bitl\b|inter token latency"),
    ("total_throughput", r"total (tok|throughput)"),
    ("request_throughput", r"requests? (per|throughput)|\breq s\b"),
    ("output_throughput", r"output (tok|throughput)|\btok(en)?s? s\b|tokens per second|throughput|\btps\b"),
    ("request_latency", r"latency|\be2el?\b"),
    ("mean_acceptance_length", r"acceptance length"),
    ("acceptance_rate", r"acceptance rate"),
)  # fmt: skip
_STATISTIC = re.compile(r"\bp(\d{2,3})\b")


@dataclass(frozen=True)
class NamedMetric:
    """A metric of the catalogue as a foreign table named it; ``peak``: its best level, no mean."""

    metric: str
    statistic: str
    peak: bool


def read_metric(name: str) -> NamedMetric | None:
    """Return the metric that a foreign name means, such as ``ttft_p95_s`` or ``Request latency
    median (s)``; None where it is unknown."""
    words = re.sub(r"[^a-z0-9]+", " ", name.casefold()).strip()
    metric = next((metric for metric, pattern in _METRICS if re.search(pattern, words)), None)
    if metric is None:
        return None
    percentile = _STATISTIC.search(words)
    statistic = f"p{percentile[1]}" if percentile else "mean"
    if re.search(r"\bmedian\b", words):
        statistic = "p50"
    known = METRICS[metric].distribution and statistic in QUANTILES
    return NamedMetric(metric, statistic if known else "mean", "peak" in words)
