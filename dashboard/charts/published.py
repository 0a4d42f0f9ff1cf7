"""Figures of a published study: bars of what was printed, hollow, beside what was measured here."""

from collections.abc import Sequence

import altair as alt
import pandas as pd

from analysis.published.printed import Finding
from answers.compare.values import short_name
from answers.published.values import BADGE, MEAN, Plot, PublishedStudy, where_printed
from answers.wording import badge, bracketed
from dashboard.charts import (
    BETTER,
    NARROW,
    QUIET,
    WORSE,
    Chart,
    colour,
    coloured,
    even,
    points,
    spans,
    tip,
    title,
)
from warehouse.catalogue import counted

PUBLISHED, RECOMPUTED, MEASURED = "published", "its own row gives", "measured here"
_SHAPES = {PUBLISHED: "square", RECOMPUTED: "diamond", MEASURED: "circle"}
#: Height of one figure; title, legend, axis and its name: what a chart needs beside its rows, px.
_ROW, _AROUND_BARS = 46, 150
#: Figures that are drawn; the others stand in the table.
MOST_DRAWN = 24
#: What the marks without an arm are coloured as.
_NO_ARM = "baseline"
#: Height of a bar, of title and axis, and of a line below the title, px.
_BAR, _AROUND, _LINE = 28, 100, 14
#: Height of a row of the dots, px; room for the words of an error, as a share of the axis.
_THIN, _AT_RIGHT = 14, 0.9
_HOW_PRINTED = "means; ■ as printed, ◇ as its row gives, orange: error"
#: Room for the label at the end of the longest bar, as a factor of its length.
_ROOM = 2.1

# --- Published figures beside what their own rows give, and beside our own measurements.


def claimed(findings: Sequence[Finding], source: str) -> Chart:
    """Draw each figure in a row of its own, improvements in percent, positive is better."""
    rows = claim_rows(findings)
    flagged = sum(finding.flagged for finding in findings)
    badges = {badge(told["evidence"]) for finding in findings for told in finding.measured} - {""}
    notes = bracketed(*sorted({"published", *badges}))
    count = counted(len(findings), "improvement")
    name = f"{flagged} of {count} here printed otherwise than they follow{notes}"
    places = rows.drop_duplicates("place")["place"].tolist()
    y = alt.Y(field="place", type="nominal", sort=places, axis=None)
    x = alt.X(
        field="value", type="quantitative", title="improvement, % (positive is better)",
        axis=alt.Axis(tickCount=6), scale=alt.Scale(zero=True, nice=True),
    )  # fmt: skip
    base = alt.Chart(rows).encode(x=x, y=y)
    shape = alt.Shape(
        field="kind", type="nominal", title=None,
        legend=alt.Legend(orient="top", symbolStrokeColor=QUIET),
        scale=alt.Scale(domain=list(_SHAPES), range=list(_SHAPES.values())),
    )  # fmt: skip
    tips = [
        tip("label", "figure"), tip("kind", "this mark"), tip("value", "%", "+.1f"),
        tip("low", "lowest, %", "+.1f"), tip("high", "highest, %", "+.1f"), tip("told", "why"),
    ]  # fmt: skip
    names = (
        alt.Chart(rows[rows["label"] != ""])
        .mark_text(align="left", dy=-15, fontSize=12, color=QUIET)
        .encode(x=alt.value(0), y=y, text=alt.Text(field="label", type="nominal"))
    )
    return alt.layer(
        even("x"),
        spans(base.mark_rule(strokeWidth=4, opacity=0.35), "x", color=colour(rows)),
        points(base, rows, tips, size=90, opacity=1).encode(shape=shape),
        names,
    ).properties(
        title=title(name, f"{source}; bars: what rounding in print, or the repeats, allow"),
        height=_ROW * len(places) + _AROUND_BARS,
    )


def claim_rows(findings: Sequence[Finding]) -> pd.DataFrame:
    """Return one row per mark: ``place`` (the figure, in order), ``label`` (once per figure),
    ``kind``, ``arm`` (``baseline`` for marks that have no arm's colour), ``value``, ``low`` and
    ``high`` (%), ``solid`` (0: hollow, a single launch or a printed figure), ``told``."""
    rows = []
    for at, finding in enumerate(findings):
        where = where_printed(finding)
        label = f"{where}: {finding.kind}" if finding.kind else where
        marks = [
            (RECOMPUTED, _NO_ARM, finding.recomputed, finding.low, finding.high),
            (PUBLISHED, _NO_ARM, finding.published, finding.published, finding.published),
        ]
        for told in finding.measured:
            value = told["improvement"]
            ends = (value if told[end] is None else told[end] for end in ("low", "high"))
            marks.append((MEASURED, str(told["arm"]), value, *ends))
        rows += [
            {
                "place": f"{at:03d} {where}", "label": label if kind == RECOMPUTED else "",
                "kind": kind, "arm": arm, "value": value, "low": min(low, high),
                "high": max(low, high), "solid": int(kind == RECOMPUTED or low != high),
                "told": finding.reason if kind != MEASURED else "",
            }
            for kind, arm, value, low, high in marks
        ]  # fmt: skip
    return pd.DataFrame(rows)


# --- Every improvement that a study prints, beside what its own row gives.


def improvements(study: PublishedStudy) -> Chart:
    """Draw each printed improvement, a row each below its dataset: a square as printed, a diamond as its
    own row gives it, an error in colour with what is wrong."""
    rows = _improvements(study)
    y = alt.Y(
        field="place", type="nominal", title=None, scale=alt.Scale(domain=rows["place"].tolist()),
        axis=alt.Axis(
            labelExpr="split(datum.value, '|')[1]", labelLimit=150, ticks=False, domain=False,
            labelOverlap=False, labelFlush=False, labelFontSize=11,
            labelFontWeight=alt.condition("indexof(datum.value, '#|') > 0", alt.value(700), alt.value(400)),
        ),
    )  # fmt: skip
    both = rows[["printed", "row"]]
    low, high = min(float(both.min().min()), 0.0), float(both.max().max())
    room = (high - low) * _AT_RIGHT
    x = alt.X(
        field="row", type="quantitative", title="improvement, % (positive is better)",
        axis=alt.Axis(tickCount=6, grid=False), scale=alt.Scale(domain=[low - 1, high + room]),
    )  # fmt: skip
    printed = alt.X(field="printed", type="quantitative")
    shade = coloured("wrong", ["", "wrong"], [BETTER, WORSE])
    base = alt.Chart(rows).encode(y=y, color=shade)
    tips = [tip("name", "figure"), tip("told", "printed")]
    return alt.layer(
        even("x"),
        base.mark_rule(strokeWidth=2).encode(x=x, x2=alt.X2(field="printed")),
        base.mark_point(shape="diamond", size=70, strokeWidth=1.5).encode(x=x, tooltip=tips),
        base.mark_point(shape="square", size=26, filled=True, opacity=1).encode(x=printed, tooltip=tips),
        base.mark_text(
            align="left", dx=9, fontSize=11, text=alt.expr(f"{NARROW} ? datum.short : datum.told")
        ).encode(x=alt.X(field="end", type="quantitative")),
    ).properties(
        title=title(f"Improvements  [{BADGE}]", _HOW_PRINTED),
        height=_THIN * len(rows) + _AROUND,
    )  # fmt: skip


def _improvements(study: PublishedStudy) -> pd.DataFrame:
    """Return a row per dataset, whose numbers are unknown, and per improvement printed of it: place
    (its name follows a bar), name, printed, row and end, the larger of the two (%), wrong, told, short."""
    rows: list[tuple[object, ...]] = []
    nan = float("nan")
    for each in (each for each in study.tables if each.arms[0] == "baseline"):
        rows.append((f"{len(rows):02d}#|{each.title}", each.title, nan, nan, nan, "", "", ""))
        for line in each.lines:
            if line.gains is not None:
                printed, row = line.gains
                wrong = f" {line.flag}: its row gives {line.recomputed}" if line.flag else ""
                name = short_name(line.metric, line.statistic)
                rows.append((f"{len(rows):02d}|{name}", f"{each.title}: {line.name}", printed, row,
                             max(printed, row), "wrong" if line.flag else "",
                             f"{line.printed}{wrong}", line.printed))  # fmt: skip
    return pd.DataFrame(
        rows, columns=["place", "name", "printed", "row", "end", "wrong", "told", "short"]
    )


# --- Figures of a published study: bars of what was printed, hollow, beside what was measured here.


def printed_values(plot: Plot) -> Chart:
    """Draw one metric of a figure: a bar for each printed value and arm, from zero."""
    rows = bars(plot)
    y = alt.Y(
        field="of", type="nominal", title=None, sort=rows["of"].drop_duplicates().tolist(),
        axis=alt.Axis(labelLimit=150, ticks=False, domain=False),
    )  # fmt: skip
    high = float(rows["value"].max()) * _ROOM
    x = alt.X(
        field="value", type="quantitative", title=None,
        axis=alt.Axis(tickCount=4, grid=False), scale=alt.Scale(domain=[0, high], nice=False),
    )  # fmt: skip
    base = alt.Chart(rows).encode(y=y, yOffset=alt.YOffset(field="place", type="ordinal"), x=x)
    marks = base.mark_bar(strokeWidth=1.5, height={"band": 0.8}).encode(
        fill=colour(rows, "fill"), stroke=colour(rows, "stroke"),
        fillOpacity=alt.FillOpacity(field="solid", type="quantitative", scale=None, legend=None),
        tooltip=[tip("arm", "arm"), tip("text", plot.unit), tip("origin", "origin")],
    )  # fmt: skip
    names = base.mark_text(align="left", dx=5, fontSize=12).encode(
        text=alt.Text(field="label", type="nominal"), color=colour(rows)
    )
    # What is wrong in print, in lines that a narrow chart has room for, and how the bars are read.
    notes = [part for note in plot.notes for part in note.split(": ")]
    notes += ["full: measured here"] if plot.measured else []
    return alt.layer(
        marks, names, height=_BAR * len(rows) + _AROUND + _LINE * len(notes),
        title=title(f"{short_name(plot.metric, plot.statistic)}, {plot.unit}", [BADGE, *notes]),
    )  # fmt: skip


def bars(plot: Plot) -> pd.DataFrame:
    """Return a row per bar: of, place (within it), arm, value, text, label, origin, solid."""
    rows = [
        (one.of, one.arm, one.value, one.text, f"{one.arm} {one.text}", PUBLISHED, 0.12)
        for one in plot.values
    ]
    for one in plot.measured:
        badge = "".join(f" [{text}]" for text in one.badges)
        for arm, value in (("baseline", one.reference), (one.arm, one.value)):
            if value is not None:
                text = f"{value:,.1f}"
                rows.append(
                    (one.of, arm, value, text, f"{arm} {text} {MEASURED}{badge}", MEASURED, 0.9)
                )
    found = pd.DataFrame(
        list(dict.fromkeys(rows)),
        columns=["of", "arm", "value", "text", "label", "origin", "solid"],
    )
    found = found.sort_values("of", key=lambda of: of.ne(MEAN), kind="stable", ignore_index=True)
    return found.assign(place=found.groupby("of").cumcount())
