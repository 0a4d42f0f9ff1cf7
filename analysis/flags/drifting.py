"""Whether acceptance or speed changes while a cell lasts: a doubt about long ones."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from analysis.evidence.drift import Drift, drift
from warehouse.rows import COMPLETED, Cell, Flag

Floats = NDArray[np.float64]
_ACCEPTED, _DRAFTED = (
    "spec_decode_num_accepted_tokens",
    "spec_decode_num_draft_tokens",
)


def drifting(cell: Cell) -> Iterator[Flag]:
    """Yield a flag for acceptance and one for the time per token, where they drift."""
    acceptance = _of_acceptance(cell)
    if acceptance is not None and acceptance.named:
        yield _flag("acceptance_drifts", "Acceptance", acceptance)
    speed = _of_time_per_token(cell)
    if speed is not None and speed.named:
        yield _flag("speed_drifts", "The time per output token (ITL)", speed)


def _flag(name: str, what: str, found: Drift) -> Flag:
    does = "falls" if found.per_hour < 0 else "rises"
    size = f"{abs(found.per_hour) * 100:.1f} %"
    low, high = sorted(abs(end) * 100 for end in (found.low, found.high))
    return Flag(
        name,
        "warning",
        f"{what} {does} by {size} an hour (95 %: {low:.1f} to {high:.1f} %) over {found.hours:.1f} h, "
        "so its mean says little of the hours that follow; see whether a restart brings it back.",
    )


def _of_acceptance(cell: Cell) -> Drift | None:
    """Return the drift of accepted over drafted tokens, between samples of the server's counters;
    where the server restarted, the counters start from there."""
    counters = [_counter(cell, name) for name in (_ACCEPTED, _DRAFTED)]
    if counters[0].shape != counters[1].shape or len(counters[0]) < 2:
        return None
    grown = [np.diff(values[:, 1]) for values in counters]
    kept = (grown[0] >= 0) & (grown[1] >= 0)
    at = counters[0][1:, 0]
    return drift(at[kept], grown[0][kept], grown[1][kept])


def _counter(cell: Cell, name: str) -> Floats:
    """Return the moments (unix s) and values of a counter, in order of time."""
    found = [(one.at, one.value) for one in cell.samples if one.name.removeprefix("vllm:") == name]
    return np.array(sorted(found), dtype=np.float64).reshape(-1, 2)


def _of_time_per_token(cell: Cell) -> Drift | None:
    """Return the drift of the milliseconds between a request's tokens, by when it began; each
    request weighs by its tokens."""
    if cell.requests is None or not cell.requests_complete:
        return None
    rows = cell.requests
    start, gap, tokens = (
        rows[name].to_numpy().astype(np.float64) for name in ("start", "itl", "output_tokens")
    )
    kept = (rows["status"].to_numpy() == COMPLETED) & rows["in_window"].to_numpy()
    kept &= np.isfinite(start) & np.isfinite(gap) & (tokens > 1)
    gaps = tokens[kept] - 1
    return drift(start[kept], gap[kept] * gaps, gaps)
