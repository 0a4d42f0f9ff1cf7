"""K by load as vLLM's table ``num_speculative_tokens_per_batch_size``: ``[[from, to, K], …]``.

vLLM looks K up anew in every step by the number of sequences in it, so a table that flips between
two K of equal worth costs more (other graphs, other lengths) than it gains. Hence hysteresis: of
all ways to give each measured load a K, the one with the largest sum of log values, where every
change of K is charged ``margin``; a change has to gain more than that.
"""

from dataclasses import dataclass
from itertools import pairwise
from math import exp, floor, inf, log

import pandas as pd

from warehouse.errors import InvalidInput

#: What a change of K between two loads has to gain.
MARGIN = 0.005
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


def dynamic_table(candidates: pd.DataFrame, margin: float = MARGIN) -> DynamicTable:
    """Return the table for one arm's K on one dataset.

    ``candidates``: a row per load and K that may be chosen there: concurrency, k (0: no drafts),
    worth (above 0, higher is better; K that are tied have one worth). A change of K is charged
    ``margin`` (0.01: one per cent). Raises InvalidInput for no candidates, a worth that is not
    above 0 or a margin below 0.
    """
    if candidates.empty or not (candidates["worth"] > 0).all() or margin < 0:
        raise InvalidInput(
            "A table of K by load needs a measured value above 0 for at least one K, and a margin "
            "of 0 or more."
        )
    scores = _scores(candidates)
    chosen = _choose(scores, margin)
    return DynamicTable(_entries(scores, chosen), tuple(zip(scores, chosen, strict=True)))


def _scores(candidates: pd.DataFrame) -> dict[int, dict[int, float]]:
    """Return load -> K -> log worth, loads ascending."""
    scores: dict[int, dict[int, float]] = {}
    for row in candidates.sort_values(["concurrency", "k"]).itertuples():
        load, k, worth = int(str(row.concurrency)), int(str(row.k)), float(str(row.worth))
        scores.setdefault(load, {})[k] = log(worth)
    return scores


def _choose(scores: dict[int, dict[int, float]], margin: float) -> list[int]:
    """Return the K of each load on the best path through all loads (Viterbi's algorithm)."""
    ks = sorted({k for at in scores.values() for k in at})
    totals, came_from = dict.fromkeys(ks, 0.0), []
    for at in scores.values():
        step = {}
        for k in ks:
            stay = {j: totals[j] - (margin if j != k else 0.0) for j in ks}
            before = max(stay, key=lambda j: (stay[j], j == k))
            step[k] = (stay[before] + at.get(k, -inf) - _SMALLER_FIRST * k, before)
        totals = {k: value for k, (value, _) in step.items()}
        came_from.append({k: before for k, (_, before) in step.items()})
    last = max(ks, key=lambda k: totals[k])
    path = [last]
    for previous in reversed(came_from[1:]):
        path.append(previous[path[-1]])
    return path[::-1]


def _entries(scores: dict[int, dict[int, float]], chosen: list[int]) -> tuple[Entry, ...]:
    loads, entries, start = list(scores), [], 1
    for (load, k), (after, next_k) in pairwise(zip(loads, chosen, strict=True)):
        if next_k != k:
            end = _boundary((load, after), (scores[load], scores[after]), (k, next_k))
            entries.append((start, end, k))
            start = end + 1
    return (*entries, (start, max(loads[-1], start), chosen[-1]))


def _boundary(
    loads: tuple[int, int],
    scores: tuple[dict[int, float], dict[int, float]],
    ks: tuple[int, int],
) -> int:
    """Return the last batch size for the first K: where the worths of the two K cross, on a
    logarithmic scale of the load.

    Halfway where they do not cross or one of them was not measured at both loads.
    """
    gains = [at[ks[0]] - at[ks[1]] if set(ks) <= at.keys() else 0.0 for at in scores]
    crosses = gains[0] > 0 > gains[1]
    share = gains[0] / (gains[0] - gains[1]) if crosses else 0.5
    low, high = loads
    # A crossing exactly at a load must not fall one short by rounding.
    found = floor(exp(log(low) + share * (log(high) - log(low))) + 1e-6)
    return min(max(found, low), high - 1)
