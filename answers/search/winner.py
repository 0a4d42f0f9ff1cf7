"""What a decided search would have one server do: one method, and its K at each load."""

import json
import zlib
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.drafts.dynamic_k import dynamic_table
from analysis.drafts.serve_line import speculative_config
from analysis.evidence.output_check import COLUMNS, TOKENS, Parting, parting, together
from analysis.search.belief import Belief
from analysis.search.space import BASELINE, Floats, Seen, Space, config_of, method_of
from answers.decide.words import k_by_batch
from answers.search.values import Out
from warehouse import queries
from warehouse.filters import Filters
from warehouse.store import Reader


def answering_otherwise(reader: Reader, study: str, baseline: str) -> tuple[Out, ...]:
    """Return the arms whose answers part from the baseline's more often than by rounding.

    Of every arm one cell of each dataset and load is read. Cells above temperature 0, answers that were
    not kept, and those of dummy weights, among which near ties are common, tell nothing.
    """
    cells = queries.cells(reader, Filters(study=(study,))).to_pandas()
    telling = (cells["temperature"] == 0) & (cells["evidence"] != "dummy_weights")
    greedy = cells[(cells["status"] == "good") & telling]
    rows = greedy.sort_values("started_at").astype({"cell_id": object})
    own = _own(reader, rows[rows["arm"] == baseline])
    found = {
        str(arm): together(_partings(reader, rows, baseline, str(arm)))
        for arm in rows["arm"].dropna().unique()
        if arm != baseline
    }
    return tuple(Out(arm, _words(one)) for arm, one in found.items() if one.is_other(own))


_AT = ["dataset", "concurrency"]


def _own(reader: Reader, baseline: pd.DataFrame) -> Parting:
    """Return how soon the first two launches of the baseline part, where there are two."""
    pairs = (rows["cell_id"].tolist()[:2] for _, rows in baseline.groupby(_AT))
    return together(_read(reader, *pair) for pair in pairs if len(pair) == 2)


def _partings(reader: Reader, rows: pd.DataFrame, baseline: str, arm: str) -> Iterator[Parting]:
    first = rows.drop_duplicates(["arm", *_AT])
    one, other = (first[first["arm"] == name][["cell_id", *_AT]] for name in (baseline, arm))
    for pair in one.merge(other, on=_AT)[["cell_id_x", "cell_id_y"]].itertuples(index=False):
        yield _read(reader, *pair)


def _read(reader: Reader, baseline: str, other: str) -> Parting:
    return parting(
        *(queries.requests(reader, cell, COLUMNS).to_pandas() for cell in (baseline, other))
    )


def _words(one: Parting) -> str:
    return (
        f"it does not answer as the baseline at temperature 0: {one.parted} of {one.texts} answers "
        f"differ, after {one.tokens / one.parted:.0f} tokens on average; rounding alone makes fewer than "
        f"one in {TOKENS} differ, and --any-outputs takes the arm all the same"
    )


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
