"""A comparison as rows of text: what a terminal prints and a reader can check."""

from typing import Any

import pandas as pd

from warehouse.catalogue import METRICS, percentile_label

Table = tuple[list[str], list[list[str]]]
UNKNOWN = "unknown"


def number(value: float | None, decimals: int) -> str:
    """A value with thin grouping, ``1,171.7``; unknown is said so, never 0."""
    return UNKNOWN if value is None or pd.isna(value) else f"{value:,.{decimals}f}"


def percent(ratio: float | None) -> str:
    """An improvement with its sign, ``+20.7 %``; positive is better."""
    return UNKNOWN if ratio is None or pd.isna(ratio) else f"{ratio * 100:+.1f} %"


def metric_name(metric: str, statistic: str) -> str:
    """``TTFT … P95 (ms)``: label, statistic where there is a choice, unit."""
    known = METRICS[metric]
    chosen = f" {percentile_label(statistic)}" if known.distribution else ""
    return f"{known.label}{chosen} ({known.unit})"


def known_text(value: Any) -> str:
    """A value in words; unknown is said."""
    if value is None or pd.isna(value):
        return UNKNOWN
    return f"{value:g}" if isinstance(value, float) else str(value)
