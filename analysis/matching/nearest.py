"""Nearest neighbours: in the fields that must be equal, and in time."""

import numpy as np
import pandas as pd
from numpy.typing import NDArray

Codes = NDArray[np.int64]

#: Distinct candidates compared one by one where none differs in a single column; beyond these a
#: nearer one may be missed, never a pair.
MOST = 256

#: Stands for an unknown time: later than any candidate, earlier than any seeker (unix seconds).
NEVER = 1e15


def nearest(codes: Codes, rows: Codes, candidates: Codes) -> Codes:
    """Return for each of ``rows`` the candidate row with the fewest differing columns; -1 for
    none."""
    if not rows.size or not candidates.size:
        return np.full(rows.size, -1, dtype=np.int64)
    if not codes.shape[1]:
        return np.full(rows.size, candidates[0], dtype=np.int64)
    distinct, back = np.unique(codes[rows], axis=0, return_inverse=True)
    kinds, first = np.unique(codes[candidates], axis=0, return_index=True)
    found = _one_column_off(distinct, kinds)
    left = np.flatnonzero(found < 0)
    found[left] = _fewest(distinct[left], kinds)
    return np.asarray(candidates[first[found[back.ravel()]]], dtype=np.int64)


def _one_column_off(wanted: Codes, kinds: Codes) -> Codes:
    """Return the kind that equals each row of ``wanted`` in all columns but one at most; -1 for
    none."""
    found = np.full(len(wanted), -1, dtype=np.int64)
    width = wanted.shape[1]
    weights = np.asarray(np.random.default_rng(0).integers(1, 2**62, size=width))
    with np.errstate(over="ignore"):
        here: Codes = np.asarray(wanted @ weights)
        there: Codes = np.asarray(kinds @ weights)
        for column in range(width):
            seek = here - wanted[:, column] * weights[column]
            keys = there - kinds[:, column] * weights[column]
            order = np.argsort(keys, kind="stable")
            at = np.searchsorted(keys[order], seek).clip(max=len(keys) - 1)
            # Sums can collide, so a hit is counted out before it is believed.
            hit = (kinds[order[at]] != wanted).sum(axis=1) <= 1
            found = np.where((found < 0) & hit, order[at], found)
    return found


def _fewest(wanted: Codes, kinds: Codes) -> Codes:
    spread = np.unique(np.linspace(0, len(kinds) - 1, min(MOST, len(kinds))).astype(np.int64))
    columns = np.ascontiguousarray(wanted.T.astype(np.int32))
    fewest = np.full(len(wanted), wanted.shape[1] + 1)
    found = np.zeros(len(wanted), dtype=np.int64)
    for at in spread.tolist():
        differing = (columns != kinds[at][:, None]).sum(axis=0)
        nearer = differing < fewest
        fewest[nearer], found[nearer] = differing[nearer], at
    return found


def nearest_in_time(seekers: pd.DataFrame, pool: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    """Return the row of ``pool`` nearest in time to each seeker, of those equal in ``by``.

    ``seekers``: row, at (unix seconds, NaN unknown) and ``by``; ``pool``: the same. Returns s and b
    (rows of the two) and tied (how many of the pool were equal in ``by``), for the seekers that
    found one. At one distance the earlier wins, at one time the lower row.
    """
    if seekers.empty or pool.empty:
        return pd.DataFrame({"s": [], "b": [], "tied": []}, dtype=np.int64)
    there = pool[[*by, "row", "at"]].rename(columns={"row": "b"})
    there["at"] = there["at"].fillna(NEVER)
    there["tied"] = there.groupby(by, dropna=False)["b"].transform("size")
    there = there.sort_values(["at", "b"]).drop_duplicates([*by, "at"])
    here = seekers[[*by, "row", "at"]].rename(columns={"row": "s"})
    here["at"] = here["at"].fillna(-NEVER)
    here = here.sort_values(["at", "s"])
    found = pd.merge_asof(here, there, on="at", by=by, direction="nearest").dropna(subset=["b"])
    return found[["s", "b", "tied"]].astype(np.int64)


def spread(chosen: pd.DataFrame, rows: pd.DataFrame, pool: pd.DataFrame) -> pd.DataFrame:
    """Return the choice with launches of one arm that all took one baseline spread over all of them.

    Where one arm ran after the other, the nearest baseline is one for all, and its own luck would
    stand against every launch. So as many baselines as there are launches, the nearest in time, are
    taken in the order of their starts. ``chosen`` as ``nearest_in_time`` returns it; ``rows``: key,
    arm, repeat (-1 unknown), study and at, a row per cell; ``pool``: key, row, at, repeat and study
    of baselines. Adds ``spread``: whether a pair was made so.
    """
    chosen = chosen.assign(spread=False)
    seekers = rows.iloc[chosen["s"].to_numpy()].reset_index(drop=True)
    taken = seekers.assign(b=chosen["b"], tied=chosen["tied"])
    taken = taken[(taken["tied"] > 1) & (taken["repeat"] == -1)]
    groups = taken.groupby(["key", "arm", "study"])["b"]
    crowded = taken[(groups.transform("size") > 1) & (groups.transform("nunique") == 1)]
    if crowded.empty:
        return chosen
    baselines = pool[pool["repeat"] == -1].drop_duplicates(["key", "row"])
    order = _in_turns(crowded, baselines.assign(at=baselines["at"].fillna(NEVER)))
    chosen.loc[order.index, "b"] = order
    chosen.loc[order.index, "spread"] = True
    return chosen


def _in_turns(launches: pd.DataFrame, baselines: pd.DataFrame) -> pd.Series:
    """Return the row of a baseline for each launch that has one to take, by the launch's index."""
    launches = launches.assign(at=launches["at"].fillna(-NEVER))
    groups = launches.groupby(["key", "arm", "study"])
    launches["group"] = groups.ngroup()
    about = groups.agg(group=("group", "first"), middle=("at", "median"), launches=("at", "size"))
    near = _nearest_to_groups(about.reset_index(), baselines)
    launches = launches.sort_values(["group", "at", "row"])
    launches["turn"] = launches.groupby("group").cumcount() % launches["group"].map(
        near.groupby("group").size()
    )
    turns = launches.reset_index().merge(near, on=["group", "turn"])
    return turns.set_index("index")["baseline"].astype(np.int64)


def _nearest_to_groups(groups: pd.DataFrame, baselines: pd.DataFrame) -> pd.DataFrame:
    """Return group, baseline (its row) and turn: of each group as many baselines as it has launches,
    those of its own study where there are any, in the order of their starts."""
    there = baselines[["key", "row", "at", "study"]].rename(columns={"row": "baseline"})
    found = groups.merge(there, on="key", suffixes=("", "_there"))
    own = found["study"] == found["study_there"]
    found = found[own | ~own.groupby(found["group"]).transform("any")]
    found["away"] = (found["at"] - found["middle"]).abs()
    found = found.sort_values(["group", "away", "baseline"])
    found = found[found.groupby("group").cumcount() < found["launches"]]
    found = found.sort_values(["group", "at", "baseline"])
    return found.assign(turn=found.groupby("group").cumcount())[["group", "baseline", "turn"]]
