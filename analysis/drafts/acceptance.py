"""What a draft achieved: rate = A/T, mean length = 1 + A/D, per position A_i/D.

D drafts, T drafted tokens, A accepted tokens, A_i accepted at position i (from 0).
"""

from collections.abc import Sequence
from dataclasses import astuple, dataclass
from itertools import product, zip_longest

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


def growth(before: Counters, after: Counters) -> Counters:
    """Return what was counted between two moments; below zero where a counter fell."""
    positions = zip_longest(before.by_position, after.by_position, fillvalue=0.0)
    return Counters(
        after.drafts - before.drafts,
        after.draft_tokens - before.draft_tokens,
        after.accepted_tokens - before.accepted_tokens,
        tuple(b - a for a, b in positions),
    )


def from_counters(before: Counters, after: Counters) -> Acceptance | None:
    """Return the acceptance between two snapshots; None where a counter fell: the server
    restarted."""
    grown = growth(before, after)
    *sums, positions = astuple(grown)
    return None if min(*sums, *positions) < 0 else _acceptance("counters", grown)


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
    flags = []
    for first, other in product(sources[:1], sources[1:]):
        for what, a, b in (
            ("acceptance rate", first.rate, other.rate),
            ("mean acceptance length", first.mean_length, other.mean_length),
        ):
            if a is None or b is None or abs(a - b) <= TOLERANCE * max(abs(a), abs(b)):
                continue
            sentence = f"The {what} is {a:.3f} by {first.source} but {b:.3f} by {other.source}."
            flags.append(Flag("acceptance_sources_disagree", "warning", sentence))
    return flags


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
