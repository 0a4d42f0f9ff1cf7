"""Figures of a published study: bars of what was printed, hollow, beside what was measured here."""

import altair as alt
import pandas as pd

from answers.compare.words import short_name
from answers.published.values import BADGE, MEAN, Plot
from dashboard.charts import Chart
from dashboard.charts.axes import colour, tip, title

#: Height of a bar, of title and axis, and of a line below the title, px.
_BAR, _AROUND, _LINE = 28, 100, 14
#: Room for the label at the end of the longest bar, as a factor of its length.
_ROOM = 2.1
_PRINTED, _HERE = "published", "measured here"


def printed_values(plot: Plot) -> Chart:
    """Draw one metric of a figure: a bar for each printed value and arm, from zero."""
    rows = bars(plot)
    y = alt.Y(
        field="of", type="nominal", title=None, sort=rows["of"].drop_duplicates().tolist(),
        axis=alt.Axis(labelLimit=150, ticks=False, domain=False),
    )  # fmt: skip
    offset = alt.YOffset(field="place", type="ordinal")
    high = float(rows["value"].max()) * _ROOM
    x = alt.X(
        field="value", type="quantitative", title=None,
        axis=alt.Axis(tickCount=4, grid=False), scale=alt.Scale(domain=[0, high], nice=False),
    )  # fmt: skip
    base = alt.Chart(rows).encode(y=y, yOffset=offset, x=x)
    marks = base.mark_bar(strokeWidth=1.5, height={"band": 0.8}).encode(
        fill=colour(rows, "fill"), stroke=colour(rows, "stroke"),
        fillOpacity=alt.FillOpacity(field="solid", type="quantitative", scale=None, legend=None),
        tooltip=[tip("arm", "arm"), tip("text", plot.unit), tip("origin", "origin")],
    )  # fmt: skip
    names = base.mark_text(align="left", dx=5, fontSize=12).encode(
        text=alt.Text(field="label", type="nominal"), color=colour(rows)
    )
    heading = title(f"{short_name(plot.metric, plot.statistic)}, {plot.unit}", "")
    heading.subtitle = [BADGE, *_notes(plot)]
    height = _BAR * len(rows) + _AROUND + _LINE * len(_notes(plot))
    return alt.layer(marks, names, title=heading, height=height)


def _notes(plot: Plot) -> list[str]:
    """Say what is wrong in print, in lines that a narrow chart has room for, and how the bars are
    read."""
    told = [part for note in plot.notes for part in note.split(": ")]
    return [*told, *(["full: measured here"] if plot.measured else [])]


def bars(plot: Plot) -> pd.DataFrame:
    """Return a row per bar: of, place (within it), arm, value, text, label, origin, solid."""
    rows = [
        (one.of, one.arm, one.value, one.text, f"{one.arm} {one.text}", _PRINTED, 0.12)
        for one in plot.values
    ]
    for one in plot.measured:
        badge = "".join(f" [{text}]" for text in one.badges)
        for arm, value in (("baseline", one.reference), (one.arm, one.value)):
            if value is not None:
                text = f"{value:,.1f}"
                label = f"{arm} {text} {_HERE}{badge}"
                rows.append((one.of, arm, value, text, label, _HERE, 0.9))
    names = ["of", "arm", "value", "text", "label", "origin", "solid"]
    found = pd.DataFrame(list(dict.fromkeys(rows)), columns=names)
    found = found.sort_values("of", key=lambda of: of.ne(MEAN), kind="stable", ignore_index=True)
    return found.assign(place=found.groupby("of").cumcount())
