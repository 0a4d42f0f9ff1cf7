"""What the Draft tokens page draws of acceptance: by position, over K and over the load."""

from collections.abc import Sequence

import pandas as pd

from answers.decide.accepted import Accepted
from answers.decide.overview import badge
from dashboard.answers import Drawing, drawn
from dashboard.charts import Scales, nothing
from dashboard.charts import drafts as charts_drafts
from dashboard.charts.drafts import Axis
from dashboard.ends import panel_of
from warehouse.catalogue import METRICS

_COLUMNS = {"acceptance_rate": "rate", "mean_acceptance_length": "mean_length"}
#: More panels than this are neither read nor drawn quickly.
MOST_PANELS = 6


def arm_name(method: str, k: int) -> str:
    """As the catalogue names arms, so that they get their colour."""
    return f"{method} K={k}" if k else "baseline"


def position_drawings(found: Sequence[Accepted], conditional: bool) -> list[Drawing]:
    """Acceptance by position, a chart per dataset."""
    return [_positions(name, part, conditional) for name, part in _by_dataset(found)]


def acceptance_drawings(found: Sequence[Accepted], over: Axis, metric: str) -> list[Drawing]:
    """``acceptance_rate`` or ``mean_acceptance_length`` over K or load, a chart per dataset."""
    return [_acceptance(name, part, over, metric) for name, part in _by_dataset(found)]


def _by_dataset(found: Sequence[Accepted]) -> list[tuple[str, list[Accepted]]]:
    names = dict.fromkeys(one.dataset for one in found)
    parts = [(name or "unknown", [x for x in found if x.dataset == name]) for name in names]
    parts = [(f"{name}{badge(part[0].evidence)}", part) for name, part in parts]
    return parts[:MOST_PANELS]


def _positions(name: str, found: list[Accepted], conditional: bool) -> Drawing:
    column = "conditional" if conditional else "rate"
    rows = [
        {"arm": x.arm, "k": x.k, "concurrency": x.concurrency, "position": place, column: share}
        for x in found
        for place, share in enumerate(x.of_those if conditional else x.of_all, 1)
        if share is not None
    ]
    if not rows:
        return drawn(nothing(f"{name}: acceptance by position unknown"))
    of_all = "of drafts that got so far" if conditional else "of all drafts"
    names = (f"{name}: {_lengths(found)}", f"accepted at each position, {of_all}")
    return drawn(charts_drafts.acceptance_by_position(pd.DataFrame(rows), column, names))


def _lengths(found: list[Accepted]) -> str:
    known = [x.length for x in found if x.length is not None]
    if not known:
        return "mean acceptance length unknown"
    low, high = min(known), max(known)
    span = f"{low:.2f}" if high - low < 0.005 else f"{low:.2f} to {high:.2f}"
    return f"{span} tokens per step"


def _acceptance(name: str, found: list[Accepted], over: Axis, key: str) -> Drawing:
    metric, column = METRICS[key], _COLUMNS[key]
    rows = pd.DataFrame(
        [
            {"arm": x.arm, "k": x.k, "concurrency": x.concurrency, "rate": x.rate,
             "mean_length": x.length, "repeats": 1}
            for x in found
        ]
    ).dropna(subset=column)  # fmt: skip
    if rows.empty:
        return drawn(nothing(f"{name}: {metric.label.lower()} unknown"))
    last = rows.groupby("arm")["concurrency"].transform("max") == rows["concurrency"]
    marks = rows.assign(end_label=rows["arm"].where(last, ""), value=rows[column], panel="")
    high = 1.0 if column == "rate" else float(rows[column].max())
    marks = panel_of(marks.assign(end_y=marks["value"]), "", Scales((), 0.0, high))
    marks = marks.drop(columns=["panel", "value"])
    line = "one line per load" if over == "k" else "one line per K"
    names = (f"{metric.label}, {name}", f"{metric.unit}; higher is better; {line}")
    return drawn(charts_drafts.acceptance_over(marks, over, column, names))
