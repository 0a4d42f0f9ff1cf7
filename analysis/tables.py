"""Numbers and names of metrics as text."""

import pandas as pd

from warehouse.catalogue import METRICS, percentile_label

UNKNOWN = "unknown"


def number(value: float | None, decimals: int) -> str:
    """Write a value with commas between thousands, ``1,171.7``; an unknown one is said so, never
    0."""
    return UNKNOWN if value is None or pd.isna(value) else f"{value:,.{decimals}f}"


def metric_name(metric: str, statistic: str) -> str:
    """Return a metric in words with its unit, ``TTFT … P95 (ms)``, and its statistic where there is
    a choice."""
    known = METRICS[metric]
    chosen = f" {percentile_label(statistic)}" if known.distribution else ""
    return f"{known.label}{chosen} ({known.unit})"
