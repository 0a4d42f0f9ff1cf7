"""Numbers and names of metrics as text."""

import pandas as pd

from warehouse.catalogue import METRICS, percentile_label

UNKNOWN = "unknown"


def number(value: float | None, decimals: int) -> str:
    """A value with thin grouping, ``1,171.7``; unknown is said so, never 0."""
    return UNKNOWN if value is None or pd.isna(value) else f"{value:,.{decimals}f}"


def metric_name(metric: str, statistic: str) -> str:
    """``TTFT … P95 (ms)``: label, statistic where there is a choice, unit."""
    known = METRICS[metric]
    chosen = f" {percentile_label(statistic)}" if known.distribution else ""
    return f"{known.label}{chosen} ({known.unit})"
