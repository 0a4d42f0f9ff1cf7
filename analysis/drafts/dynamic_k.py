"""K by load as vLLM's table ``num_speculative_tokens_per_batch_size``: ``[[from, to, K], …]``.

vLLM looks K up anew in every step by the number of sequences in it, so a table that flips between
two K of equal worth costs more (other graphs, other lengths) than it gains. Hence hysteresis: of
all ways to give each measured load a K, the one with the largest sum of log values, where every
change of K is charged ``margin``; a change has to gain more than that.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import exp, floor, log

import pandas as pd

from warehouse.errors import InvalidInput

#: What a change of K between two loads has to gain.
MARGIN = 0.005
#: K may grow and fall with the load as often as it likes.
FREELY = 99
#: Prefers the smaller of K that are worth the same; far below anything measurable.
_SMALLER_FIRST = 1e-9

Entry = tuple[int, int, int]


@dataclass(frozen=True)
class DynamicTable:
    """K by batch size. ``entries``: (from, to, K), batch sizes included, from 1 on, without gaps;
    above the last, vLLM goes on with the last K. ``by_load``: the K of each measured load.
    ``largest``: the ``num_speculative_tokens`` that vLLM needs beside the table, 0 where nothing is
    drafted."""

    entries: tuple[Entry, ...]
    by_load: tuple[tuple[int, int], ...]

    @property
    def largest(self) -> int:
        return max(k for _, _, k in self.entries)


def dynamic_table(
    candidates: pd.DataFrame, margin: float = MARGIN, turns: int = FREELY
) -> DynamicTable:
    """Return the table for one arm's K on one dataset, in which K changes its direction at most
    ``turns`` times.

    ``candidates``: a row per load and K that may be chosen there: concurrency, k (0: no drafts),
    worth (above 0, higher is better; K that are tied have one worth). K = 0 is chosen only where it
    stands; where it does not, it is worth 1. A change of K is charged
    ``margin`` (0.01: one per cent). Raises InvalidInput for no candidates, a worth that is not
    above 0 or a margin below 0.
    """
    if candidates.empty or not (candidates["worth"] > 0).all() or margin < 0:
        raise InvalidInput(
            "A table of K by load needs a measured value above 0 for at least one K, and a margin "
            "of 0 or more."
        )
    # load -> K -> log worth, loads ascending
    scores: dict[int, dict[int, float]] = {}
    for row in candidates.sort_values(["concurrency", "k"]).itertuples():
        load, k, worth = int(str(row.concurrency)), int(str(row.k)), float(str(row.worth))
        scores.setdefault(load, {})[k] = log(worth)
    chosen = _choose(scores, margin, turns)
    return DynamicTable(_entries(scores, chosen), tuple(zip(scores, chosen, strict=True)))


def turns_of(ks: Sequence[int]) -> int:
    """Return how often these K change their direction: 0 where they only fall or only grow."""
    steps = [after > before for before, after in pairwise(ks) if after != before]
    return sum(one != other for one, other in pairwise(steps))


#: The K of a load, whether K grew in its last change (None: it never changed), and the turns so far.
_State = tuple[int, bool | None, int]


def _choose(scores: dict[int, dict[int, float]], margin: float, turns: int) -> list[int]:
    """Return the K of each load on the best path through all loads (Viterbi's algorithm)."""
    paths: dict[_State, tuple[float, list[int]]] = {}
    for place, at in enumerate(scores.values()):
        step: dict[_State, tuple[float, list[int]]] = {}
        for k, worth in at.items():
            own = worth - _SMALLER_FIRST * k
            if not place:
                step[k, None, 0] = (own, [k])
            for (before, grew, turned), (total, path) in paths.items():
                grows = grew if k == before else k > before
                now = turned + (k != before and grew is not None and grows != grew)
                value = total + own - (margin if k != before else 0.0)
                state = (k, grows, min(now, turns))
                if now <= turns and (state not in step or value > step[state][0]):
                    step[state] = (value, [*path, k])
        if not step:  # What was measured at these loads allows no path with so few turns.
            return _choose(scores, margin, turns + 1)
        paths = step
    return max(paths.values(), key=lambda one: one[0])[1]


def _entries(scores: dict[int, dict[int, float]], chosen: list[int]) -> tuple[Entry, ...]:
    """Return the table of the chosen K. The last batch size of each is where its worth and that of
    the next K cross, on a logarithmic scale of the load; halfway where they do not cross or one of
    them was not measured at both loads."""
    loads, entries, start = list(scores), [], 1
    for (low, k), (high, after) in pairwise(zip(loads, chosen, strict=True)):
        if after == k:
            continue
        worths = [{0: 0.0, **scores[load]} for load in (low, high)]
        gains = [at[k] - at[after] if {k, after} <= at.keys() else 0.0 for at in worths]
        share = gains[0] / (gains[0] - gains[1]) if gains[0] > 0 > gains[1] else 0.5
        # A crossing exactly at a load must not fall one short by rounding.
        crossing = floor(exp(log(low) + share * (log(high) - log(low))) + 1e-6)
        end = min(max(crossing, low), high - 1)
        entries.append((start, end, k))
        start = end + 1
    return (*entries, (start, max(loads[-1], start), chosen[-1]))
