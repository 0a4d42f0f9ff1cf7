"""One cell in depth: its requests (how many took at most so long, which drafts were accepted), and what
the server and its machine did while it was measured, over seconds."""

from collections.abc import Sequence

import altair as alt
import pandas as pd

from answers.runs.read import CellCurve
from answers.wording import bracketed
from dashboard.charts import QUIET, Chart, coloured, shares, tip, title
from warehouse.catalogue import METRICS

_REQUESTS_HEIGHT, _SERVER_HEIGHT = 220, 200
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


def distribution(curve: CellCurve, colour: str, note: str = "") -> Chart:
    """Draw the empirical distribution of a metric (the name of ``curve``) over the requests.

    ``note`` is the badge of evidence other than a real GPU run.
    """
    metric = METRICS[curve.name]
    rows = pd.DataFrame(curve.points, columns=["value", "share"])
    return (
        alt.Chart(rows)
        .mark_line(interpolate="step-after", strokeWidth=2, color=colour)
        .encode(
            x=alt.X(field="value", type="quantitative", title=metric.unit),
            y=shares("share", "share of requests"),
            tooltip=[tip("value", metric.unit, ",.1f"), tip("share", "share", ".1%")],
        )
        .properties(
            title=title(f"{metric.label}, {metric.unit}{bracketed(note)}"),
            height=_REQUESTS_HEIGHT,
        )
    )


def acceptance_by_position(curve: CellCurve, colour: str, note: str = "") -> Chart:
    """Draw the share of drafts whose token at each position was accepted, a step each; ``name``:
    the source."""
    rows = pd.DataFrame(curve.points, columns=["position", "rate"])
    point = alt.OverlayMarkDef(color=colour, size=55)
    return (
        alt.Chart(rows)
        .mark_line(interpolate="step", strokeWidth=2, color=colour, point=point)
        .encode(
            x=alt.X(
                field="position", type="ordinal", title="draft position",
                axis=alt.Axis(labelAngle=0, format="d"),
            ),
            y=shares("rate", "accepted / drafts"),
            tooltip=[
                alt.Tooltip(field="position", type="ordinal", title="position"),
                tip("rate", "accepted", ".1%"),
            ],
        )
        .properties(
            title=title(f"Acceptance by position, {curve.name}{bracketed(note)}"), height=_REQUESTS_HEIGHT
        )
    )  # fmt: skip


def over_time(curves: Sequence[CellCurve], name: str, colour: str, share: bool) -> Chart:
    """Draw one or several lines over the seconds since the first sample, each with its name at its
    end.

    The first has the arm's colour, others are grey; ``share``: values are ratios of 0-1.
    """
    points = [
        (curve.name, at, value, curve.name if place == len(curve.points) - 1 else "")
        for curve in curves
        for place, (at, value) in enumerate(curve.points)
    ]
    rows = pd.DataFrame(points, columns=["line", "at", "value", "end"])
    names = [curve.name for curve in curves]
    # Room at the right for the names of several lines.
    last = (float(rows["at"].max()) or 1.0) * (1.25 if len(names) > 1 else 1.02)
    base = alt.Chart(rows).encode(
        x=alt.X(field="at", type="quantitative", title="seconds", scale=alt.Scale(domain=[0, last], nice=False),
                axis=alt.Axis(grid=False, tickCount=6, titleAnchor="start")),
        y=alt.Y(field="value", type="quantitative", title=None, scale=alt.Scale(domain=[0, 1]) if share else alt.Scale(zero=True),
                axis=alt.Axis(format=".0%" if share else "~s", tickCount=4)),
        color=coloured("line", names, [colour, *[QUIET] * (len(names) - 1)]),
    )  # fmt: skip
    line = base.mark_line(strokeWidth=1.5, interpolate="step-after").encode(
        tooltip=[
            tip("line", "what"),
            tip("at", "seconds", ",.1f"),
            alt.Tooltip(field="value", type="quantitative", format=".1%" if share else ",.2f"),
        ]
    )
    layers = [line]
    if len(names) > 1:
        layers.append(
            base.mark_text(align="left", dx=6, fontSize=12, fontWeight=600).encode(
                text=alt.Text(field="end", type="nominal")
            )
        )
    return alt.layer(*layers).properties(title=title(name), height=_SERVER_HEIGHT)


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
        .properties(title=title(f"{curve.name}{note}"), height=_SERVER_HEIGHT)
    )
