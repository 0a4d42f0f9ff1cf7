"""Charts of the requests of two cells: how they fared, and what the prompt's length does."""

from collections.abc import Sequence

import altair as alt
import pandas as pd

from answers.compare.subjects import FirstTokens, RequestDistribution
from dashboard.charts import Chart
from dashboard.charts.axes import colour, tip
from dashboard.charts.axes import title as heading
from warehouse.catalogue import METRICS

HEIGHT = 260
#: Cells of the density along the prompt's length and along the time to first token.
_ACROSS, _UP = 28, 20


#: Shares of requests at which the names of the two lines stand: far enough apart to be read.
_NAMED_AT = (0.2, 0.8)


def distribution(known: RequestDistribution, note: str) -> Chart:
    """Draw the share of requests that took at most so long, a line per arm. ``note``: badges."""
    metric = METRICS[known.metric]
    rows = pd.concat(
        [_named(arm, points, at) for (arm, points), at in zip(known.arms, _NAMED_AT, strict=True)],
        ignore_index=True,
    )
    lines = alt.Chart(rows).encode(
        x=alt.X(field="value", type="quantitative", title=metric.unit),
        y=alt.Y(
            field="share",
            type="quantitative",
            title="share of requests",
            axis=alt.Axis(format=".0%", tickCount=5),
            scale=alt.Scale(domain=[0, 1]),
        ),
        color=colour(rows),
    )
    steps = lines.mark_line(interpolate="step-after", strokeWidth=2).encode(
        tooltip=[tip("arm", "arm"), tip("value", metric.unit, ",.1f"), tip("share", "share", ".1%")]
    )
    names = lines.mark_text(align="left", dx=6, fontSize=12, fontWeight=600).encode(
        text=alt.Text(field="label", type="nominal")
    )
    title = heading(f"{metric.label}, {metric.unit}{note}", "share of requests at most so long")
    return alt.layer(steps, names).properties(title=title, height=HEIGHT)


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
    title = f"{known.arm}: {len(rows):,}{of} requests{note}"
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
            title=heading(title, "time to first token over prompt length; darker: more requests"),
            height=HEIGHT,
        )
    )
