"""Goodput of a load: over the repeats of a level, in the window that each cell was measured in."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from analysis.service.goodput import Goodput


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
