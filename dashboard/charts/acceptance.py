"""Charts of a draft: acceptance by position, over K and over the load, a line per dataset."""

from collections.abc import Sequence

import altair as alt
import pandas as pd

from answers.predict.acceptance import AcceptanceLine, Measure, Over
from dashboard.charts import Chart, nothing
from dashboard.charts.axes import amounts, colour, ends_apart, loads, tip, title

HEIGHT = 280
_NAMES: dict[Measure, str] = {
    "rate": "acceptance rate", "length": "tokens per step",
    "of_all": "accepted at each position, of all drafts",
    "of_those": "accepted at each position, of drafts that got so far",
}  # fmt: skip
_AXES: dict[Over, str] = {"position": "draft position", "k": "draft tokens K", "concurrency": ""}
#: Room at the right for the names of the datasets, as a share of the axis and as a factor of loads.
_ROOM, _FACTOR = 0.3, 2.5


def acceptance(
    lines: Sequence[AcceptanceLine], over: Over, measure: Measure, arm: str, names: tuple[str, str]
) -> Chart:
    """Draw acceptance over the draft position, K or the load, a line per dataset. ``arm``: whose
    colour the lines have; datasets are told apart by dash and name. ``names``: the answer, and what
    stands behind it."""
    if not lines:
        return nothing(f"{names[0]}: {_NAMES[measure]} unknown")
    rows = _marks(lines, arm)
    share = measure != "length"
    high = 1.0 if share else float(rows["value"].max()) * 1.1
    placed = ends_apart(rows, high)
    base = alt.Chart(placed).encode(
        x=_axis(placed, over),
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
    told = f"{_NAMES[measure]}, higher is better; {names[1]}"
    layers = [base.mark_line(strokeWidth=2), points, ends]
    return alt.layer(*layers).properties(title=title(names[0], told), height=HEIGHT)


def _marks(lines: Sequence[AcceptanceLine], arm: str) -> pd.DataFrame:
    return pd.DataFrame(
        [
            {
                "dataset": line.dataset, "arm": arm, "concurrency": at, "value": value,
                "end_label": line.dataset if at == line.points[-1][0] else "", "end_y": value,
            }
            for line in lines
            for at, value in line.points
        ]
    )  # fmt: skip


def _axis(rows: pd.DataFrame, over: Over) -> alt.X:
    places = sorted({int(at) for at in rows["concurrency"]})
    if over == "concurrency":
        return loads(places, _FACTOR)
    room = max(places[-1] - places[0], 1) * _ROOM
    return alt.X(
        field="concurrency",
        type="quantitative",
        title=_AXES[over],
        scale=alt.Scale(domain=[places[0] - 0.3, places[-1] + 0.3 + room], nice=False),
        axis=alt.Axis(values=places, format="d", grid=False, domain=False, titleAnchor="start"),
    )
