"""What a server that serves people counts while somebody watches, and whether its drafts are those that were measured.

From looks at its cumulative counters: growth since its last restart, added up over replicas, in blocks of
time. Length of a step L = 1 + A/D as everywhere. The lengths of two samples of drafts are compared on a
logarithmic scale:

    L now / L measured, with variance φ s²/D / L² of either side and Student's t

s² is what the accepted tokens of single drafts scatter by, told by the counts of each position:
E[a] = Σ r_i, E[a²] = Σ (2i - 1) r_i, where r_i of all drafts are accepted at position i. Drafts of one
request are alike, so φ, at least 1, is how much more the blocks scatter than single drafts would (as
quasi-binomial counts: McCullagh and Nelder 1989, chapter 4.5). The measured side is given the same φ, and
the scatter of its own cells where that is larger.
"""

from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass
from itertools import pairwise, zip_longest
from math import exp, log, sqrt

import numpy as np
from scipy.special import stdtrit

from analysis.drafts.acceptance import Counters, growth

#: A window is cut into so many blocks of equal time: enough to see their scatter, long enough for several
#: requests each.
BLOCKS = 12
#: Blocks with drafts, and drafts, without which nothing is said.
FEWEST_BLOCKS, FEWEST_DRAFTS = 4, 100
_LEVEL = 0.95

# --- Looks at the counters of one server, and what happened between them.


@dataclass(frozen=True)
class ServerLook:
    """What a server said at a moment (unix s): its counters of drafts (None: it has none), tokens generated
    and requests preempted since it started, requests that run and that wait in one of its engines."""

    at: float
    counters: Counters | None
    generated: float
    preempted: float
    running: float
    waiting: float

    @property
    def totals(self) -> tuple[float, ...]:
        """All that only grows while a server lives."""
        *sums, positions = astuple(self.counters or Counters(0, 0, 0))
        return (self.generated, self.preempted, *sums, *positions)


def since_restart(looks: Sequence[ServerLook]) -> tuple[Sequence[ServerLook], int]:
    """Return the looks since the server last restarted, and how often it did: a counter fell, or counters
    of drafts came or went."""
    starts = [
        at
        for at, (before, after) in enumerate(pairwise(looks), 1)
        if (before.counters is None) != (after.counters is None)
        or any(b < a - 0.5 for a, b in zip_longest(before.totals, after.totals, fillvalue=0.0))
    ]
    return looks[starts[-1] if starts else 0 :], len(starts)


def summed(counted: Iterable[Counters], weight: float = 1.0) -> Counters:
    """Return the sums of several counts, times a weight."""
    every = list(counted)
    positions = zip_longest(*(counts.by_position for counts in every), fillvalue=0.0)
    return Counters(
        weight * sum(counts.drafts for counts in every),
        weight * sum(counts.draft_tokens for counts in every),
        weight * sum(counts.accepted_tokens for counts in every),
        tuple(weight * sum(at) for at in positions),
    )


@dataclass(frozen=True)
class WatchedTraffic:
    """What the replicas of a server did in a window. ``restarts``: how often one restarted; of it only
    what came after the last one counts. ``blocks``: drafts by stretch of time, over all replicas;
    ``drafts_at_all``: whether they count drafts. ``in_flight``: requests in one replica, running and
    waiting, while a token was made, on average over the tokens; ``in_flight_most``: no more than so
    many for 19 of 20 tokens. ``waiting``: in one replica, on average over the looks."""

    seconds: float
    replicas: int
    restarts: int
    drafts_at_all: bool
    blocks: tuple[Counters, ...]
    generated: float
    in_flight: float
    in_flight_most: float
    waiting: float
    preempted: float

    @property
    def counted(self) -> Counters:
        """All drafts of the window."""
        return summed(self.blocks)

    @property
    def k(self) -> float | None:
        """Draft tokens of a draft, on average; None without drafts."""
        counted = self.counted
        return counted.draft_tokens / counted.drafts if counted.drafts > 0 else None

    @property
    def most(self) -> int:
        """Draft tokens that a draft can have: positions that the server counts."""
        return len(self.counted.by_position)


def watched(replicas: Sequence[Sequence[ServerLook]]) -> WatchedTraffic:
    """Return what the replicas did, of each its looks in the order of time."""
    kept = [since_restart(looks) for looks in replicas]
    steps = [step for looks, _ in kept for step in pairwise(looks)]
    every = [look for looks, _ in kept for look in looks]
    start, end = min(look.at for look in every), max(look.at for look in every)
    edges = np.linspace(start, end, BLOCKS + 1)[1:-1]
    grown: list[list[Counters]] = [[] for _ in range(BLOCKS)]
    for (a, b), block in zip(
        steps, np.searchsorted(edges, [(a.at + b.at) / 2 for a, b in steps]), strict=True
    ):
        if a.counters is not None and b.counters is not None:
            grown[block].append(growth(a.counters, b.counters))
    blocks = [summed(of_block) for of_block in grown]
    tokens = np.array([b.generated - a.generated for a, b in steps])
    # A token that was made had its own request in flight, whatever the two looks saw.
    load = [max(1.0, (a.running + a.waiting + b.running + b.waiting) / 2) for a, b in steps]
    order = np.argsort(load)
    share = np.cumsum(tokens[order]) / max(tokens.sum(), 1.0)
    most = min(int(np.searchsorted(share, _LEVEL)), len(load) - 1)
    return WatchedTraffic(
        seconds=end - start, replicas=len(kept), restarts=sum(times for _, times in kept),
        drafts_at_all=any(looks[-1].counters is not None for looks, _ in kept),
        blocks=tuple(block for block in blocks if block.drafts > 0), generated=float(tokens.sum()),
        in_flight=float(np.average(load, weights=tokens)) if tokens.sum() > 0 else 0.0,
        in_flight_most=float(load[order[most]]) if len(load) else 0.0,
        waiting=float(np.mean([look.waiting for look in every])),
        preempted=sum(b.preempted - a.preempted for a, b in steps),
    )  # fmt: skip


# --- The tokens of a step now against those that were measured.


def scaled(parts: Sequence[tuple[float, Sequence[Counters]]]) -> list[Counters]:
    """Return the counts of a mix, each part with its share of the output tokens (sum 1), as one: of no part
    more drafts than it has. Empty where one has none."""
    sums = [(share, summed(counted)) for share, counted in parts]
    if not all(one.drafts > 0 for _, one in sums):
        return []
    steps = [(share / (1 + one.accepted_tokens / one.drafts), one) for share, one in sums]
    most = min(one.drafts / step for step, one in steps)
    return [summed(summed([one], step * most / one.drafts) for step, one in steps)]


@dataclass(frozen=True)
class LengthChange:
    """The tokens of a step now and as measured, and their ratio with its 95 % interval."""

    now: float
    measured: float
    ratio: float
    low: float
    high: float

    @property
    def precise(self) -> float:
        """How far the interval reaches from the ratio (ratio)."""
        return self.high / self.ratio - 1


def length_change(now: Sequence[Counters], measured: Sequence[Counters]) -> LengthChange | None:
    """Hold the blocks of a window against the cells that were measured; None for too few of them, or too
    few drafts."""
    drafts = [summed(counted).drafts for counted in (now, measured)]
    if len(now) < FEWEST_BLOCKS or drafts[0] < FEWEST_DRAFTS or drafts[1] <= 0:
        return None
    lengths, plain, spread = zip(*map(_length, (now, measured)), strict=True)
    dispersion = max(1.0, spread[0] / plain[0])
    error = dispersion * plain[0] / lengths[0] ** 2
    error += max(dispersion * plain[1], spread[1]) / lengths[1] ** 2
    reach = float(stdtrit(len(now) - 1, (1 + _LEVEL) / 2)) * sqrt(error)
    ratio = log(lengths[0] / lengths[1])
    return LengthChange(lengths[0], lengths[1], exp(ratio), exp(ratio - reach), exp(ratio + reach))


def _length(counted: Sequence[Counters]) -> tuple[float, float, float]:
    """Return the tokens of a step, and the variance of that mean as single drafts tell it and as the
    scatter of several counts does."""
    every = summed(counted)
    mean = every.accepted_tokens / every.drafts
    if every.by_position:
        single = (
            sum((2 * at + 1) * n for at, n in enumerate(every.by_position)) / every.drafts - mean**2
        )
    else:  # A draft is taken to be accepted whole or not at all.
        single = mean * (every.draft_tokens / every.drafts - mean)
    missed = sum((one.accepted_tokens - mean * one.drafts) ** 2 for one in counted)
    several = len(counted) / max(len(counted) - 1, 1)
    spread = missed / every.drafts**2 * several if len(counted) > 1 else 0.0
    return 1 + mean, max(single, 1e-9) / every.drafts, spread
