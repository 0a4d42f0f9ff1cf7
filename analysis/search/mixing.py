"""Several datasets as one traffic: what is known of each, put together by its share.

As for a decision (``analysis.choice.judged.mixed``): the time of a token in the mix is the mean of the
datasets' times, each counting by its share of the output tokens.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from analysis.search.space import BASELINE, Floats, Launch, Lengths, Place, Seen, Space

NAME = "mix"


@dataclass(frozen=True)
class Mix:
    """``share``: dataset -> its share of the output tokens; they add up to 1. ``relative``: the times
    of the datasets count against the baseline's own, so that long answers do not count for more."""

    share: Mapping[str, float]
    relative: bool = False


def mixed(space: Space, seen: Seen, mix: Mix) -> tuple[Space, Seen]:
    """Return the space whose places are the loads that all datasets of the mix have, and what is known
    there. A launch that lacks a dataset says nothing of the mix at that load."""
    at = _places(space, mix)
    share = np.array(list(mix.share.values()))
    loads = tuple(Place(NAME, space.places[column[0]].load) for column in at.T)
    blend = Space(space.arms, loads, space.start_min, space.cell_min[at].sum(axis=0))
    level = _level(space, seen, mix)[at]
    launches = tuple(
        Launch(one.arm, -np.log(share @ np.exp(level - one.speed[at]))) for one in seen.launches
    )
    barred = None if seen.barred is None else np.asarray(seen.barred[:, at].any(axis=1))
    told = replace(seen, lengths=_lengths(seen.lengths, at, share), barred=barred)
    return blend, replace(told, launches=tuple(one for one in launches if one.measured.any()))


def unmixed(space: Space, mix: Mix, loads: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return the places (of the space with datasets) that a launch at some loads of the mix
    measures."""
    found = np.zeros(len(space.places), dtype=np.bool_)
    found[_places(space, mix)[:, loads].ravel()] = True
    return found


def _places(space: Space, mix: Mix) -> NDArray[np.int64]:
    """Return (datasets, loads): the numbers of the places."""
    at = {(place.traffic, place.load): number for number, place in enumerate(space.places)}
    loads = sorted({place.load for place in space.places})
    common = [load for load in loads if all((name, load) in at for name in mix.share)]
    return np.array([[at[name, load] for load in common] for name in mix.share], dtype=np.int64)


def _level(space: Space, seen: Seen, mix: Mix) -> Floats:
    """Return (places,): what speeds count against: the baseline's first ones, or nothing."""
    rows = [one.speed for one in seen.launches if one.arm == BASELINE]
    if not mix.relative or not rows:
        return np.zeros(len(space.places))
    first = np.isfinite(rows).argmax(axis=0)
    return np.asarray(np.take_along_axis(np.array(rows), first[None], axis=0)[0])


def _lengths(known: Lengths, at: NDArray[np.int64], share: Floats) -> Lengths:
    """Return the acceptance lengths of the mix: its steps are those of its datasets."""
    steps = share[:, None] / known.mean[:, at]
    every = steps.sum(axis=1)
    return Lengths(1 / every, (steps * known.doubt[:, at]).sum(axis=1) / every)
