"""Charts of predictions: measured points, the predicted line with its band, where measuring ends; of
how far predictions of measured points were off; of two textbook models; and of a draft's acceptance."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import nan

import altair as alt
import pandas as pd

from analysis.prediction.reach import Question, Textbook
from answers.predict.acceptance import AcceptanceLine, Measure, Over
from answers.predict.break_even import BreakEven, PaysFrom
from answers.predict.values import (
    BAND,
    END_TO_END,
    ONE_STREAM,
    FittedPlace,
    ForecastLines,
    ForecastStep,
    MeasuredPoint,
)
from answers.wording import known
from dashboard.charts import (
    QUIET,
    SIGNED,
    Chart,
    amounts,
    colour,
    end_names,
    ends_apart,
    even,
    loads,
    nothing,
    points,
    tip,
    title,
)
from warehouse.catalogue import METRICS

HEIGHT, _ACCEPTANCE_HEIGHT = 300, 280
#: Room at the right for the names of arms, as a factor of the last load.
_ROOM = 4.5
#: What is drawn: what a prediction says and a measured point holds.
DRAWN: tuple[str, ...] = ("output_throughput", "itl", "ttft")
_LEFT_OUT = {"k": "all of one K", "concurrency": "all of one load"}
#: Acceptance rates over which the textbook models are drawn.
_RATES = tuple(step / 20 for step in range(21))
_NAMES: dict[Measure, str] = {
    "rate": "acceptance rate", "length": "tokens per step",
    "of_all": "accepted at each position, of all drafts",
    "of_those": "accepted at each position, of drafts that got so far",
}  # fmt: skip
_AXES: dict[Over, str] = {"position": "draft position", "k": "draft tokens K", "concurrency": ""}
#: Room at the right for the names of the datasets, as a share of the axis and as a factor of loads.
_NAMES_ROOM, _FACTOR = 0.3, 2.5


def arm_name(family: str, k: int) -> str:
    """Name an arm as the catalogue does, so that it gets its colour."""
    return f"{family.split(' ')[0]} K={k}" if k else "baseline"


@dataclass(frozen=True, eq=False)
class ForecastSheet:
    """One arm family on one dataset, one question and one metric; ``note`` (its badges) ends the
    titles."""

    known: FittedPlace
    asked: Question
    metric: str
    note: str

    def arm(self, k: int) -> str:
        """Return the name of an arm in a legend."""
        return arm_name(self.known.place.family, k)


def over_load(sheet: ForecastSheet, lines: ForecastLines) -> Chart:
    """Draw one metric over the load for the chosen K and the baseline."""
    asked = sheet.asked
    both = [_line(sheet, line, "concurrency") for line in (lines.over_load, lines.baseline) if line]
    rows = pd.concat(both, ignore_index=True).drop_duplicates(["arm", "concurrency"])
    last = rows["concurrency"] == rows["concurrency"].max()
    rows = rows.assign(end_label=rows["arm"].where(last, ""), end_y=rows["value"])
    rows = ends_apart(rows, float(rows["value"].max()))
    here = rows[(rows["arm"] == sheet.arm(asked.k)) & (rows["concurrency"] == asked.concurrency)]
    return _predicted(
        sheet,
        "concurrency",
        rows,
        [point for point in sheet.known.points if point.k in (0, asked.k)],
        here,
        f"K = {asked.k}" if asked.k else "no drafts",
    )


def over_k(sheet: ForecastSheet, lines: ForecastLines) -> Chart:
    """Draw one metric over K at the chosen load. The line joins several arms, so it has no arm's
    colour."""
    asked = sheet.asked
    rows = _line(sheet, lines.over_k, "k").assign(end_label="", end_y=0.0)
    return _predicted(
        sheet,
        "k",
        rows,
        [point for point in sheet.known.points if point.load == asked.concurrency],
        rows[rows["arm"] == sheet.arm(asked.k)],
        f"concurrency {asked.concurrency}",
    )


def _line(sheet: ForecastSheet, line: Sequence[ForecastStep], over: str) -> pd.DataFrame:
    rows = []
    for step in line:
        figure, at = step.of(sheet.metric), step.k if over == "k" else step.load
        rows.append(
            {
                over: at, "arm": sheet.arm(step.k), "value": figure.predicted,
                "low": nan if figure.low is None else figure.low,
                "high": nan if figure.high is None else figure.high,
                "inside": not step.beyond and not (over == "k" and at == 0),
            }
        )  # fmt: skip
    return pd.DataFrame(rows)


def _predicted(
    sheet: ForecastSheet,
    over: Over,
    rows: pd.DataFrame,
    measured: Sequence[MeasuredPoint],
    here: pd.DataFrame,
    where: str,
) -> Chart:
    """Draw predictions, dashed beyond what was measured and solid within, the measured points, and
    a diamond for the question.

    ``rows``: over (``concurrency`` or ``k``), arm, value, low, high (NaN: error unknown), inside (nothing
    of the question lies beyond what was measured), end_label and end_y (the arm's name at the end of its
    line, else empty); ``here``: as ``rows``, the question alone; ``where``: what is the same all along.
    """
    metric, known = METRICS[sheet.metric], rows["low"].notna()
    subtitle = (
        f"{sheet.known.place.dataset}, {where}; {metric.unit}, mean, {metric.better} is better; "
        "points: measured"
    )
    if not sheet.asked.as_measured:
        subtitle += ", with the measured acceptance and lengths"
    if known.any():
        subtitle += f"; shaded: {BAND}"
    if not known.all():
        subtitle += "; no band: error unknown"
    there = pd.DataFrame(
        [(p.k if over == "k" else p.load, sheet.arm(p.k), getattr(p, sheet.metric), p.repeats)
         for p in measured],
        columns=[over, "arm", "value", "repeats"],
    )  # fmt: skip
    high = max(
        rows["value"].max(), rows["high"].max(),
        0.0 if there.empty else float(there["value"].max()),
    )  # fmt: skip
    x = _axis(rows[over], over, over, _ROOM if over == "concurrency" else 0.0)
    y = amounts("value", float(high) * 1.08 or 1.0)
    tone = colour(rows) if over == "concurrency" else alt.value(QUIET)
    line = alt.Chart(rows).encode(x=x, y=y)
    offer, number = sheet.known.offer, f",.{metric.decimals}f"
    ends = offer.load_range if over == "concurrency" else offer.k_range
    border = alt.Chart(pd.DataFrame({over: sorted(set(ends))}))
    layers = [
        line.mark_area(opacity=0.18).encode(
            y=alt.Y(field="low", type="quantitative"), y2=alt.Y2(field="high"), color=tone, fill=tone
        ),
        line.mark_line(strokeWidth=1.5, strokeDash=[4, 4]).encode(color=tone),
        alt.Chart(rows[rows["inside"]]).encode(x=x, y=y).mark_line(strokeWidth=2).encode(color=tone),
        end_names(rows, x, dx=8),
        border.mark_rule(strokeDash=[2, 3], strokeWidth=1.5, color=QUIET).encode(
            x=x, tooltip=[tip(over, "measured from or up to", ",d")]
        ),
        alt.Chart(there).mark_point(filled=True, size=75, opacity=1).encode(
            x=x, y=y, color=colour(there),
            tooltip=[
                tip("arm", "measured"), tip(over, "K" if over == "k" else "concurrency", "d"),
                tip("value", metric.unit, number), tip("repeats", "repeats", "d"),
            ],
        ),
        alt.Chart(here).mark_point(shape="diamond", size=190, strokeWidth=2.5, opacity=1).encode(
            x=x, y=y, stroke=colour(here, "stroke"),
            tooltip=[
                tip("arm", "predicted"), tip("value", metric.unit, number), tip("low", "from", number),
                tip("high", "to", number),
            ],
        ),
    ]  # fmt: skip
    return alt.layer(*layers).properties(
        title=title(f"{metric.label} over {'K' if over == 'k' else 'load'}{sheet.note}", subtitle),
        height=HEIGHT,
    )


def _axis(places: Iterable[int], over: Over, field: str, room: float = 0.0) -> alt.X:
    """Return the axis of loads, of K or of draft positions; ``room``: at its right for names, a factor
    of loads, else a share of the axis."""
    levels = sorted({int(at) for at in places})
    if over == "concurrency":
        return loads(levels, room)
    right = max(levels[-1] - levels[0], 1) * room
    axis = alt.Axis(values=levels, format="d", grid=False, domain=False, titleAnchor="start")
    if field == "k":
        axis.labelExpr = "datum.value == 0 ? 'none' : datum.label"
    return alt.X(
        field=field, type="quantitative", title=_AXES[over], axis=axis,
        scale=alt.Scale(domain=[levels[0] - 0.3, levels[-1] + 0.3 + right], nice=False),
    )  # fmt: skip


def withheld(sheet: ForecastSheet) -> Chart:
    """Draw predicted over measured, minus 1, of each point that was withheld; zero is exact.
    Filled: other points surround it; hollow: the model had to extrapolate."""
    label = METRICS[sheet.metric].label
    mine = [point for point in sheet.known.model.withheld if point.metric == sheet.metric]
    if not mine:
        return nothing(f"Errors of {label}: nothing could be withheld{sheet.note}")
    rows = pd.DataFrame(
        [
            {
                "arm": sheet.arm(point.k), "concurrency": point.concurrency, "error": point.error,
                "measured": point.measured, "predicted": point.predicted,
                "left_out": _LEFT_OUT[point.left_out], "solid": int(point.inside),
            }
            for point in mine
        ]
    )  # fmt: skip
    worst = float(rows["error"].abs().max())
    reach = max(worst * 1.15, 0.02)
    y = alt.Y(
        field="error", type="quantitative", title=None,
        axis=alt.Axis(labelExpr=SIGNED, tickCount=5),
        scale=alt.Scale(domain=[-reach, reach], nice=False),
    )  # fmt: skip
    legend = alt.Legend(
        title="withheld", orient="bottom", symbolFillColor=QUIET, symbolStrokeColor=QUIET
    )
    tips = [
        tip("arm", "arm"), tip("concurrency", "concurrency", "d"), tip("left_out", "withheld"),
        tip("measured", "measured", ",.1f"), tip("predicted", "predicted", ",.1f"),
        tip("error", "error", "+.1%"),
    ]  # fmt: skip
    base = alt.Chart(rows).encode(x=loads(sorted(rows["concurrency"].unique())), y=y)
    marks = points(base, rows, tips, size=60, opacity=0.9).encode(
        shape=alt.Shape(field="left_out", type="nominal", legend=legend)
    )
    names = (
        f"Withheld points met within {worst * 100:.1f} %{sheet.note}",
        f"{sheet.known.place.dataset}, {label}, mean: predicted / measured − 1; hollow: beyond what "
        "the others cover",
    )
    return alt.layer(even("y"), marks).properties(title=title(*names), height=HEIGHT)


def break_even(found: BreakEven, here: PaysFrom, note: str) -> Chart:
    """Draw from how many tokens a step on one K pays, over the load, and what real drafts yield; a
    diamond: ``here``. ``note`` (the badges) ends the title."""
    arm = arm_name(found.place.family, here.k)
    rows = pd.DataFrame([vars(step) for step in found.steps])
    rows = rows.assign(arm=arm, end_y=rows["length"], end_label="")
    rows.loc[len(rows) - 1, "end_label"] = "pays above"
    there = pd.DataFrame(
        [(known(one.dataset), known(one.fact("gpu")), one.concurrency, one.length, arm)
         for one in found.drafts(here.k)],
        columns=["dataset", "gpu", "concurrency", "length", "arm"],
    )  # fmt: skip
    x = loads(sorted({*rows["concurrency"], *there["concurrency"]}), _ROOM)
    y = amounts("length", max(here.k + 1.0, float(rows["high"].max())) * 1.05)
    base, tone = alt.Chart(rows).encode(x=x, y=y), colour(rows)
    tips = [
        tip("concurrency", "concurrency", "d"), tip("length", "pays from", ".2f"),
        tip("low", "from", ".2f"), tip("high", "to", ".2f"),
    ]  # fmt: skip
    legend = alt.Legend(
        title="real drafts on", orient="bottom", symbolFillColor=QUIET, symbolStrokeColor=QUIET
    )
    layers = [
        base.mark_area(opacity=0.18).encode(
            y=alt.Y(field="low", type="quantitative"), y2=alt.Y2(field="high"), color=tone, fill=tone
        ),
        base.mark_line(strokeWidth=2).encode(color=tone, tooltip=tips),
        end_names(rows, x, dx=14),
        alt.Chart(there).mark_point(size=75, strokeWidth=2, opacity=0.9).encode(
            x=x, y=y, color=alt.value(QUIET),
            shape=alt.Shape(field="dataset", type="nominal", legend=legend),
            tooltip=[tip("dataset", "dataset"), tip("gpu", "GPU"),
                     tip("concurrency", "concurrency", "d"), tip("length", "tokens a step", ".2f")],
        ),
        alt.Chart(rows[rows["concurrency"] == here.concurrency])
        .mark_point(shape="diamond", size=190, strokeWidth=2.5)
        .encode(x=x, y=y, stroke=colour(rows, "stroke"), tooltip=tips),
    ]  # fmt: skip
    return alt.layer(*(layers if len(there) else layers[:3] + layers[4:])).properties(
        title=title(
            f"Where it pays{note}",
            f"tokens a step; {found.place.dataset}, K = {here.k}; shaded: {BAND}; points: what real drafts "
            "yield",
        ),
        height=HEIGHT + 60,
    )


def textbook(given: Textbook) -> Chart:
    """Draw the speedup of two textbook models, which stand on no measurement, over the acceptance
    rate, their names at their lines; a diamond: what is asked."""
    rows, asked = _speedups(given, _RATES), _speedups(given, [given.acceptance_rate])
    rows = rows.assign(end=rows["model"].where(rows["rate"] == _RATES[-1], ""))
    x = alt.X(
        field="rate", type="quantitative", title="acceptance rate",
        axis=alt.Axis(
            format=".0%", values=[0, 0.2, 0.4, 0.6, 0.8, 1], grid=False, titleAnchor="start"
        ),
        scale=alt.Scale(domain=[0, 1.45], nice=False),
    )  # fmt: skip
    y = amounts("speedup", float(rows["speedup"].max()) * 1.1)
    base = alt.Chart(rows).encode(x=x, y=y)
    tips = [
        tip("model", "model"), tip("rate", "acceptance rate", ".0%"),
        tip("speedup", "speedup", ".2f"),
    ]  # fmt: skip
    point = alt.Chart(asked).mark_point(shape="diamond", size=190, strokeWidth=2.5, color=QUIET)
    names = (
        "Textbook models, not measured: speedup",
        f"times as fast as without drafts, higher is better; K = {given.k}",
    )
    return alt.layer(
        even("y", 1),
        base.mark_line(strokeWidth=2, color=QUIET).encode(
            strokeDash=alt.StrokeDash(field="model", type="nominal", legend=None), tooltip=tips
        ),
        base.mark_text(align="left", dx=8, fontSize=12, fontWeight=600, color=QUIET).encode(
            text=alt.Text(field="end", type="nominal")
        ),
        point.encode(x=x, y=y, tooltip=tips),
    ).properties(title=title(*names), height=HEIGHT)


def _speedups(given: Textbook, rates: Iterable[float]) -> pd.DataFrame:
    models = [replace(given, acceptance_rate=rate) for rate in rates]
    rows = [(END_TO_END, model.acceptance_rate, model.end_to_end_gain) for model in models]
    rows += [(ONE_STREAM, model.acceptance_rate, model.single_stream_speedup) for model in models]
    return pd.DataFrame(rows, columns=["model", "rate", "speedup"])


# --- Acceptance by position, over K and over the load, a line per dataset.


def acceptance(
    lines: Sequence[AcceptanceLine], over: Over, measure: Measure, arm: str, names: tuple[str, str]
) -> Chart:
    """Draw acceptance over the draft position, K or the load, a line per dataset. ``arm``: whose
    colour the lines have; datasets are told apart by dash and name. ``names``: the answer, and what
    stands behind it."""
    if not lines:
        return nothing(f"{names[0]}: {_NAMES[measure]} unknown")
    rows = pd.DataFrame([
        {
            "dataset": line.dataset, "arm": arm, "concurrency": at, "value": value,
            "end_label": line.dataset if at == line.points[-1][0] else "", "end_y": value,
        }
        for line in lines
        for at, value in line.points
    ])  # fmt: skip
    share = measure != "length"
    high = 1.0 if share else float(rows["value"].max()) * 1.1
    placed = ends_apart(rows, high)
    base = alt.Chart(placed).encode(
        x=_axis(
            placed["concurrency"],
            over,
            "concurrency",
            _FACTOR if over == "concurrency" else _NAMES_ROOM,
        ),
        y=amounts("value", high, share),
        color=colour(placed),
        strokeDash=alt.StrokeDash(field="dataset", type="nominal", legend=None),
    )
    tips = [
        tip("dataset", "dataset"), tip("concurrency", _AXES[over] or "concurrency", "d"),
        tip("value", _NAMES[measure], ".1%" if share else ".2f"),
    ]  # fmt: skip
    ends = base.mark_text(align="left", dx=9, fontSize=12, fontWeight=600).encode(
        y=alt.Y(field="end_y", type="quantitative"),
        text=alt.Text(field="end_label", type="nominal"),
    )
    points = base.mark_point(filled=True, size=60, opacity=1).encode(tooltip=tips)
    return alt.layer(base.mark_line(strokeWidth=2), points, ends).properties(
        title=title(names[0], f"{_NAMES[measure]}, higher is better; {names[1]}"),
        height=_ACCEPTANCE_HEIGHT,
    )
