"""What a decided search would have one server do: one method, and its K at each load."""

import json
import zlib
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.drafts.dynamic_k import dynamic_table
from analysis.drafts.serve_line import speculative_config
from analysis.search.belief import Belief
from analysis.search.family import config_of, method_of
from analysis.search.space import BASELINE, Floats, Seen, Space
from answers.decide.words import k_by_batch


@dataclass(frozen=True)
class Winner:
    """A configuration of a server. ``config``: the value of ``--speculative-config``, None where nothing
    is to be drafted; ``arms`` (places,): the arm of the search that it is at each place; ``like``: the
    name of one of these that drafts; ``words``: its K, or the K of each load, and its method where there are several; ``role``: winner or
    runner-up."""

    config: str | None
    arms: NDArray[np.int64]
    like: str
    words: str
    role: str = "winner"

    @property
    def name(self) -> str:
        """What it is called as an arm of its own; it follows from what it is."""
        return f"{self.role}-{zlib.crc32(f'{self.like} {self.config}'.encode()):08x}"


def winner(space: Space, seen: Seen, belief: Belief) -> Winner:
    """Return the method that is expected to be the fastest over all places, each counting alike, with
    the K of each load. A change of K between loads has to gain something (``dynamic_table``)."""
    best, found = 0.0, Winner(None, np.zeros(len(space.places), dtype=np.int64), "", "no drafts")
    for family, arms in space.families().items():
        able = [BASELINE, *(arm for arm in arms if arm not in seen.out)]
        one = _served((space, seen, belief), family, able, "winner")
        if one is not None and (gain := _gain(belief, one.arms)) > best:
            best, found = gain, one
    return found


def runner_up(space: Space, seen: Seen, belief: Belief, best: Winner) -> Winner | None:
    """Return what would have been served without the winner: the single arm that is expected to be
    the fastest over all places, with its one K; None without another."""
    known = (space, seen, belief)
    found: list[Winner] = []
    for family, arms in space.families().items():
        able = (arm for arm in arms if not seen.shut[arm].any())
        found += [x for arm in able if (x := _served(known, family, [arm], "runner-up"))]
    others = [one for one in found if not np.array_equal(one.arms, best.arms)]
    return max(others, key=lambda one: _gain(belief, one.arms), default=None)


def _gain(belief: Belief, arms: NDArray[np.int64]) -> float:
    places = np.arange(len(arms))
    return float((belief.expected[arms, places] - belief.expected[BASELINE]).mean())


def _served(
    known: tuple[Space, Seen, Belief], family: str, able: list[int], role: str
) -> Winner | None:
    """Return a method with the K of each load, of those arms; None where nothing is drafted."""
    space, seen, belief = known
    table = dynamic_table(_candidates(space, belief.expected, seen.shut, able))
    if not table.largest:
        return None
    at_load, of_k = dict(table.by_load), {space.arms[arm].k: arm for arm in able}
    taken = np.array([of_k[at_load[int(place.load)]] for place in space.places])
    words = f"K={table.largest}" if len(table.entries) == 1 else k_by_batch(table.entries)
    like = space.arms[int(taken.max())].label
    methods = [method_of(one) for one in space.families()]
    if len(methods) > 1:
        # Of two arms of one method only their names tell which is meant.
        mine = method_of(family)
        words = f"{mine if methods.count(mine) == 1 else like}: {words}"
    config = json.dumps(speculative_config({"speculative_config": config_of(family)}, table))
    return Winner(config, taken, like, words, role)


def _candidates(
    space: Space, expected: Floats, shut: NDArray[np.bool_], arms: list[int]
) -> pd.DataFrame:
    """Return what may be chosen at each load; the first of the arms where none may."""
    loads = np.array([place.load for place in space.places])
    gain = expected - expected[BASELINE]
    return pd.DataFrame(
        [
            {"concurrency": int(load), "k": space.arms[arm].k,
             "worth": float(np.exp(gain[arm, loads == load].mean()))}
            for load in np.unique(loads)
            for arm in ([x for x in arms if not shut[x, loads == load].any()] or arms[:1])
        ]
    )  # fmt: skip
