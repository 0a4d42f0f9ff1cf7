"""What is drawn of one cell: its requests, its drafts, its server."""

import pandas as pd

from answers.wording import badge
from dashboard.answers import Drawing, drawn
from dashboard.charts import requests as charts_requests
from dashboard.palette import arm_colour
from warehouse.catalogue import METRICS

DISTRIBUTIONS = ("ttft", "itl", "request_latency")
_LARGEST_SERIES = 2000


def distributions(cell: pd.Series, known: dict[str, pd.DataFrame]) -> list[Drawing]:
    """One chart per metric that the requests have. ``known``: metric -> share, value."""
    colour, note = arm_colour(cell["arm_label"]), badge(cell["evidence"])
    return [
        drawn(charts_requests.distribution(rows, METRICS[metric], colour, note))
        for metric, rows in known.items()
        if not rows.empty
    ]


def acceptance(cell: pd.Series, rows: pd.DataFrame) -> list[Drawing]:
    """One chart per source. ``rows``: source, position, rate."""
    note, colour = bracketed(badge(cell["evidence"])), arm_colour(cell["arm_label"])
    return [
        drawn(
            charts_requests.acceptance_by_position(
                part, f"Acceptance by position, {source}{note}", colour
            )
        )
        for source, part in rows.groupby("source")
    ]


def server(rows: pd.DataFrame, name: str, note: str) -> Drawing:
    """One metric of ``rows`` (at, name, value) over seconds since the first sample."""
    series = rows[rows["name"] == name]
    series = series.iloc[:: len(series) // _LARGEST_SERIES + 1]
    series = series.assign(at=series["at"] - rows["at"].min())
    return drawn(charts_requests.server_over_time(series, f"{name}{bracketed(note)}"))


def bracketed(note: str) -> str:
    """A badge as the end of a title; nothing for nothing."""
    return f"  [{note}]" if note else ""
