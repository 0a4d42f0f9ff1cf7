"""What makes a cell broken rather than doubtful: numbers that cannot be true. Those are rejected."""

import math
from collections.abc import Iterator

import pyarrow.compute as pc

from warehouse.errors import InvalidInput
from warehouse.rows import Acceptance, Cell

_LATENCIES = ("ttft", "itl", "tpot", "request_latency")
#: Two readings of one clock may differ by its resolution.
_CLOCK = 1e-6


def require_storable(cell: Cell) -> None:
    """Raises InvalidInput with the first impossible number of the cell."""
    for wrong in _impossible(cell):
        raise InvalidInput(
            f"Benchmark {cell.index} of this report has {wrong}, which cannot be; the file was "
            "altered or its clock jumped, so measure it again."
        )


def _impossible(cell: Cell) -> Iterator[str]:
    if cell.duration is not None and not 0 <= cell.duration < math.inf:
        yield f"a duration of {cell.duration:g} s"
    for name in ("requests_made", "completed", "errored", "incomplete"):
        if (getattr(cell, name) or 0) < 0:
            yield f"{getattr(cell, name)} requests {name.removeprefix('requests_')}"
    for acceptance in cell.acceptance:
        yield from _impossible_acceptance(acceptance)
    yield from _impossible_requests(cell)


def _impossible_acceptance(a: Acceptance) -> Iterator[str]:
    ratios = [r for r in (a.rate, *a.by_position) if r is not None]
    if any(not 0 <= ratio <= 1 for ratio in ratios):
        yield "an acceptance rate outside 0 to 1"
    if any((count or 0) < 0 for count in (a.drafts, a.draft_tokens, a.accepted_tokens)):
        yield "a negative count of draft tokens"
    if a.mean_length is not None and not 1 <= a.mean_length < math.inf:
        yield f"a mean acceptance length of {a.mean_length:g}"


def _impossible_requests(cell: Cell) -> Iterator[str]:
    if cell.requests is None:
        return
    for name in _LATENCIES:
        lowest = pc.min(cell.requests.column(name)).as_py()
        if lowest is not None and lowest < -_CLOCK:
            yield f"a request with a negative {name} ({lowest:g})"
