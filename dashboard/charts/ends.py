"""The labels at the ends of lines, moved apart so that each can be read."""

import pandas as pd

from dashboard.charts import Scales

#: Smallest distance between two end labels, as a share of the axis.
_LABEL_GAP = 0.085


def panel_of(marks: pd.DataFrame, name: str, scales: Scales) -> pd.DataFrame:
    """Return the marks of one panel, with the labels at the ends of lines moved at least a line
    apart."""
    chosen = marks[marks["panel"] == name].copy()
    ends = chosen[chosen["end_label"] != ""].sort_values("value")
    gap = (scales.high - scales.low) * _LABEL_GAP
    chosen.loc[ends.index, "end_y"] = apart(list(ends["value"]), gap)
    return chosen


def apart(heights: list[float], gap: float) -> list[float]:
    """Move heights, given in ascending order, at least ``gap`` apart, as little as one pass
    allows."""
    placed: list[float] = []
    for height in heights:
        placed.append(max(height, placed[-1] + gap) if placed else height)
    shift = sum(p - h for p, h in zip(placed, heights, strict=True)) / max(len(placed), 1)
    return [height - shift for height in placed]
