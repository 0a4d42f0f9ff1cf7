"""What a draft achieved: rate = A/T, mean length = 1 + A/D, per position A_i/D.

D drafts, T drafted tokens, A accepted tokens, A_i accepted at position i (from 0).
"""

from collections.abc import Sequence
from dataclasses import dataclass

from warehouse.rows import Acceptance, AcceptanceSource, Flag

#: Two sources of one cell may differ by this much (a request at the edge of the load point).
TOLERANCE = 0.02


@dataclass(frozen=True)
class Counters:
    """vLLM's cumulative ``spec_decode`` counters at one moment, summed over engines."""

    drafts: float
    draft_tokens: float
    accepted_tokens: float
    by_position: tuple[float, ...] = ()


def from_counters(before: Counters, after: Counters) -> Acceptance | None:
    """Return the acceptance between two snapshots; None where a counter fell: the server
    restarted."""
    difference = _difference(before, after)
    counts = (difference.drafts, difference.draft_tokens, difference.accepted_tokens)
    if min(*counts, *difference.by_position) < 0:
        return None
    return _acceptance("counters", difference)


def from_requests(
    drafts: int, draft_tokens: int, accepted_tokens: int, by_position: Sequence[float] = ()
) -> Acceptance:
    """Pool acceptance over requests: from totals of steps and tokens, never as a mean of means.

    ``by_position`` holds accepted tokens at each position (counts).
    """
    counts = Counters(drafts, draft_tokens, accepted_tokens, tuple(by_position))
    return _acceptance("requests", counts)


def cross_check(sources: Sequence[Acceptance]) -> list[Flag]:
    """Return a flag for each source that disagrees with the first one by more than 2 %."""
    return [
        flag
        for other in sources[1:]
        for flag in (
            _disagreement("acceptance rate", sources[0], other),
            _disagreement("mean acceptance length", sources[0], other),
        )
        if flag is not None
    ]


def _difference(before: Counters, after: Counters) -> Counters:
    length = max(len(before.by_position), len(after.by_position))
    old = before.by_position + (0.0,) * (length - len(before.by_position))
    new = after.by_position + (0.0,) * (length - len(after.by_position))
    return Counters(
        after.drafts - before.drafts,
        after.draft_tokens - before.draft_tokens,
        after.accepted_tokens - before.accepted_tokens,
        tuple(b - a for a, b in zip(old, new, strict=True)),
    )


def _acceptance(source: AcceptanceSource, counts: Counters) -> Acceptance:
    drafts, drafted, accepted = counts.drafts, counts.draft_tokens, counts.accepted_tokens
    return Acceptance(
        source,
        int(drafts),
        int(drafted),
        int(accepted),
        accepted / drafted if drafted > 0 else None,
        1 + accepted / drafts if drafts > 0 else None,
        tuple(at / drafts for at in counts.by_position) if drafts > 0 else (),
    )


def _disagreement(what: str, one: Acceptance, other: Acceptance) -> Flag | None:
    a, b = (x.rate if what == "acceptance rate" else x.mean_length for x in (one, other))
    if a is None or b is None or abs(a - b) <= TOLERANCE * max(abs(a), abs(b)):
        return None
    return Flag(
        "acceptance_sources_disagree",
        "warning",
        f"The {what} is {a:.3f} by {one.source} but {b:.3f} by {other.source}.",
    )
