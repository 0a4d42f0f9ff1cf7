"""The arm to take at the load that is spoken about, and what its server does at every other load.

The rule: of the arms measured at that load and of drafting nothing (value 0), the one with the highest
expected value is taken; among arms within TIE of it, the one with the highest mean over the other
loads (an arm gains nothing where it was not measured), then the smaller K, then the name. Its server
drafts by a table of K at the other loads where K can follow the load and something is settled.
"""

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import stdtrit

from analysis.choice.expected import Field, Floats
from analysis.drafts.dynamic_k import MARGIN, DynamicTable, dynamic_table, turns_of

# --- What is lost if the choice is wrong, and how many launches would tell.


#: The chance that a rival is better by more than what is at stake.
CHANCE = 0.05
#: More launches than this are not advised: look into the noise instead.
MOST_LAUNCHES = 20


def at_stake(field: Field, gains: Floats, load: int, place: int | None) -> Floats:
    """Return (candidates,): by how much (log ratio) each may beat what is taken at a load, at most.

    ``gains`` as ``expected_gains``; ``place``: of the candidate taken, None for the baseline. The
    chance that a rival is better by more is CHANCE. Below zero: settled in favour of what is taken,
    as it itself is. NaN where nothing repeats.
    """
    own = field.own_error[:, load]
    # What is taken errs as well; the baseline is taken to err as much as its rival.
    error = np.sqrt(own + (own if place is None else own[place]))
    # ``reach`` leaves half its rate on each side; only one side counts here.
    reach = field.tails.at((slice(None), load)).reach(2 * CHANCE) * error
    stake = gains[:, load] - (0.0 if place is None else gains[place, load]) + reach
    return stake if place is None else np.where(np.arange(len(stake)) == place, -np.inf, stake)


def launches_needed(size: float, variance: float, launches: int, rate: float) -> int | None:
    """Return how many more launches of both arms would settle a difference that is as large as it
    looks.

    ``size``: log ratio; ``variance``: of one launch's value; ``launches``: there are of each;
    ``rate``: error rate of the adjusted interval. None for more than MOST_LAUNCHES, or where the
    variance is unknown. Degrees of freedom are those of two arms alone, so the advice is careful.
    """
    return _launches(variance, launches, 1 - rate / 2, abs(size))


def launches_until(behind: float, variance: float, launches: int, most: float) -> int | None:
    """Return how many more launches of two arms it takes until the one behind is at most ``most``
    (ratio) better.

    ``behind``: its expected log ratio to the other, below or at zero. None for more than
    MOST_LAUNCHES, or where the variance is unknown.
    """
    return _launches(variance, launches, 1 - CHANCE, np.log1p(most) - behind)


def _launches(variance: float, launches: int, level: float, size: float) -> int | None:
    """Return how many more launches bring the reach of an interval at ``level`` below ``size``."""
    if not (np.isfinite(variance) and variance > 0):
        return None
    for more in range(1, MOST_LAUNCHES + 1):
        total = launches + more
        reach = float(stdtrit(2 * (total - 1), level)) * np.sqrt(2 * variance / total)
        if reach < size:
            return more
    return None


# --- The arm to take at the load that is spoken about, and what its server does at every other load.


#: The K of "draft nothing".
OFF = 0
#: Arms whose value (ratio) is so close to the best one's are as good.
TIE = 0.005

Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class Server:
    """What one server does. ``arm``: the place of the arm taken, None where nothing is drafted at
    all; ``at``: the place of the arm that it is at each load, None where it drafts nothing there;
    ``table``: its K by batch size, where they differ."""

    arm: int | None
    at: tuple[int | None, ...]
    table: DynamicTable | None = None


@dataclass(frozen=True)
class Grounds:
    """What the choice stands on. ``gains``: expected log ratios (candidates, loads), NaN where not
    measured; ``open_to`` (candidates, loads): arms that may be taken there; ``baseline`` (loads,):
    whether drafting nothing may; ``settled`` (candidates, loads): differences from the baseline that are settled; ``batches``:
    the concurrency of each load, None where K cannot follow the batch; ``off`` (candidates,):
    whether an arm's server with its drafts switched off is the baseline's."""

    field: Field
    gains: Floats
    open_to: Flags
    baseline: Flags
    settled: Flags
    batches: tuple[int | None, ...]
    off: Flags


def taken(grounds: Grounds, load: int) -> int | None:
    """Return the place of the arm to take at a load; None where drafting nothing is better, or no
    arm may be taken there."""
    others = np.delete(np.nan_to_num(grounds.gains), load, axis=1)
    means = others.mean(axis=1) if others.shape[1] else np.zeros(len(others))
    values = np.where(grounds.open_to[:, load], grounds.gains[:, load], np.nan)
    return best_of(grounds.field, values, means, bool(grounds.baseline[load]))


def best_of(field: Field, values: Floats, means: Floats, nothing: bool) -> int | None:
    """Return the place of the highest of ``values`` (candidates,), NaN where there is none; None
    where no arm has one or, if ``nothing`` may be drafted, none is above zero. ``means``: what
    decides among those within TIE."""
    known = np.isfinite(values) & ((values > 0) | (not nothing))
    if not known.any():
        return None
    near = known & (values >= values[known].max() - np.log1p(TIE))
    candidates = field.candidates
    return int(min(
        np.flatnonzero(near),
        key=lambda p: (-means[p], candidates[p].k or 0, candidates[p].label),
    ))  # fmt: skip


def served(grounds: Grounds, arm: int | None, pinned: int | None = None) -> Server:
    """Return the server of an arm: at every load the same where K is not fixed or cannot follow the
    load, else by a table of the K of its method.

    A load at which nothing of the method was measured gets the K of its neighbours; nothing is
    drafted at a load only where the method was measured there and is expected to lose. ``pinned``:
    a load at which the arm is taken as it is.
    """
    loads = len(grounds.batches)
    if arm is None:
        return Server(None, (None,) * loads)
    alone = Server(arm, (arm,) * loads)
    places = [p for p in grounds.field.families()[grounds.field.candidates[arm].family]
              if grounds.open_to[p].any() or p == arm]  # fmt: skip
    able = (
        all(grounds.field.candidates[p].k is not None for p in places)
        and None not in grounds.batches
    )
    if not able or not grounds.settled[places].any():
        return alone
    table = _table(grounds, places, {} if pinned is None else {pinned: arm})
    if len(table.entries) < 2 or grounds.field.has_measured(table.entries):
        # What the table gives was measured as an arm of its own: that is a candidate itself.
        return alone
    by_k = {grounds.field.candidates[p].k: p for p in places}
    entries = table.entries
    ks = [
        next((k for _, end, k in entries if (batch or 1) <= end), entries[-1][2])
        for batch in grounds.batches
    ]
    return Server(arm, tuple(by_k.get(k) for k in ks), table)


def _table(grounds: Grounds, places: list[int], pinned: dict[int, int]) -> DynamicTable:
    """Return the table of the K of these arms; one that changes its direction more than once only
    where each change is settled. ``pinned``: load -> the arm that is taken there."""
    candidates, rows = grounds.field.candidates, []
    for load, batch in enumerate(grounds.batches):
        taken_here = [pinned[load]] if load in pinned else places
        there = [
            (batch, candidates[p].k or OFF, float(np.exp(grounds.gains[p, load])))
            for p in taken_here
            if np.isfinite(grounds.gains[p, load]) and (grounds.open_to[p, load] or load in pinned)
        ]
        off = bool(grounds.off[places].all() and grounds.baseline[load]) and load not in pinned
        if off and there and max(worth for _, _, worth in there) < 1:
            rows.append((batch, OFF, 1.0))
        rows += there
    worths = pd.DataFrame(rows, columns=["concurrency", "k", "worth"])
    free = dynamic_table(worths, MARGIN)
    by_k = {candidates[p].k: p for p in places}
    load_of = {batch: load for load, batch in enumerate(grounds.batches)}
    settled = all(
        grounds.settled[[by_k[k]] if k in by_k else places, load_of[batch]].any()
        for batch, k in free.by_load
    )
    few = settled or turns_of([k for _, k in free.by_load]) < 2
    return free if few else dynamic_table(worths, MARGIN, 1)
