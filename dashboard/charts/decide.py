"""A decision in charts: how much is served at which load with and without speculation, and its two maps:
traffic over loads with their words, and arms over loads."""

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import altair as alt
import pandas as pd

from analysis.evidence.words import EQUIVALENCE
from analysis.matching.arms import BASELINE
from analysis.matching.comparison import improvement
from answers.decide.overview import Overview
from answers.decide.tables import MapField, fields, line_name, size, taken, traffic_short
from answers.decide.values import ArmAtLoad, Decision, MapLevel
from answers.decide.words import loads_short
from answers.wording import badge, bracketed, percent
from dashboard.charts import (
    BETTER,
    EVEN,
    ON_THESE,
    QUIET,
    SHADE,
    WORSE,
    Chart,
    LoadPlaces,
    load_places,
    nothing,
    tip,
    title,
)
from dashboard.charts.compare import LineView, framed, lines
from warehouse.loads import Load

#: The name of the selection in a map, and the columns that tell what was clicked.
CHOSEN, FIELD, TRAFFIC, LOAD = "chosen", "field", "traffic", "load"
_ROW, _HEAD = 46, 124
#: px: narrower fields show whole percents, and no word.
_NARROW = 44
#: White text is read on each of them, on a light page and on a dark one.
_WORDS = {
    "gain": BETTER, "likely gain": "#4a75a8", "open": EVEN, "likely loss": "#96683d", "loss": WORSE,
}  # fmt: skip
#: Share of a cell that its outline leaves inside.
_INSIDE = {"width": {"band": 0.92}, "height": {"band": 0.84}}
#: Vega knows no hatching: strokes of text stand for it.
_HATCH = "╱ ╱ ╱ ╱"
_SUBTITLE = "expected gain and how sure, or the better arm; outlined: your load"
_TAKEN = "expected improvement over the baseline; outlined: taken; hatched: not settled"
_UNSETTLED = ("likely gain", "open", "likely loss")
_HEIGHT = 260
_SERVED = "output tokens per second; band: 95 %, hollow: one launch"
#: How far the axis of values reaches above the largest; bands reach as far above all lines at most.
_ABOVE, _MOST = 1.12, 1.5


def served_title(one: Decision) -> str:
    """Say at which loads the arm that the decision names serves more than the baseline, at which less,
    as measured: ``draft_model K=2 on code: more at 1, less at 16, 128``."""
    told: dict[str, list[Load]] = {"more": [], "as much": [], "less": []}
    for cell in sorted(one.arms, key=lambda cell: cell.load.order):
        gain = _gain(cell)
        if cell.arm == one.operating.arm and gain is not None:
            word = "as much" if abs(gain) <= EQUIVALENCE else "more" if gain > 0 else "less"
            told[word].append(cell.load)
    parts = [f"{word} at {loads_short(loads)}" for word, loads in told.items() if loads]
    return f"{one.operating.arm} on {traffic_short(one)}: {', '.join(parts) or 'unknown'}"


def throughput(one: Decision) -> Chart:
    """Draw how many tokens per second are served at each load, as measured: by the baseline, grey, by
    the arm that the decision names, and faint by the others; and where that arm crosses the baseline."""
    places = load_places(level.load for level in one.levels)
    known = [cell for cell in one.arms if cell.rates.output and cell.load in places.at]
    name = f"{served_title(one)}{bracketed(badge(one.subject.evidence))}"
    rows = framed([row for cell in known for row in _speeds(cell, places.at[cell.load])])
    if rows.empty:
        return nothing(name)
    rows = rows.drop_duplicates(["arm", "concurrency"], ignore_index=True)
    view = LineView(("output_throughput", "mean"), (one.operating.arm,), BASELINE, True, name)
    # Two launches that differ much leave intervals that would dwarf all lines.
    rows["high"] = rows["high"].clip(upper=_MOST * rows["value"].max())
    high = float(rows[["value", "high"]].max().max()) * _ABOVE
    drawn = lines(rows, places, view, (0.0, high), _SERVED)
    cross = _crossing([cell for cell in known if cell.arm == one.operating.arm], places)
    if cross is not None:
        at = alt.X(field="concurrency", type="quantitative")
        base = alt.Chart(pd.DataFrame([cross])).encode(x=at)
        words = base.mark_text(align="left", dx=6, fontSize=12, fontWeight=600, color=QUIET, y=10)
        drawn += base.mark_rule(strokeDash=[4, 3], color=QUIET, strokeWidth=1.5)
        drawn += words.encode(text=alt.Text(field="text", type="nominal"))
    return drawn.properties(height=_HEIGHT)


def _gain(cell: ArmAtLoad) -> float | None:
    """Return the improvement as measured, a ratio; None where one of the two is unknown."""
    old, new = cell.rates.baseline_output, cell.rates.output
    return improvement(old, new, "higher") if old and new else None


def _speeds(cell: ArmAtLoad, place: int) -> Iterator[tuple[object, ...]]:
    """Yield the rows of the baseline and of an arm at one load; the band is the interval of the arm's
    difference."""
    mean, old = cell.rates.output, cell.rates.baseline_output or math.nan
    gain, solid, nan = cell.difference, int(cell.launches > 1), math.nan
    low, high = (nan if x is None else max(old * (1 + x), 0.0) for x in (gain.low, gain.high))
    if gain.metric != "output_throughput":
        low = high = nan
    tail = (cell.launches, solid, f"{size(gain)}, {gain.word}")
    yield (BASELINE, place, cell.load.text, old, nan, nan, cell.launches, solid, "", "")
    yield (cell.arm, place, cell.load.text, mean, low, high, *tail, "")


def _crossing(cells: Sequence[ArmAtLoad], places: LoadPlaces) -> dict[str, object] | None:
    """Return between which loads an arm's gain changes its sign, the last time, and the place on the
    axis where it would be even; None where it never does. Loads at which both serve as much count
    for neither."""
    gains = ((cell, _gain(cell)) for cell in sorted(cells, key=lambda cell: cell.load.order))
    differ = [(cell, gain) for cell, gain in gains if gain is not None and abs(gain) > EQUIVALENCE]
    for (one, before), (other, after) in reversed(list(pairwise(differ))):
        if before * after < 0:
            part = before / (before - after)
            first, last = (places.at[cell.load] for cell in (one, other))
            at = first + (last - first) * part if places.names else first * (last / first) ** part
            text = f"crosses between {one.load.short} and {other.load.short}"
            return {"concurrency": at, "text": text}
    return None


def load_map(overview: Overview, told: Decision) -> Chart:
    """Draw loads across, traffic down: in each cell how much better the arm named there is, and the
    word for how sure that is. Outlined: the operating load of the decision that is ``told``."""
    rows = pd.DataFrame(
        [_cell(overview, one, told, x) for one in overview.ordered for x in one.levels]
    )
    down = [overview.short(one) for one in overview.ordered]
    loads = [level.load for one in overview.ordered for level in one.levels]
    base = alt.Chart(rows).encode(x=_across(loads), y=_down(down))
    shade = alt.Color(
        field="word", type="nominal", legend=None,
        scale=alt.Scale(domain=list(_WORDS), range=list(_WORDS.values())),
    )  # fmt: skip
    tips = [
        tip("place", "traffic"), tip("at", "load"), tip("size", "expected improvement"),
        tip("word", "certainty"), tip("take", "take"), tip("metric", "in"),
        tip("launches", "launches", "d"),
    ]  # fmt: skip
    layers = [
        _clickable(base, [TRAFFIC, LOAD]).encode(color=shade, tooltip=tips),
        _numbered(base, "gain", 14, -8),
        # The word for how sure it is; left out where it would run into its neighbours.
        base.mark_text(
            fontSize=alt.expr("min(11, bandwidth('x') / max(5, length(datum.said) / 2))"),
            fontWeight=600, color=ON_THESE, dy=9,
            opacity=alt.expr(f"bandwidth('x') < {_NARROW} ? 0 : 1"),
        ).encode(text=alt.Text(field="said", type="nominal")),
    ]  # fmt: skip
    if rows["outlined"].any():
        layers.append(_outlined(base, "outlined"))
    return alt.layer(*layers).properties(
        title=title(
            f"Does it pay, and where?{bracketed(badge(overview.decisions[0].subject.evidence))}",
            _SUBTITLE,
        ),
        height=_HEAD + _ROW * len(down),
    )


def _cell(overview: Overview, one: Decision, told: Decision, level: MapLevel) -> dict[str, object]:
    at = level.difference
    return {
        "place": overview.short(one), TRAFFIC: overview.place(one), LOAD: level.load.short,
        "at": level.load.text, "gain": percent(at.improvement),
        "short": _short(at.improvement), "word": at.word, "size": size(at),
        # Where another arm is better than the decision's, its name says whose figure it is.
        "said": at.word if level.served is None else level.arm,
        "take": taken(level), "metric": line_name(at),
        "launches": level.launches, "outlined": one is told and level.load == (one.operating.stands_for or one.operating_load),
    }  # fmt: skip


def heat_map(one: Decision) -> Chart:
    """Draw loads across, arms down, the expected improvement in each field. Exactly one field of a
    load is outlined: the arm taken, or that nothing is drafted."""
    cells = fields(one)
    if not cells:
        return nothing(f"{one.traffic.name}: nothing to compare")
    rows = pd.DataFrame([_mark(field) for field in cells])
    down = list(dict.fromkeys(field.arm for field in reversed(cells)))
    base = alt.Chart(rows).encode(x=_across([field.load for field in cells]), y=_down(down))
    tips = [
        tip(LOAD, "load"), tip("place", "arm"), tip("size", "expected improvement"),
        tip("metric", "in"), tip("launches", "launches", "d"),
    ]  # fmt: skip
    layers = [
        _clickable(base, [FIELD], invalid="show").encode(color=SHADE, tooltip=tips),
        _numbered(base, "text", 13, 0),
    ]
    # A layer without a mark is an empty picture to who listens to the page.
    if rows["unsettled"].any():
        unsettled = alt.FieldEqualPredicate(field="unsettled", equal=True)
        layers.append(
            base.transform_filter(unsettled).mark_text(
                text=_HATCH, fontSize=26, opacity=0.35, color=ON_THESE
            )
        )
    layers += [_outlined(base, "taken")] if rows["taken"].any() else []
    return alt.layer(*layers).properties(
        title=title(f"{traffic_short(one)}{bracketed(badge(one.subject.evidence))}", _TAKEN),
        height=_HEAD + _ROW * len(down),
    )


def _mark(field: MapField) -> dict[str, object]:
    at = field.difference
    told: dict[str, object] = {
        LOAD: field.load.short, "place": field.arm, FIELD: field.name, "taken": field.taken,
        "launches": field.launches,
    }  # fmt: skip
    if at is None:
        return told | {
            "gain": 0.0, "text": "0 %", "short": "0", "size": "this is the baseline", "metric": "",
            "unsettled": False,
        }  # fmt: skip
    return told | {
        "gain": float("nan") if at.improvement is None else at.improvement,
        "text": percent(at.improvement), "short": _short(at.improvement),
        "size": f"{size(at)}, {at.word}", "metric": line_name(at),
        "unsettled": at.word in _UNSETTLED,
    }  # fmt: skip


def _short(improvement: float | None) -> str:
    return "?" if improvement is None else f"{improvement * 100:+.0f}"


def _across(loads: list[Load]) -> alt.X:
    order = sorted(set(loads), key=lambda load: load.order)
    at_once = all(load.kind == "concurrency" for load in order)
    axis = alt.Axis(
        labelAngle=0, grid=False, domain=False, ticks=False, titleAnchor="start", labelLimit=120
    )
    return alt.X(
        field=LOAD, type="ordinal", sort=list(dict.fromkeys(load.short for load in order)),
        title="requests at once" if at_once else "load", axis=axis,
    )  # fmt: skip


def _down(order: list[str]) -> alt.Y:
    return alt.Y(
        field="place",
        type="ordinal",
        sort=order,
        title=None,
        axis=alt.Axis(grid=False, domain=False, ticks=False, labelLimit=150),
    )


def _clickable(base: Chart, names: list[str], **options: Any) -> Chart:
    return base.mark_rect(cursor="pointer", **options).add_params(
        alt.selection_point(name=CHOSEN, fields=names, on="click", empty=False)
    )


def _numbered(base: Chart, field: str, points: int, lower: int) -> Chart:
    """Draw a number in each field, smaller in narrow fields, as on a phone, where it is a whole
    percent."""
    return base.mark_text(
        fontSize=alt.expr(f"max(8, min({points}, bandwidth('x') / 5))"), fontWeight=600,
        color=ON_THESE, dy=lower,
        text=alt.expr(f"bandwidth('x') < {_NARROW} ? datum.short : datum.{field}"),
    )  # fmt: skip


def _outlined(base: Chart, field: str) -> Chart:
    return base.transform_filter(alt.FieldEqualPredicate(field=field, equal=True)).mark_rect(
        fillOpacity=0, filled=False, stroke=ON_THESE, strokeWidth=2.5, **_INSIDE
    )
