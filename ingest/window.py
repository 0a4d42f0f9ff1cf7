"""The measured window of a cell: what was active, where a report states a longer one.

A report may wait long after its last request, and would call that time measured too.
"""

import math

import numpy as np

from analysis.canonical import Columns, Window, ends_of
from warehouse.rows import Flag

#: A window outlives the activity by more than this many seconds and this share of it.
_SECONDS, _SHARE = 1.0, 0.01


def active(
    columns: Columns, stated: Window, trimmed: tuple[float, float]
) -> tuple[Window, tuple[Flag, ...]]:
    """Return the stated window, less what lies before the first and after the last request.

    ``columns`` are those of all requests. ``trimmed``: seconds of warm-up and cool-down, which are
    left out of the activity too. Flagged where much was cut off.
    """
    if stated.start is None or stated.end is None:
        return stated, ()
    first, last = activity(columns)
    start = stated.start if stated.start >= first else first + trimmed[0]
    end = stated.end if stated.end <= last else last - trimmed[1]
    if not start < end:
        return stated, ()
    cut = outlived(stated.end - stated.start, end - start)
    return Window(start, end), () if cut is None else (cut,)


def activity(columns: Columns) -> tuple[float, float]:
    """Return the first start and last end of the requests; unlimited where one of them is not
    known."""
    begun = ~np.isnan(columns["start"])
    if not begun.any():
        return -math.inf, math.inf
    end = ends_of(columns)[begun]
    last = math.inf if np.isnan(end).any() else float(end.max())
    return float(columns["start"][begun].min()), last


def outlived(stated: float, found: float) -> Flag | None:
    """Return a flag where a window of ``stated`` seconds had activity for only ``found`` of
    them."""
    idle = stated - found
    if idle <= max(_SECONDS, _SHARE * stated):
        return None
    return Flag(
        "window_outlives_activity",
        "warning",
        f"The report measured over {stated:,.1f} s, but its requests were active for only "
        f"{found:,.1f} s of them: its own rates are too low by {idle / stated:.0%}, and the "
        "canonical ones take the active time.",
    )
