"""A metric over the load, a line per arm: baseline grey, the chosen arm in full colour, the others
faint until they are clicked; and the requests of two cells: how they fared, and what the prompt's
length does."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt
import pandas as pd

from answers.compare.kinds import KindOfArm, KindsAtLoad
from answers.compare.subjects import FirstTokens, RequestDistribution
from answers.compare.values import (
    ONE_LAUNCH,
    ArmChange,
    ComparedSetting,
    MetricLine,
    load_name,
    number,
    sure,
    word,
)
from answers.wording import UNKNOWN, percent
from answers.wording import interval as bounded
from dashboard.charts import (
    ON_THESE,
    SHADE,
    SIGNED,
    Chart,
    LoadPlaces,
    apart,
    colour,
    even,
    large,
    load_places,
    loads,
    named_loads,
    nothing,
    points,
    shares,
    spans,
    tip,
    title,
)
from warehouse.catalogue import METRICS

_HEIGHT, _REQUESTS_HEIGHT = 300, 260
#: Opacity of what was not chosen.
_FAINT = 0.22
#: Of the rows of lines. ``low`` and ``high``: ends of the band; ``told``: the interval in words.
COLUMNS = (
    "arm", "concurrency", "load", "value", "low", "high", "repeats", "solid", "told", "cell",
)  # fmt: skip
#: Width of a letter of an end label, and of the narrowest plot that a laptop draws, px.
_LETTER, _PLOT, _MOST_LABEL = 6.6, 300, 0.42
#: Labels at the ends of two lines stand at least so far apart, as a share of the axis.
_APART = 0.11
#: From here on a number stands at the end of a line without decimals.
_WHOLE = 1000
_PERCENT = alt.Axis(labelExpr=SIGNED, tickCount=5)
#: Cells of the density along the prompt's length and along the time to first token.
_ACROSS, _UP = 28, 20
#: Shares of requests at which the names of the two lines stand: far enough apart to be read.
_NAMED_AT = (0.2, 0.8)


@dataclass(frozen=True)
class LineView:
    """How a line is drawn. ``seen``: the arms in full colour, the chosen one first; ``absolute``: in
    the metric's own unit; ``title``: what stands above it."""

    line: MetricLine
    seen: tuple[str, ...]
    reference: str
    absolute: bool
    title: str

    @property
    def number(self) -> str:
        """The format of the chart's values."""
        return f",.{METRICS[self.line[0]].decimals}f" if self.absolute else "+.1%"

    def label(self, row: Any) -> str:
        """Return what stands at the end of a line: the arm, without the method that the heading says
        already, and its value."""
        value = f"{row.value * 100:+.1f} %"
        if self.absolute:
            value = f"{row.value:{',.0f' if row.value >= _WHOLE else self.number}}"
        method = self.seen[0].partition(" K=")[0]
        return f"{row.arm.replace(f'{method} K=', 'K=')} {value}"


def over_load(
    setting: ComparedSetting, view: LineView, beside: Sequence[ComparedSetting] = ()
) -> Chart:
    """Draw a metric over the load, a line per arm; ``beside``: settings whose charts share the
    scale."""
    places = load_places(change.load for _, change in _changes(setting, view.line))
    rows = _rows(setting, view)
    if rows.empty:
        return nothing(f"{view.title}: unknown")
    ends = _scale(pd.concat([rows, *(_rows(each, view) for each in beside)]), view.absolute)
    return lines(rows, places, view, ends, answer(setting, view.line, view.seen[0]))


def lines(
    rows: pd.DataFrame, places: LoadPlaces, view: LineView, ends: tuple[float, float], subtitle: str
) -> Chart:
    """Draw a line per arm. ``rows``: COLUMNS; ``ends``: of the axis of values."""
    low, high = ends
    bright = (*view.seen, view.reference) if view.absolute else view.seen
    rows = _with_ends(rows, bright, high - low, view)
    x = _axis(places, rows)
    y = alt.Y(
        field="value", type="quantitative", title=None,
        axis=alt.Axis(tickCount=5, format=large(high)) if view.absolute else _PERCENT,
        scale=alt.Scale(domain=[low, high], nice=False),
    )  # fmt: skip
    # Every chart of a file has clicks of its own.
    name = "".join(c for c in "_".join((*view.line, view.title)) if c.isalnum())
    picked = alt.selection_point(
        name=name, fields=["arm"], toggle="true", value=[{"arm": arm} for arm in bright], empty=True
    )
    base = alt.Chart(rows).encode(x=x, y=y)
    shade = alt.condition(picked, alt.value(1), alt.value(_FAINT))
    bands = spans(base.mark_area(), color=colour(rows),
                  opacity=alt.condition(picked, alt.value(0.16), alt.value(0)))  # fmt: skip
    tips = [
        tip("arm", "arm"), tip("load", "load"), tip("value", "value", view.number),
        tip("told", "interval"), tip("repeats", "repeats", "d"), tip("cell", "cell"),
    ]  # fmt: skip
    marks = points(base, rows, tips, size=60).encode(opacity=shade).add_params(picked)
    names = (
        alt.Chart(rows[rows["end_label"] != ""])
        .mark_text(align="left", baseline="middle", dx=9, fontSize=12, fontWeight=600)
        .encode(
            x=x, y=alt.Y(field="end_y", type="quantitative"),
            text=alt.Text(field="end_label", type="nominal"), color=colour(rows),
            opacity=alt.condition(picked, alt.value(1), alt.value(0)),
        )
    )  # fmt: skip
    # A layer without a mark is an empty picture to who listens to the page.
    ground = [
        *([] if view.absolute else [even("y")]),
        *([bands] if rows["low"].notna().any() else []),
    ]
    return alt.layer(
        *ground,
        base.mark_line(strokeWidth=2.5).encode(color=colour(rows), opacity=shade),
        marks,
        names,
        title=title(view.title, subtitle),
        height=_HEIGHT,
    )


def _rows(setting: ComparedSetting, view: LineView) -> pd.DataFrame:
    """Return a row per arm and load; in the metric's own unit the reference is an arm, too. Arms may
    have met different repeats of the reference; the one with most is drawn."""
    changes = _changes(setting, view.line)
    places = load_places(change.load for _, change in changes)
    number = f",.{METRICS[view.line[0]].decimals}f"
    # (arm, change, which of its two sides: the reference's or the arm's)
    drawn = [(arm, one, 1) for arm, one in changes]
    if view.absolute:
        most: dict[int, ArmChange] = {}
        for _, one in changes:
            place = places.at[one.load]
            if place not in most or most[place].repeats < one.repeats:
                most[place] = one
        drawn += [(view.reference, one, 0) for one in most.values()]
    rows = []
    for arm, one, side in drawn:
        values: tuple[float | None, ...] = (one.improvement, one.low, one.high)
        if view.absolute:
            span, repeats = (one.reference, one.arm)[side], one.repeats
            values = (span.mean, span.low, span.high)
            told = f"repeats {span.low:{number}} to {span.high:{number}}"
        else:
            repeats = one.launches
            told = f"{sure(one)}: {word(one)}" if one.low is not None else ONE_LAUNCH
        if values[0] is not None:
            rows.append((arm, places.at[one.load], load_name(one.load), *values, repeats,
                         int(repeats > 1), told, one.cells[side]))  # fmt: skip
    return framed(rows)


def framed(rows: Sequence[tuple[object, ...]]) -> pd.DataFrame:
    """Return COLUMNS as a frame, arm by arm along the load; without values that are unknown."""
    numbers = dict.fromkeys(("value", "low", "high"), "float64")
    frame = pd.DataFrame(rows, columns=list(COLUMNS)).astype(numbers).dropna(subset=["value"])
    return frame.sort_values(["arm", "concurrency"], ignore_index=True)


def _scale(rows: pd.DataFrame, absolute: bool) -> tuple[float, float]:
    """Return the ends of the value axis: amounts start at zero; improvements have room on both
    sides of it."""
    ends = rows[["value", "low", "high"]]
    low, high = min(ends.min().min(), 0.0), max(ends.max().max(), 0.0)
    if absolute:
        return 0.0, float(high * 1.12) or 1.0
    room = max(high - low, 0.05) * 0.12
    return float(low - room), float(high + room)


def answer(setting: ComparedSetting, line: MetricLine, chosen: str) -> str:
    """Say what the chosen arm does: its smallest and largest improvement over the loads."""
    found = [change for arm in setting.arms if arm.name == chosen for change in arm.changes
             if change.line == line and change.improvement is not None]  # fmt: skip
    if not found:
        return f"{chosen}: not compared here"
    first, *rest = sorted(found, key=lambda one: one.improvement or 0.0)
    if not rest:
        return f"{chosen}: {percent(first.improvement)} at {load_name(first.load)}"
    return f"{chosen}: {percent(first.improvement)} to {percent(rest[-1].improvement)}"


def _axis(places: LoadPlaces, rows: pd.DataFrame) -> alt.X:
    share = label_room(rows["end_label"])
    if places.names:
        return named_loads(places.names, max(len(places.names) - 1, 1) * share)
    levels = places.levels
    return loads(levels, max(max(levels) / min(levels), 2.0) ** share, "requests at once")


def label_room(labels: pd.Series) -> float:
    """Return how far an axis has to reach beyond its last mark, as a share of what lies between first and
    last, so that labels at the ends of lines are not cut where the chart is narrow."""
    share = min((_LETTER * labels.str.len().max() + 12) / _PLOT, _MOST_LABEL)
    return float(share / (1 - share))


def _changes(setting: ComparedSetting, line: MetricLine) -> list[tuple[str, ArmChange]]:
    return [(arm.name, one) for arm in setting.arms for one in arm.changes if one.line == line]


def _with_ends(
    rows: pd.DataFrame, bright: Sequence[str], span: float, view: LineView
) -> pd.DataFrame:
    """Add the name at the end of each line; names of lines that are seen at first are moved
    apart."""
    at_end = rows["concurrency"] == rows.groupby("arm")["concurrency"].transform("max")
    texts = [
        view.label(row) if end else "" for row, end in zip(rows.itertuples(), at_end, strict=True)
    ]
    placed = rows.assign(end_label=texts, end_y=rows["value"])
    seen = placed[at_end & placed["arm"].isin(bright)].sort_values("value")
    placed.loc[seen.index, "end_y"] = apart(seen["value"].tolist(), span * _APART)
    return placed


# --- The requests of two cells.


def distribution(known: RequestDistribution, note: str) -> Chart:
    """Draw the share of requests that took at most so long, a line per arm. ``note``: badges."""
    metric = METRICS[known.metric]
    rows = pd.concat(
        [_named(arm, points, at) for (arm, points), at in zip(known.arms, _NAMED_AT, strict=True)],
        ignore_index=True,
    )
    lines = alt.Chart(rows).encode(
        x=alt.X(field="value", type="quantitative", title=metric.unit),
        y=shares("share", "share of requests"),
        color=colour(rows),
    )
    steps = lines.mark_line(interpolate="step-after", strokeWidth=2).encode(
        tooltip=[tip("arm", "arm"), tip("value", metric.unit, ",.1f"), tip("share", "share", ".1%")]
    )
    names = lines.mark_text(align="left", dx=6, fontSize=12, fontWeight=600).encode(
        text=alt.Text(field="label", type="nominal")
    )
    return alt.layer(steps, names).properties(
        title=title(f"{metric.label}, {metric.unit}{note}", "share of requests at most so long"),
        height=_REQUESTS_HEIGHT,
    )


def _named(arm: str, points: Sequence[tuple[float, float]], at: float) -> pd.DataFrame:
    """Return arm, share, value and label: the arm's name where so many of its requests are done."""
    rows = pd.DataFrame(list(points), columns=["share", "value"])
    place = (rows["share"] - at).abs().idxmin() if len(rows) else None
    return rows.assign(arm=arm, label=[arm if row == place else "" for row in rows.index])


def first_token_by_prompt(known: FirstTokens, note: str, ends: tuple[float, float]) -> Chart:
    """Draw how many requests lie where: TTFT over prompt length, one arm. ``ends``: the largest of
    each in any of the arms; ``note``: badges."""
    rows = pd.DataFrame(list(known.points), columns=["prompt_tokens", "ttft"]).assign(arm=known.arm)
    of = "" if len(rows) == known.total else f" of {known.total:,}"
    name = f"{known.arm}: {len(rows):,}{of} requests{note}"
    longest, latest = ends
    count = alt.Opacity(
        aggregate="count", type="quantitative", scale=alt.Scale(range=[0.15, 1]), legend=None
    )
    return (
        alt.Chart(rows)
        .mark_rect()
        .encode(
            x=alt.X(
                field="prompt_tokens",
                type="quantitative",
                title=f"{METRICS['prompt_tokens'].label}, {METRICS['prompt_tokens'].unit}",
                bin=alt.Bin(maxbins=_ACROSS, extent=[0, longest]),
                scale=alt.Scale(domain=[0, longest]),
            ),
            y=alt.Y(
                field="ttft",
                type="quantitative",
                title=METRICS["ttft"].unit,
                bin=alt.Bin(maxbins=_UP, extent=[0, latest]),
                scale=alt.Scale(domain=[0, latest]),
            ),
            color=colour(rows),
            opacity=count,
            tooltip=[alt.Tooltip(aggregate="count", type="quantitative", title="requests")],
        )
        .properties(
            title=title(name, "time to first token over prompt length; darker: more requests"),
            height=_REQUESTS_HEIGHT,
        )
    )


# --- Kinds of prompts that one load mixes.


#: A field of the matrix, the room for its axis, px.
_FIELD, _HEAD = 52, 70


def kind_matrix(at: KindsAtLoad, name: str, note: str) -> Chart:
    """Draw kinds of prompts, or turns, down, arms across: tokens that a step yields, and how much less the
    requests of the kind wait between tokens. ``name``: of what they are; ``note``: badges."""
    rows = pd.DataFrame([_kind_field(one) for one in at.arms])
    shares = {
        one.kind: f"{one.kind}, {percent(one.share, sign=False)}" for one in at.shares if one.kind
    }
    # Where all arms are of one method, its name stands above them once: a phone has no room for more.
    method, *others = {arm.partition(" K=")[0] for arm in rows["arm"]}
    rows = rows.assign(
        place=rows["kind"].map(shares),
        column=rows["arm"] if others else rows["arm"].str.removeprefix(f"{method} "),
    )
    look: dict[str, Any] = {"grid": False, "domain": False, "ticks": False}
    base = alt.Chart(rows).encode(
        x=alt.X(
            field="column", type="nominal", title=None if others else method, sort=None,
            axis=alt.Axis(
                orient="top", labelAngle=0, labelExpr="split(datum.label, ' ')", labelOverlap=False, **look
            ),
        ),
        y=alt.Y(
            field="place", type="nominal", sort=list(shares.values()), title=None,
            axis=alt.Axis(labelLimit=130, **look),
        ),
    )  # fmt: skip
    tips = [
        tip("place", "kind, share of tokens"), tip("arm", "arm"), tip("length_told", "tokens a step"),
        tip("gain_told", "wait between tokens, less"), tip("word", "certainty"), tip("requests", "requests", "d"),
    ]  # fmt: skip
    written: dict[str, Any] = {"color": ON_THESE, "fontWeight": 600}
    small = alt.expr("max(8, min(13, bandwidth('x') / 6))")
    return alt.layer(
        base.mark_rect(invalid="show", stroke=ON_THESE, strokeOpacity=0.4).encode(color=SHADE, tooltip=tips),
        base.mark_text(fontSize=small, dy=-8, **written).encode(text=alt.Text(field="gain_short", type="nominal")),
        base.mark_text(fontSize=small, dy=9, **written).encode(text=alt.Text(field="length", type="nominal")),
    ).properties(
        title=title(
            f"{name} at {load_name(at.load)}{note}",
            "less wait between tokens; below it tokens a step",
        ),
        height=_HEAD + _FIELD * len(shares),
    )  # fmt: skip


def _kind_field(one: KindOfArm) -> dict[str, object]:
    gain, length = one.itl, number(one.length, "mean_acceptance_length")
    between = "" if one.length_low is None else f" ({one.length_low:.2f} to {one.length_high:.2f})"
    return {
        "kind": one.kind, "arm": one.arm, "requests": one.requests, "length": length,
        "gain": float("nan") if gain is None else gain.improvement,
        "gain_short": UNKNOWN if gain is None else percent(gain.improvement),
        "gain_told": one.why_no_gain if gain is None else
            f"{percent(gain.improvement)} {bounded(gain.low, gain.high)}",
        "length_told": one.why_no_length or f"{length}{between}",
        "word": UNKNOWN if gain is None else gain.word,
    }  # fmt: skip
