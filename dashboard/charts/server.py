"""What the server and its machine did while a cell was measured: small charts over seconds."""

from collections.abc import Sequence

import altair as alt
import pandas as pd

from answers.runs.read import CellCurve
from dashboard.charts import Chart
from dashboard.charts.axes import QUIET
from dashboard.charts.axes import title as heading

HEIGHT = 200
#: Title -> its lines of ``Server.lines``, and whether they are shares.
CHARTS: dict[str, tuple[tuple[str, ...], bool]] = {
    "Requests in the server": (("running", "waiting"), False),
    "KV cache in use": (("KV cache",), True),
    "Output, tok/s": (("output",), False),
    "Acceptance rate": (("acceptance rate",), True),
    "Acceptance length, tokens/step": (("mean acceptance length",), False),
    "GPU clock, MHz": (("GPU clock",), False),
    "GPU power, W": (("GPU power",), False),
    "GPU temperature, °C": (("GPU temperature",), False),
    "Processor clock, MHz": (("processor clock",), False),
    "Cores that others kept busy": (("cores of others",), False),
    "Processor time stolen": (("stolen",), True),
}


def over_time(curves: Sequence[CellCurve], title: str, colour: str, share: bool) -> Chart:
    """Draw one or several lines over the seconds since the first sample, each with its name at its
    end.

    The first has the arm's colour, others are grey; ``share``: values are ratios of 0-1.
    """
    rows = _rows(curves)
    names = [curve.name for curve in curves]
    scale = alt.Scale(domain=names, range=[colour, *[QUIET] * (len(names) - 1)])
    base = alt.Chart(rows).encode(
        x=alt.X(field="at", type="quantitative", title="seconds", scale=_room(rows, len(names)),
                axis=alt.Axis(grid=False, tickCount=6, titleAnchor="start")),
        y=alt.Y(field="value", type="quantitative", title=None, scale=_scale(share),
                axis=alt.Axis(format=".0%" if share else "~s", tickCount=4)),
        color=alt.Color(field="line", type="nominal", scale=scale, legend=None),
    )  # fmt: skip
    line = base.mark_line(strokeWidth=1.5, interpolate="step-after").encode(
        tooltip=[
            alt.Tooltip(field="line", type="nominal", title="what"),
            alt.Tooltip(field="at", type="quantitative", title="seconds", format=",.1f"),
            alt.Tooltip(field="value", type="quantitative", format=".1%" if share else ",.2f"),
        ]
    )
    layers = [line]
    if len(names) > 1:
        text = base.mark_text(align="left", dx=6, fontSize=12, fontWeight=600)
        layers.append(text.encode(text=alt.Text(field="end", type="nominal")))
    return alt.layer(*layers).properties(title=heading(title), height=HEIGHT)


def sampled(curve: CellCurve, note: str) -> Chart:
    """Draw one server metric as it was sampled."""
    rows = pd.DataFrame(curve.points, columns=["at", "value"])
    return (
        alt.Chart(rows)
        .mark_line(strokeWidth=1.5, color=QUIET)
        .encode(
            x=alt.X(field="at", type="quantitative", title="seconds since the first sample"),
            # Most are counters that started long before: from zero they would be a flat line.
            y=alt.Y(field="value", type="quantitative", title=None, scale=alt.Scale(zero=False)),
        )
        .properties(title=heading(f"{curve.name}{note}"), height=HEIGHT)
    )


def _rows(curves: Sequence[CellCurve]) -> pd.DataFrame:
    rows = [
        (curve.name, at, value, curve.name if place == len(curve.points) - 1 else "")
        for curve in curves
        for place, (at, value) in enumerate(curve.points)
    ]
    return pd.DataFrame(rows, columns=["line", "at", "value", "end"])


def _scale(share: bool) -> alt.Scale:
    return alt.Scale(domain=[0, 1]) if share else alt.Scale(zero=True)


def _room(rows: pd.DataFrame, lines: int) -> alt.Scale:
    """Return an axis of seconds that leaves room at the right for the names of several lines."""
    last = float(rows["at"].max()) or 1.0
    return alt.Scale(domain=[0, last * (1.25 if lines > 1 else 1.02)], nice=False)
