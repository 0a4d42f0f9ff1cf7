"""What a decided search would have one server do: one method, and its K at each load."""

import json
import zlib
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.drafts.dynamic_k import DynamicTable, dynamic_table
from analysis.drafts.serve_line import speculative_config
from analysis.search.belief import Belief
from analysis.search.space import BASELINE, Floats, Seen, Space


@dataclass(frozen=True)
class Winner:
    """``config``: the value of ``--speculative-config``, None where nothing is to be drafted;
    ``arms`` (places,): the arm of the search whose K it has at each place; ``like``: the name of one
    of them that drafts; ``words``: its K's."""

    config: str | None
    arms: NDArray[np.int64]
    like: str
    words: str

    @property
    def name(self) -> str:
        """What it is called as an arm of its own; it follows from what it is."""
        return f"winner-{zlib.crc32((self.config or '').encode()):08x}"


def winner(space: Space, seen: Seen, belief: Belief) -> Winner:
    """Return the method that is expected to be the fastest over all places, each counting alike, with
    the K of each load. A change of K between loads has to gain something (``dynamic_table``)."""
    places = len(space.places)
    best, found = 0.0, Winner(None, np.zeros(places, dtype=np.int64), "", "no drafts")
    for family, arms in space.families().items():
        able = [BASELINE, *(arm for arm in arms if arm not in seen.out)]
        table = dynamic_table(_candidates(space, belief.expected, able))
        at_load, of_k = dict(table.by_load), {space.arms[arm].k: arm for arm in able}
        taken = np.array([of_k[at_load[int(place.load)]] for place in space.places])
        gain = belief.expected[taken, np.arange(places)] - belief.expected[BASELINE]
        if table.largest and float(gain.mean()) > best:
            best = float(gain.mean())
            like = space.arms[int(taken.max())].label  # The baseline is 0.
            found = Winner(
                json.dumps(speculative_config({"speculative_config": family}, table)),
                taken,
                like,
                _words(table),
            )
    return found


def _candidates(space: Space, expected: Floats, arms: list[int]) -> pd.DataFrame:
    loads = np.array([place.load for place in space.places])
    gain = expected - expected[BASELINE]
    return pd.DataFrame(
        [
            {"concurrency": int(load), "k": space.arms[arm].k,
             "worth": float(np.exp(gain[arm, loads == load].mean()))}
            for load in np.unique(loads)
            for arm in arms
        ]
    )  # fmt: skip


def _words(table: DynamicTable) -> str:
    if len(table.entries) == 1:
        return f"K={table.largest}"
    *first, (start, _, k) = table.entries
    told = [f"K={k} in batches up to {end}" for _, end, k in first]
    return f"{', then '.join(told)}, then K={k} from {start} on"
