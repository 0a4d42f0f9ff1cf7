"""The server's counters around a cell: from two snapshots or from the samples around its window.

The cumulative counters at the edges of a window are those of the last sample before it and the
first one after it, which count exactly the window's requests when the server idles between levels.
Where no sample is near an edge, the counters are interpolated there.
"""

import itertools
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import fields

from analysis.drafts.acceptance import Counters, from_counters
from ingest.prometheus import Snapshot
from ingest.samples import Series
from warehouse.rows import Acceptance, Flag, Sample

Window = tuple[float, float]
Found = tuple[Acceptance | None, tuple[Flag, ...]]

#: A sample is near an edge within this many seconds, or within this share of the window.
_NEAR_SECONDS, _NEAR_SHARE = 1.0, 0.05

#: What every server of vLLM counts.
_TOTALS = ("generation_tokens", "prompt_tokens")

RESTARTED = Flag(
    "counters_restarted",
    "warning",
    "A counter of the server fell during this run, so the server restarted; acceptance was not "
    "taken from its counters.",
)
_INCOMPLETE = Flag(
    "counters_incomplete",
    "info",
    "The samples of the server's counters do not span this cell, so acceptance was not taken from "
    "them.",
)


def before_after(before: Snapshot | None, after: Snapshot | None) -> Found:
    """Return the acceptance between two snapshots; None with a flag where the server restarted."""
    there = [snapshot for snapshot in (before, after) if snapshot is not None]
    if _began_anew(there):
        return None, (RESTARTED,)
    return _difference([s.counters for s in there if s.counters is not None])


def over_window(series: Series, window: Window | None) -> Found:
    """Return the acceptance over a window of unix seconds; None with a flag where it cannot be
    told."""
    if not series or window is None:
        return None, ()
    start, end = window
    if _began_anew(series.snapshots[bisect_left(series.at, start) : bisect_right(series.at, end)]):
        return None, (RESTARTED,)
    if series.snapshots[0].counters is None:
        return None, ()
    if series.at[0] > start or series.at[-1] < end:
        return None, (_INCOMPLETE,)
    inside = series.snapshots[bisect_right(series.at, start) : bisect_left(series.at, end)]
    edges = [_at_edge(series, window, late=False), _at_edge(series, window, late=True)]
    counted = [edges[0], *(s.counters for s in inside), edges[1]]
    return _difference([c for c in counted if c is not None])


def samples_within(series: Series, window: Window | None) -> tuple[Sample, ...]:
    """Return every sampled value of a window, e.g. requests running and waiting."""
    if window is None:
        return ()
    chosen = slice(bisect_left(series.at, window[0]), bisect_right(series.at, window[1]))
    return tuple(
        Sample(at, name, value)
        for at, snapshot in zip(series.at[chosen], series.snapshots[chosen], strict=True)
        for name, value in snapshot.values.items()
    )


def _began_anew(snapshots: Sequence[Snapshot]) -> bool:
    """Return whether the server restarted: its counted tokens fell, also on a server that drafts
    nothing."""
    pairs = list(itertools.pairwise(snapshots))
    return any(
        after.values[name] < before.values[name] - 0.5
        for name in _TOTALS
        for before, after in pairs
        if name in before.values and name in after.values
    )


def _difference(counted: list[Counters]) -> Found:
    """Return the acceptance from the first to the last of counters in the order of time."""
    if len(counted) < 2:
        return None, ()
    if any(_fell(a, b) for a, b in zip(counted, counted[1:], strict=False)):
        return None, (RESTARTED,)
    found = from_counters(counted[0], counted[-1])
    return (None, (found,)) if isinstance(found, Flag) else (found, ())


def _fell(before: Counters, after: Counters) -> bool:
    totals = [f.name for f in fields(Counters) if f.name != "by_position"]
    if any(getattr(after, name) < getattr(before, name) - 0.5 for name in totals):
        return True
    pairs = zip(before.by_position, after.by_position, strict=False)
    return any(b < a - 0.5 for a, b in pairs)


def _at_edge(series: Series, window: Window, late: bool) -> Counters | None:
    edge = window[1] if late else window[0]
    after = min(bisect_left(series.at, edge), len(series.at) - 1)
    before = max(bisect_right(series.at, edge) - 1, 0)
    outer = after if late else before
    near = max(_NEAR_SECONDS, _NEAR_SHARE * (window[1] - window[0]))
    if abs(series.at[outer] - edge) <= near:
        return series.snapshots[outer].counters
    first, last = series.snapshots[before].counters, series.snapshots[after].counters
    if first is None or last is None or series.at[after] == series.at[before]:
        return first
    share = (edge - series.at[before]) / (series.at[after] - series.at[before])
    return _between(first, last, share)


def _between(first: Counters, last: Counters, share: float) -> Counters:
    def value(a: float, b: float) -> float:
        return float(round(a + share * (b - a)))

    return Counters(
        drafts=value(first.drafts, last.drafts),
        draft_tokens=value(first.draft_tokens, last.draft_tokens),
        accepted_tokens=value(first.accepted_tokens, last.accepted_tokens),
        by_position=tuple(
            value(a, b) for a, b in zip(first.by_position, last.by_position, strict=False)
        ),
    )
