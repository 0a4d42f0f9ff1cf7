"""The arm to take: a method, and its K at each load."""

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.choice.field import Field, Floats
from analysis.drafts.dynamic_k import MARGIN, DynamicTable, dynamic_table

#: The K of "draft nothing".
OFF = 0


@dataclass(frozen=True)
class Pick:
    """The choice of an arm. ``family``: the method taken; ``at``: at each load the place of its
    candidate, None where drafting nothing is expected to be better; ``fixed``: the place of the one
    candidate that is best over all loads; ``table``: its K by batch size, where they differ;
    ``worth``: the mean expected log gain over the loads."""

    family: str
    at: tuple[int | None, ...]
    fixed: int
    table: DynamicTable | None
    worth: float


def pick(
    field: Field,
    gains: Floats,
    batches: tuple[int | None, ...],
    allowed: NDArray[np.bool_],
    weights: Floats,
) -> Pick | None:
    """Return the method with the highest expected gain over the loads, and its K at each of them.

    ``gains`` as ``expected_gains``; ``batches``: the concurrency of each load, None for another
    kind, where K cannot follow the batch; ``allowed`` (candidates, loads): what meets the SLO;
    ``weights`` (loads,): how much each load counts. A change of K between two loads has to gain
    ``dynamic_k.MARGIN``. None where nothing is comparable or allowed anywhere.
    """
    found = [
        _of_family(field, places, np.where(allowed, gains, np.nan), batches, weights)
        for places in field.families().values()
    ]
    known = [one for one in found if one is not None]
    return max(known, key=lambda one: one.worth, default=None)


def _of_family(
    field: Field,
    places: list[int],
    gains: Floats,
    batches: tuple[int | None, ...],
    weights: Floats,
) -> Pick | None:
    own = gains[places]
    loads = np.flatnonzero(np.isfinite(own).any(axis=0))
    if not loads.size:
        return None
    # An arm that was not measured at a load can gain nothing there.
    means = (np.nan_to_num(own) * weights).sum(axis=1) / weights.sum()
    fixed = places[int(np.argmax(means))]
    named = all(field.candidates[place].k is not None for place in places)
    if not named or any(batches[load] is None for load in loads):
        return _one_for_all(field, fixed, gains, weights)
    table = dynamic_table(_candidates(field, places, gains, batches), MARGIN)
    if field.has_measured(table.entries):
        # What the table gives was measured as an arm of its own: that decides, and not what its
        # parts give one by one.
        return _one_for_all(field, fixed, gains, weights)
    by_k = {field.candidates[place].k: place for place in places}
    by_batch = dict(table.by_load)
    at = tuple(by_k.get(by_batch.get(batch if batch is not None else -1, OFF)) for batch in batches)
    kept = table if len(table.entries) > 1 else None
    return Pick(field.candidates[fixed].family, at, fixed, kept, _worth(gains, at, weights))


def _one_for_all(field: Field, place: int, gains: Floats, weights: Floats) -> Pick:
    """Return the pick of one candidate at every load where it is expected to gain."""
    at = tuple(place if gains[place, load] > 0 else None for load in range(gains.shape[1]))
    return Pick(field.candidates[place].family, at, place, None, _worth(gains, at, weights))


def _worth(gains: Floats, at: tuple[int | None, ...], weights: Floats) -> float:
    taken = [0.0 if p is None else float(np.nan_to_num(gains[p, x])) for x, p in enumerate(at)]
    return float((np.array(taken) * weights).sum() / weights.sum())


def _candidates(
    field: Field, places: list[int], gains: Floats, batches: tuple[int | None, ...]
) -> pd.DataFrame:
    rows = [
        (batch, k, worth)
        for load, batch in enumerate(batches)
        for k, worth in [(OFF, 1.0), *_worths(field, places, gains[:, load])]
    ]
    return pd.DataFrame(rows, columns=["concurrency", "k", "worth"])


def _worths(field: Field, places: list[int], gains: Floats) -> list[tuple[int, float]]:
    return [
        (field.candidates[place].k or OFF, float(np.exp(gains[place])))
        for place in places
        if np.isfinite(gains[place])
    ]
