"""What a million tokens costs at each load, as the rows that the Cost page's charts draw."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from answers.cost.values import Money, Point
from dashboard.charts import Scales
from dashboard.ends import panel_of

#: Room above and below the curves, as a factor.
_ROOM = 1.25
#: Below this, USD are written with two digits that say something.
_CENT = 0.1
BASELINE = "baseline"


def curve_rows(row: Money) -> pd.DataFrame:
    """A row per arm (the baseline once) and load, as ``charts.cost`` wants them.

    Loads of one kind alone stand on one axis: those of the operating load's kind.
    """
    points = [point for point in row.curve if point.load.value is not None]
    here = [point for point in points if point.operating] or points
    kind = here[-1].load.kind if here else None
    marks = pd.DataFrame([_mark(point) for point in points if point.load.kind == kind])
    return marks if marks.empty else _labelled(marks)


def _mark(point: Point) -> dict[str, object]:
    usd = point.usd_per_million_output_tokens
    return {
        "panel": "", "arm": point.arm or BASELINE, "concurrency": point.load.value,
        "load": point.load.text, "usd": usd,
        "low": usd if point.low is None else point.low,
        "high": usd if point.high is None else point.high,
        "solid": int(point.low is not None or point.arm is None),
        "taken": "yes" if point.taken else "no", "runs": int(point.operating),
    }  # fmt: skip


def _labelled(rows: pd.DataFrame) -> pd.DataFrame:
    """The name and the cost at the end of each line."""
    rows = rows.sort_values(["arm", "concurrency"], ignore_index=True)
    last = rows.groupby("arm")["concurrency"].transform("max") == rows["concurrency"]
    texts = [
        f"{arm} {_short(usd)}" if end else ""
        for arm, usd, end in zip(rows["arm"], rows["usd"], last, strict=True)
    ]
    return rows.assign(end_label=texts, value=np.log(rows["usd"]))


def _short(usd: float) -> str:
    return f"{usd:,.2f}" if usd >= _CENT else f"{usd:.2g}"


def cost_scales(curves: Sequence[pd.DataFrame]) -> Scales:
    """One scale for all panels, USD per million output tokens."""
    rows = pd.concat(curves)
    low, high = rows[["usd", "low"]].min().min(), rows[["usd", "high"]].max().max()
    levels = tuple(sorted(rows["concurrency"].unique()))
    return Scales(levels, float(low) / _ROOM, float(high) * _ROOM)


def cost_panel(rows: pd.DataFrame, scales: Scales) -> pd.DataFrame:
    """The marks of one panel, the names of its lines apart on the logarithmic axis."""
    logs = Scales(scales.levels, float(np.log(scales.low)), float(np.log(scales.high)))
    chosen = panel_of(rows, "", logs).drop(columns=["panel", "value"])
    return chosen.assign(end_usd=np.exp(chosen.pop("end_y").astype("float64")))
