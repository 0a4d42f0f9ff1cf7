"""Goodput: what was served within the SLO, counted request by request.

The requirement is on each request, so a bound's statistic plays no part here: ``ttft:p95<200ms``
asks every good request to have its first token within 200 ms.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from analysis.service.slo import Bound, Slo
from warehouse.catalogue import JUDGED_PER_REQUEST
from warehouse.errors import InvalidInput
from warehouse.rows import COMPLETED, ERRORED

#: The columns that are read.
COLUMNS = ("status", "start", "end", "last_token", "output_tokens", *JUDGED_PER_REQUEST)
_CLOCK = 1e-6


@dataclass(frozen=True)
class Goodput:
    """Counts of the requests that ended in the window: ``ended`` (completed and errored) and
    ``good`` ones; ``share`` = good / ended (0-1); good requests and their output tokens per second
    of the window. ``missed``: how many of the completed ones each bound turned away."""

    ended: int
    good: int
    share: float | None
    requests_per_second: float
    output_tokens_per_second: float
    missed: dict[str, int]

    def as_json(self) -> dict[str, Any]:
        """Return the fields as a dict for JSON."""
        return dict(vars(self))


def goodput(
    requests: pd.DataFrame, slo: Slo, window: tuple[float, float] | None = None
) -> Goodput | None:
    """Judge the request rows of one cell (``COLUMNS`` of ``rows.REQUEST_SCHEMA``).

    ``window``: begin and end in the clock of the requests; None takes their extent. A request
    counts where it ended. An errored one is never good; one whose value is unknown is not good
    either, except ``itl`` of a single token, which has no gap to be late. None where no request
    is known. Raises InvalidInput where a bound is on something that one request does not have.
    """
    _only_per_request(slo)
    begin, finish = window or _extent(requests)
    if not finish > begin:
        return None
    ends = requests["end"].fillna(requests["last_token"]).astype("float64")
    inside = (ends >= begin - _CLOCK) & (ends <= finish + _CLOCK)
    ended = requests[inside & requests["status"].isin([COMPLETED, ERRORED])]
    done = (ended["status"] == COMPLETED).to_numpy(dtype=bool)
    within = {bound.text: _within(ended, bound) for bound in slo.bounds}
    good = np.logical_and.reduce([done, *within.values()])
    tokens = float(ended["output_tokens"].fillna(0).to_numpy(dtype=np.float64)[good].sum())
    count, length = int(good.sum()), finish - begin
    return Goodput(
        len(ended),
        count,
        count / len(ended) if len(ended) else None,
        count / length,
        tokens / length,
        {text: int((done & ~met).sum()) for text, met in within.items()},
    )


def per_request(slo: Slo) -> Slo | None:
    """Return the bounds that a single request can meet or miss; None where there is none."""
    bounds = tuple(bound for bound in slo.bounds if bound.metric in JUDGED_PER_REQUEST)
    return Slo(bounds) if bounds else None


def _within(rows: pd.DataFrame, bound: Bound) -> "np.ndarray[Any, np.dtype[np.bool_]]":
    values = rows[bound.metric].to_numpy(dtype=np.float64, na_value=np.nan)
    met = bound.holds_each(values)
    if bound.metric == "itl":
        met |= np.isnan(values) & (rows["output_tokens"] <= 1).fillna(False).to_numpy(dtype=bool)
    return met


def _extent(requests: pd.DataFrame) -> tuple[float, float]:
    ends = requests["end"].fillna(requests["last_token"])
    return float(requests["start"].min()), float(ends.max())


def _only_per_request(slo: Slo) -> None:
    for bound in slo.bounds:
        if bound.metric not in JUDGED_PER_REQUEST:
            raise InvalidInput(
                f"{bound.text!r} is not a property of one request, so goodput cannot count it; "
                f"use bounds on {', '.join(JUDGED_PER_REQUEST)}."
            )


@dataclass(frozen=True)
class Pooled:
    """Goodput over the repeats of a level: ``good_share`` of the requests that ended (0-1), good
    requests and their output tokens per second. Each None where no request is known."""

    good_share: float | None
    goodput: float | None
    good_output_throughput: float | None


def pooled(known: Sequence[Goodput]) -> Pooled:
    """Average the rates over the repeats, and take the share over all their requests."""
    if not known:
        return Pooled(None, None, None)
    ended = sum(found.ended for found in known)
    return Pooled(
        sum(found.good for found in known) / ended if ended else None,
        sum(found.requests_per_second for found in known) / len(known),
        sum(found.output_tokens_per_second for found in known) / len(known),
    )


def window(cell: Mapping[Any, Any]) -> tuple[float, float] | None:
    """Return begin and end of a cell's measured window, unix s.

    ``cell``: load_generator, started_at, duration (s). None where they are unknown, or for a
    generator whose requests are not in unix seconds.
    """
    start, length = cell["started_at"], cell["duration"]
    if cell["load_generator"] != "guidellm" or pd.isna(start) or pd.isna(length):
        return None
    return start.timestamp(), start.timestamp() + length
