"""Charts of money: what a million tokens costs over the load, and what a year of it saves."""

from collections.abc import Sequence
from math import inf
from typing import Any

import altair as alt
import numpy as np
import pandas as pd

from answers.cost.values import CostPoint, DecisionCost
from answers.cost.words import from_to, per_year, short_usd
from answers.decide.overview import badge
from answers.decide.tables import traffic_short
from dashboard.charts import Chart, nothing
from dashboard.charts.axes import QUIET, colour, end_names, ends_apart, loads, tip, title
from dashboard.charts.pareto import given

HEIGHT = 300
#: Room at the right for the names of the lines, as a factor of the log axis.
_ROOM = 5.0
#: Room above and below the curves, as a factor.
_AROUND = 1.25
#: Opacity of an arm that the decision does not take.
_FAINT = 0.25
#: Height of one traffic in the chart of a year, and what its axis and title need, px.
_ROW, _HEAD = 48, 110
#: More traffics than this make the page longer than anybody reads; the table below has them all.
_MOST_TRAFFICS = 8
BASELINE = "baseline"


def cost_by_load(row: DecisionCost, slo: str | None) -> Chart:
    """Draw USD per million output tokens over the load, logarithmic both ways: the baseline and
    what the decision takes, other arms faint; dashed where the service level ``slo`` is not met."""
    rows = _marks(row)
    name = f"{from_to(row)}{badge(row.decision.subject.evidence)}"
    if rows.empty:
        return nothing(name)
    x = loads(sorted(rows["concurrency"].unique()), _ROOM, _axis(row))
    base = alt.Chart(rows).encode(x=x, y=_usd(rows))
    drawn = [
        base.mark_line(strokeWidth=1.5, strokeDash=[4, 4]).encode(
            color=colour(rows), opacity=given(alt.Opacity, "strong")
        ),
        alt.Chart(rows[rows["meets"] == 1])
        .mark_line(strokeWidth=3)
        .encode(x=x, y=_usd(rows), color=colour(rows), opacity=given(alt.Opacity, "strong")),
        base.mark_rule(strokeWidth=2).encode(
            color=colour(rows), opacity=given(alt.Opacity, "sure"),
            y=alt.Y(field="low", type="quantitative"), y2=alt.Y2(field="high"),
        ),
        _points(rows, base),
        end_names(rows, x, "end_usd", dx=10),
    ]  # fmt: skip
    solid = "all loads: no service level was asked for" if slo is None else f"solid: meets {slo}"
    told = (
        f"{row.arm} over the load, log scale; {solid}; large: where it is costed; faint: other arms"
    )
    return alt.layer(*drawn, title=title(name, told), height=HEIGHT)


def _axis(row: DecisionCost) -> str:
    return "requests a second" if row.curve[-1].load.is_rate else "requests at once"


def _marks(row: DecisionCost) -> pd.DataFrame:
    """Return a row per arm (the baseline once) and load. One axis holds only loads of one kind,
    that of the operating load."""
    points = [point for point in row.curve if point.load.value is not None]
    here = [point for point in points if point.operating] or points
    kind = here[-1].load.kind if here else None
    kept = [point for point in points if point.load.kind == kind]
    taken = {None, row.arm, *(point.arm for point in kept if point.taken)}
    rows = pd.DataFrame([_mark(point, point.arm in taken) for point in kept])
    return rows if rows.empty else _labelled(rows)


def _mark(point: CostPoint, strong: bool) -> dict[str, object]:
    usd = point.usd_per_million_output_tokens
    # An interval without an end has no place on the axis; the table tells it.
    known = (point.low or 0) > 0 and (point.high or inf) < inf
    return {
        "arm": point.arm or BASELINE, "concurrency": point.load.value, "load": point.load.text,
        "usd": usd, "low": point.low if known else usd, "high": point.high if known else usd,
        "solid": int(known or point.arm is None), "strong": 1.0 if strong else _FAINT,
        "sure": 0.5 if strong else 0.0, "meets": int(point.meets is not False),
        "level": {True: "yes", False: "no", None: "not asked or unknown"}[point.meets],
        "taken": "yes" if point.taken else "no", "runs": int(point.operating),
    }  # fmt: skip


def _labelled(rows: pd.DataFrame) -> pd.DataFrame:
    """Add the name and the cost at the end of each line that is not faint, apart from one
    another."""
    rows = rows.sort_values(["arm", "concurrency"], ignore_index=True)
    last = rows.groupby("arm")["concurrency"].transform("max") == rows["concurrency"]
    texts = [
        f"{arm} {short_usd(usd)}" if end else ""
        for arm, usd, end in zip(
            rows["arm"], rows["usd"], last & (rows["strong"] == 1.0), strict=True
        )
    ]
    rows = rows.assign(end_label=texts, value=np.log(rows["usd"]))
    low, high = _span(rows)
    placed = ends_apart(rows, float(np.log(high / low)))
    return placed.assign(end_usd=np.exp(placed.pop("end_y").astype("float64"))).drop(
        columns="value"
    )


def _span(rows: pd.DataFrame) -> tuple[float, float]:
    low, high = rows[["usd", "low"]].min().min(), rows[["usd", "high"]].max().max()
    return float(low) / _AROUND, float(high) * _AROUND


def _usd(rows: pd.DataFrame) -> alt.Y:
    return alt.Y(
        field="usd",
        type="quantitative",
        title=None,
        scale=alt.Scale(type="log", nice=False, domain=list(_span(rows))),
        axis=alt.Axis(values=_ticks(*_span(rows)), format="~g"),
    )


def _ticks(low: float, high: float) -> list[float]:
    """Return 1, 2 and 5 of every power of ten between two ends."""
    powers = range(int(np.floor(np.log10(low))), int(np.ceil(np.log10(high))) + 1)
    every = [digit * 10.0**power for power in powers for digit in (1, 2, 5)]
    return [value for value in every if low <= value <= high]


def _points(rows: pd.DataFrame, base: Any) -> Any:
    return base.mark_point(strokeWidth=2).encode(
        stroke=colour(rows, "stroke"),
        fill=colour(rows, "fill"),
        fillOpacity=given(alt.FillOpacity, "solid"),
        opacity=given(alt.Opacity, "strong"),
        size=alt.condition("datum.runs == 1", alt.value(230), alt.value(50)),
        tooltip=[
            tip("arm", "arm"),
            tip("load", "load"),
            tip("usd", "USD per million output tokens", ",.3f"),
            tip("low", "95 %, lower end", ",.3f"),
            tip("high", "95 %, upper end", ",.3f"),
            tip("level", "meets the service level"),
            tip("taken", "taken there"),
        ],
    )


def saved_a_year(rows: Sequence[DecisionCost], chosen: int = 0) -> Chart:
    """Draw what decisions save in a year for the demand (USD), with its 95 % interval, in the
    order of ``rows``; zero: as many GPUs either way. ``chosen``: the place of a row that is drawn
    even where there are too many of them."""
    sizes = {row.decision.subject.tensor_parallel_size for row in rows}
    drawn_rows = [rows[at] for at in _places(len(rows), chosen)]
    known = [_year(row, len(sizes) > 1) for row in drawn_rows if row.usd_saved_per_year is not None]
    name = (
        f"What a year of the demand saves{badge(rows[0].decision.subject.evidence) if rows else ''}"
    )
    if not known:
        return nothing(f"{name}: unknown")
    marks = pd.DataFrame(known)
    low, high = min(marks["low"].min(), 0.0), max(marks["high"].max(), 0.0)
    room = (high - low) * 0.12 or 1.0
    y = alt.Y(field="traffic", type="nominal", sort=list(marks["traffic"]), axis=None)
    x = alt.X(
        field="usd", type="quantitative", title="USD a year, right of zero is saved",
        scale=alt.Scale(domain=[low - room, high + room], nice=False),
        axis=alt.Axis(tickCount=4, format="~s" if max(high, -low) >= 10_000 else ",~r", grid=False, titleAnchor="start"),
    )  # fmt: skip
    base = alt.Chart(marks).encode(y=y)
    # A mark in each row rather than one line through all of them, which would cross their words.
    zero = base.mark_tick(orient="vertical", size=14, thickness=1.5, opacity=1, color=QUIET).encode(
        x=alt.datum(0, type="quantitative")
    )
    drawn = [
        zero,
        base.mark_rule(strokeWidth=3, opacity=0.45).encode(
            x=alt.X(field="low", type="quantitative"), x2=alt.X2(field="high"), color=colour(marks)
        ),
        base.mark_point(size=110, strokeWidth=2, opacity=1).encode(
            x=x, stroke=colour(marks, "stroke"), fill=colour(marks, "fill"),
            fillOpacity=given(alt.FillOpacity, "solid"),
            tooltip=[tip("arm", "arm"), tip("told", "saved"), tip("word", "how sure")],
        ),
        base.mark_text(dy=-15, fontSize=12, fontWeight=600, align="left").encode(
            x=alt.value(0), text=alt.Text(field="told", type="nominal"), color=colour(marks)
        ),
    ]  # fmt: skip
    return alt.layer(
        *drawn, title=title(name, f"{_of_all(len(drawn_rows), len(rows))}95 % interval; hollow: no repeats"),
        height=_HEAD + _ROW * len(marks),
    )  # fmt: skip


def _places(count: int, chosen: int) -> list[int]:
    """Return the places of the rows that are drawn: the first ones, and the one that is chosen."""
    first = list(range(min(count, _MOST_TRAFFICS)))
    return first if chosen in first else [*first[:-1], chosen]


def _of_all(drawn: int, count: int) -> str:
    return f"{drawn} of {count} traffics; " if drawn < count else ""


def _year(row: DecisionCost, sizes: bool) -> dict[str, object]:
    amount = row.usd_saved_per_year
    assert amount is not None
    size = row.decision.subject.tensor_parallel_size
    name = f"{f'TP {size}, ' if sizes else ''}{traffic_short(row.decision)}"
    low = amount.value if amount.low is None else amount.low
    high = amount.value if amount.high is None else amount.high
    return {
        "traffic": name, "arm": row.arm, "usd": amount.value,
        "low": min(low, high), "high": max(low, high), "solid": int(amount.low is not None),
        "told": f"{name}: {per_year(row)}", "word": amount.word,
    }  # fmt: skip
