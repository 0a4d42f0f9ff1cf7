"""Small words that many pages say."""

from answers.compare.words import counted as counted
from answers.compare.words import metric_name
from warehouse.catalogue import Metric


def named(metric: Metric, statistic: str) -> str:
    """A metric with its statistic, e.g. ``Time to first token (TTFT), P95``."""
    return metric_name(metric.key, statistic)
