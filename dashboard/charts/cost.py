"""Charts of money and of loads: what a million tokens costs over the load, what a year of it saves, which
loads meet an SLO, and what a GPU yields against what a user sees."""

from collections.abc import Sequence
from math import inf
from typing import Any

import altair as alt
import numpy as np
import pandas as pd

from answers.cost.capacity import ArmCapacity, TradePoint
from answers.cost.values import CostPoint, DecisionCost
from answers.cost.words import MET, from_to, per_year, short_usd, why
from answers.decide.tables import traffic_short
from answers.wording import badge, bracketed, known
from dashboard.charts import (
    NARROW,
    QUIET,
    Chart,
    colour,
    end_names,
    ends_apart,
    given,
    large,
    loads,
    nothing,
    points,
    spans,
    tip,
    title,
)
from dashboard.charts.compare import label_room

BASELINE = "baseline"
#: The name of the selection, and of the column that tells one point from another.
CHOSEN, POINT = "chosen", "point"
_HEIGHT, _FRONT_HEIGHT = 300, 360
#: Room above and below the curves, as a factor.
_AROUND = 1.25
#: Opacity of an arm that the decision does not take, and of a point that another one beats in both.
_FAINT, _BEATEN = 0.25, 0.3
#: Height of one traffic in the chart of a year, and what its axis and title need, px.
_ROW, _HEAD = 48, 110
#: More traffics than this make the page longer than anybody reads; the table below has them all.
_MOST_TRAFFICS = 8
#: Height of one arm in the strips; title, axis and its name: what a chart needs beside its rows, px.
_STRIP, _BESIDE = 46, 105
#: A path's name at its end; longer ones would leave the chart.
_LONGEST = 34
#: How far apart names of paths stand, as a share of what a small chart needs.
_LINE = 0.7
#: Whether the name of a path stands at the right edge: on a phone it would run into the axis, and
#: above the front is nothing.
_RIGHT = f"{NARROW} && scale('x', datum.user) < width / 2"
_SHAPES = {True: "circle", False: "cross", None: "triangle-up"}

# --- Money.


def cost_by_load(row: DecisionCost, slo: str | None) -> Chart:
    """Draw USD per million output tokens over the load, logarithmic both ways: the baseline and
    what the decision takes, other arms faint; dashed where the service level ``slo`` is not met."""
    rows = _marks(row)
    name = f"{from_to(row)}{bracketed(badge(row.decision.subject.evidence))}"
    if rows.empty:
        return nothing(name)
    axis = "requests a second" if row.curve[-1].load.is_rate else "requests at once"
    x = loads(
        sorted(rows["concurrency"].unique()),
        max(rows["concurrency"].max() / rows["concurrency"].min(), 2.0)
        ** label_room(rows["end_label"]),
        axis,
    )
    low, high = _span(rows)
    y = alt.Y(
        field="usd", type="quantitative", title=None,
        scale=alt.Scale(type="log", nice=False, domain=[low, high]),
        axis=alt.Axis(values=_ticks(low, high), format="~g"),
    )  # fmt: skip
    base = alt.Chart(rows).encode(x=x, y=y)
    strong = given(alt.Opacity, "strong")
    tips = [
        tip("arm", "arm"), tip("load", "load"), tip("usd", "USD per million output tokens", ",.3f"),
        tip("low", "95 %, lower end", ",.3f"), tip("high", "95 %, upper end", ",.3f"),
        tip("level", "meets the service level"), tip("taken", "taken there"),
    ]  # fmt: skip
    drawn = [
        base.mark_line(strokeWidth=1.5, strokeDash=[4, 4]).encode(
            color=colour(rows), opacity=strong
        ),
        alt.Chart(rows[rows["meets"] == 1])
        .mark_line(strokeWidth=3)
        .encode(x=x, y=y, color=colour(rows), opacity=strong),
        spans(
            base.mark_rule(strokeWidth=2), color=colour(rows), opacity=given(alt.Opacity, "sure")
        ),
        points(base, rows, tips).encode(
            opacity=strong, size=alt.condition("datum.runs == 1", alt.value(230), alt.value(50))
        ),
        end_names(rows, x, "end_usd", dx=10),
    ]
    solid = "all loads: no service level was asked for" if slo is None else f"solid: meets {slo}"
    told = (
        f"{row.arm} over the load, log scale; {solid}; large: where it is costed; faint: other arms"
    )
    return alt.layer(*drawn, title=title(name, told), height=_HEIGHT)


def _marks(row: DecisionCost) -> pd.DataFrame:
    """Return a row per arm (the baseline once) and load. One axis holds only loads of one kind,
    that of the operating load."""
    known = [point for point in row.curve if point.load.value is not None]
    here = [point for point in known if point.operating] or known
    kind = here[-1].load.kind if here else None
    kept = [point for point in known if point.load.kind == kind]
    taken = {None, row.arm, *(point.arm for point in kept if point.taken)}
    rows = pd.DataFrame([_mark(point, point.arm in taken) for point in kept])
    if rows.empty:
        return rows
    # The name and the cost at the end of each line that is not faint, apart from one another.
    rows = rows.sort_values(["arm", "concurrency"], ignore_index=True)
    last = rows.groupby("arm")["concurrency"].transform("max") == rows["concurrency"]
    named = last & (rows["strong"] == 1.0)
    # The subtitle names the method.
    method = row.arm.partition(" K=")[0]
    texts = [
        f"{arm.replace(f'{method} K=', 'K=')} {short_usd(usd)}" if end else ""
        for arm, usd, end in zip(rows["arm"], rows["usd"], named, strict=True)
    ]
    rows = rows.assign(end_label=texts, value=np.log(rows["usd"]))
    low, high = _span(rows)
    placed = ends_apart(rows, float(np.log(high / low)))
    return placed.assign(end_usd=np.exp(placed.pop("end_y").astype("float64"))).drop(
        columns="value"
    )


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


def _span(rows: pd.DataFrame) -> tuple[float, float]:
    low, high = rows[["usd", "low"]].min().min(), rows[["usd", "high"]].max().max()
    return float(low) / _AROUND, float(high) * _AROUND


def _ticks(low: float, high: float) -> list[float]:
    powers = range(int(np.floor(np.log10(low))), int(np.ceil(np.log10(high))) + 1)
    every = [digit * 10.0**power for power in powers for digit in (1, 2, 5)]
    return [value for value in every if low <= value <= high]


def saved_a_year(rows: Sequence[DecisionCost], chosen: int = 0) -> Chart:
    """Draw what decisions save in a year for the demand (USD), with its 95 % interval, in the
    order of ``rows``; zero: as many GPUs either way. ``chosen``: the place of a row that is drawn
    even where there are too many of them."""
    sizes = {row.decision.subject.tensor_parallel_size for row in rows}
    places = list(range(min(len(rows), _MOST_TRAFFICS)))
    places = places if chosen in places else [*places[:-1], chosen]
    known = []
    for row in (rows[at] for at in places):
        amount, size = row.usd_saved_per_year, row.decision.subject.tensor_parallel_size
        if amount is not None:
            traffic = f"{f'TP {size}, ' if len(sizes) > 1 else ''}{traffic_short(row.decision)}"
            ends = [amount.value if end is None else end for end in (amount.low, amount.high)]
            known.append({
                "traffic": traffic, "arm": row.arm, "usd": amount.value, "low": min(ends),
                "high": max(ends), "solid": int(amount.low is not None),
                "told": f"{traffic}: {per_year(row)}", "word": amount.word,
            })  # fmt: skip
    evidence = bracketed(badge(rows[0].decision.subject.evidence)) if rows else ""
    name = f"What a year of the demand saves{evidence}"
    if not known:
        return nothing(f"{name}: unknown")
    marks = pd.DataFrame(known)
    low, high = min(marks["low"].min(), 0.0), max(marks["high"].max(), 0.0)
    room = (high - low) * 0.12 or 1.0
    y = alt.Y(field="traffic", type="nominal", sort=list(marks["traffic"]), axis=None)
    x = alt.X(
        field="usd", type="quantitative", title="USD a year, right of zero is saved",
        scale=alt.Scale(domain=[low - room, high + room], nice=False),
        axis=alt.Axis(tickCount=4, format=large(max(high, -low)), grid=False, titleAnchor="start"),
    )  # fmt: skip
    base = alt.Chart(marks).encode(y=y)
    # A mark in each row rather than one line through all of them, which would cross their words.
    drawn = [
        base.mark_tick(orient="vertical", size=14, thickness=1.5, opacity=1, color=QUIET).encode(
            x=alt.datum(0, type="quantitative")
        ),
        spans(base.mark_rule(strokeWidth=3, opacity=0.45), "x", color=colour(marks)),
        points(
            base,
            marks,
            [tip("arm", "arm"), tip("told", "saved"), tip("word", "how sure")],
            size=110,
            opacity=1,
        ).encode(x=x),
        base.mark_text(dy=-15, fontSize=12, fontWeight=600, align="left").encode(
            x=alt.value(0), text=alt.Text(field="told", type="nominal"), color=colour(marks)
        ),
    ]
    of_all = f"{len(places)} of {len(rows)} traffics; " if len(places) < len(rows) else ""
    return alt.layer(
        *drawn, title=title(name, f"{of_all}95 % interval; hollow: no repeats"),
        height=_HEAD + _ROW * len(marks),
    )  # fmt: skip


# --- Loads.


def slo_strips(arms: Sequence[ArmCapacity]) -> Chart:
    """Draw each arm's loads in a row of its own: a bar over those up to the largest that meets the
    SLO.

    ``arms``: of one setting, their loads on one axis.
    """
    rows = pd.DataFrame([
        {
            "arm": arm.place.arm, "concurrency": level.load.value, "load": level.load.text,
            "state": MET[level.met], "solid": int(level.met is True),
            "told": why(level) or "all bounds hold",
            "repeats": f"{level.meeting} of {level.repeats}",
            "label": _reach(arm) if at == 0 else "",
            "largest": arm.reach.largest.value if arm.reach.largest and at == 0 else None,
        }
        for arm in arms
        for at, level in enumerate(each.level for each in arm.loads)
    ])  # fmt: skip
    badges = bracketed(*sorted({badge for arm in arms for badge in arm.place.badges}))
    x = loads(
        sorted(rows["concurrency"].unique()),
        name="requests a second" if arms[0].loads[0].level.load.is_rate else "requests at once",
    )
    y = alt.Y(field="arm", type="nominal", axis=None, scale=alt.Scale(paddingOuter=0.3))
    bar = (
        alt.Chart(rows.dropna(subset=["largest"]))
        .mark_rule(strokeWidth=9, opacity=0.3, strokeCap="round")
        .encode(x=x, x2=alt.X2(field="largest"), y=y, color=colour(rows))
    )
    tips = [
        tip("arm", "arm"), tip("load", "load"), tip("state", "this load"), tip("told", "why"),
        tip("repeats", "repeats that meet it"),
    ]  # fmt: skip
    marks = points(alt.Chart(rows).encode(x=x, y=y), rows, tips, size=75, opacity=1).encode(
        shape=alt.Shape(
            field="state",
            type="nominal",
            legend=None,
            scale=alt.Scale(domain=list(MET.values()), range=list(_SHAPES.values())),
        )
    )
    names = (
        alt.Chart(rows[rows["label"] != ""])
        .mark_text(align="left", dy=-15, dx=-4, fontSize=12, fontWeight=600)
        .encode(x=x, y=y, text=alt.Text(field="label", type="nominal"), color=colour(rows))
    )
    # A layer without a mark would be a picture without a name to a screen reader.
    told = title(f"{arms[0].place.setting}{badges}", "filled: meets the SLO; cross: misses it")
    return alt.layer(
        *([bar] if rows["largest"].notna().any() else []),
        marks,
        names,
        title=told,
        height=_STRIP * rows["arm"].nunique() + _BESIDE,
    )


def _reach(arm: ArmCapacity) -> str:
    largest = arm.reach.largest
    return f"{arm.place.arm}: {'no load' if largest is None else f'up to {largest.short}'}"


def pareto(group: Sequence[TradePoint]) -> Chart:
    """Draw output tokens/s per GPU over tokens/s per user, each arm a path through its loads.

    ``group``: points that compete. Those that another one beats in both are faint.
    """
    rows = _points_of(group)
    place = group[0].place
    about = ", ".join(map(known, (place.model, place.dataset, place.on.gpu)))
    badges = bracketed(*sorted({badge for point in group for badge in point.place.badges}))
    told = f"{about}{badges} · numbers: loads; faint: beaten in both; hollow: one repeat"
    x = _rate(alt.X, "user", "tokens per second that one user sees")
    y = _rate(alt.Y, "gpu", "output tokens per second per GPU")
    base = alt.Chart(rows).encode(x=x, y=y)
    front = (
        alt.Chart(rows[rows["front"] == 1])
        .mark_line(color=QUIET, strokeWidth=7, opacity=0.25, strokeJoin="round")
        .encode(x=x, y=y, order=alt.Order(field="user", type="quantitative"))
    )
    paths = base.mark_line(strokeWidth=1.5, opacity=0.5).encode(
        color=colour(rows),
        detail=alt.Detail(field="path", type="nominal"),
        order=alt.Order(field="concurrency", type="quantitative"),
    )
    numbers = base.mark_text(dy=-13, fontSize=11, color=QUIET).encode(
        text=alt.Text(field="load", type="nominal")
    )
    tips = [
        tip("path", "arm"), tip("load_short", "load"), tip("user", "tok/s per user", ",.1f"),
        tip("gpu", "tok/s per GPU", ",.1f"), tip("dominated_by", "dominated by"),
        tip("repeats", "repeats", "d"),
    ]  # fmt: skip
    clicked = alt.selection_point(name=CHOSEN, fields=[POINT], on="click", empty=False)
    marks = points(base, rows, tips).encode(
        opacity=given(alt.Opacity, "strong"),
        size=alt.condition(clicked, alt.value(260), alt.value(75)),
    )
    # At the highest load, where the paths lie furthest apart.
    aside = alt.expr(f"{_RIGHT} ? width - scale('x', datum.user) : -11")
    names = end_names(rows, x, align="right", dx=aside)
    return alt.layer(
        front, paths, numbers, marks.add_params(clicked), names,
        title=title(_front(group), told), height=_FRONT_HEIGHT,
    )  # fmt: skip


def _points_of(group: Sequence[TradePoint]) -> pd.DataFrame:
    """Return a row per point. The name of a path that has a point on the front, and the baseline's,
    stand at the path's highest load, at least a line apart."""
    named = {p.path for p in group if p.dominated_by is None or p.place.label == "baseline"}
    order = {
        path: max(p.load.order for p in group if p.path == path)
        for path in dict.fromkeys(point.path for point in group)
    }
    rows = pd.DataFrame(
        [
            {
                "point": p.name, "arm": p.place.label, "path": p.path, "user": p.user, "gpu": p.gpu,
                "concurrency": p.load.order[1], "load_short": p.load.short,
                "load": p.load.short if p.dominated_by is None else "", "repeats": p.repeats,
                "strong": 1.0 if p.dominated_by is None else _BEATEN, "solid": int(p.repeats > 1),
                "front": int(p.dominated_by is None),
                "dominated_by": p.dominated_by or "none: on the front",
                "end_label": p.path[:_LONGEST]
                if p.path in named and p.load.order == order[p.path] else "",
                "value": p.gpu,
            }
            for p in group
        ]
    )  # fmt: skip
    return ends_apart(rows, float(rows["gpu"].max()) * _LINE).drop(columns="value")


def _front(group: Sequence[TradePoint]) -> str:
    on = [point for point in group if point.dominated_by is None]
    paths = pd.Series([point.path for point in on]).value_counts()
    names = [f"{path} ({times})" for path, times in paths.items()]
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    there = {point.place.label for point in on}
    nowhere = "baseline" in {point.place.label for point in group} - there
    return (
        f"On the front: {', '.join(names[:3])}{more}{'; the baseline nowhere' if nowhere else ''}"
    )


def _rate(channel: Any, field: str, title: str) -> Any:
    return channel(
        field=field,
        type="quantitative",
        title=title,
        axis=alt.Axis(tickCount=5, format=",~r"),
        scale=alt.Scale(zero=True, nice=True),
    )
