"""The labels at the ends of lines, moved apart so that each can be read."""

from typing import Any

import altair as alt
import pandas as pd

from dashboard.charts.axes import NARROW, colour

#: Smallest distance between two end labels, as a share of the axis.
_LABEL_GAP = 0.085


def ends_apart(marks: pd.DataFrame, span: float) -> pd.DataFrame:
    """Return the marks with ``end_y``: where the labels at the ends of lines stand, at least a line
    apart. ``span``: from one end of the axis to the other."""
    placed = marks.copy()
    ends = placed[placed["end_label"] != ""].sort_values("value")
    placed.loc[ends.index, "end_y"] = apart(list(ends["value"]), span * _LABEL_GAP)
    return placed


def apart(heights: list[float], gap: float) -> list[float]:
    """Move heights, given in ascending order, at least ``gap`` apart, as little as one pass
    allows."""
    placed: list[float] = []
    for height in heights:
        placed.append(max(height, placed[-1] + gap) if placed else height)
    shift = sum(p - h for p, h in zip(placed, heights, strict=True)) / max(len(placed), 1)
    return [height - shift for height in placed]


def end_names(rows: pd.DataFrame, x: alt.X, y: str = "end_y", **mark: Any) -> Any:
    """Draw ``end_label`` at the end of each line in the colour of its arm, in place of a legend.
    ``y``: the column of heights."""
    named = rows[rows["end_label"] != ""]
    size = alt.expr(f"{NARROW} ? 10 : 12")
    look: dict[str, Any] = {"align": "left", "fontSize": size, "fontWeight": 600}
    return (
        alt.Chart(named)
        .mark_text(**(look | mark))
        .encode(
            x=x, y=alt.Y(field=y, type="quantitative"), color=colour(rows),
            text=alt.Text(field="end_label", type="nominal"),
        )
    )  # fmt: skip
