"""What is still open: what is at stake, and how many launches would settle it."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from analysis.choice.stake import launches_needed, launches_until
from analysis.evidence.words import EQUIVALENCE, SETTLED
from answers.decide.shown import Shown
from answers.decide.values import Settle
from warehouse.loads import Load

#: A rival that may be better by less than this (ratio) is no open question.
WORTH_SAYING = EQUIVALENCE


@dataclass(frozen=True)
class Stake:
    """How much better a rival may be than the choice. ``size``: by how much (ratio) a rival may
    beat the choice at ``load``, the worst one, at most; None where nothing repeats. ``rivals``: the
    arms that may beat it there by more than is worth saying."""

    rivals: tuple[str, ...]
    size: float | None
    load: Load | None


def worst_stake(shown: Shown) -> Stake:
    """Return what is at stake at the load where that is most."""
    stake = shown.judged.stake(shown.picked.at)
    if not shown.judged.field.tails.known.any():
        return Stake((), None, None)
    known = np.where(np.isfinite(stake), stake, -1.0)
    at = int(np.argmax(known.max(axis=0)))
    names = [
        shown.judged.field.candidates[int(place)].label
        for place in np.argsort(-known[:, at])
        if float(known[place, at]) > WORTH_SAYING
    ]
    return Stake(tuple(names), max(float(known[:, at].max()), 0.0), shown.judged.loads[at])


def settle_words(shown: Shown) -> Iterator[Settle]:
    """Yield, for each load at which it is open whether the arm gains, how many more launches would
    settle it."""
    judged = shown.judged
    if not judged.independent:
        return
    for at, load in enumerate(judged.loads):
        place = shown.place_at(at)
        if judged.words[place, at] in SETTLED:
            continue
        launches = launches_needed(
            float(judged.gains[place, at]), float(judged.field.variance[place, at]),
            int(judged.field.launches[place, at]), float(judged.rate[place, at]),
        )  # fmt: skip
        if launches is not None:
            yield Settle(load, judged.field.candidates[place].label, launches)


def settle_rivals(shown: Shown, stake: Stake) -> Iterator[Settle]:
    """Yield, for each rival that may beat the choice, how many more launches of both it takes until
    no more is at stake than is worth saying."""
    if not stake.rivals or stake.load is None or not shown.judged.independent:
        return
    judged, at = shown.judged, shown.judged.loads.index(stake.load)
    labels = [one.label for one in judged.field.candidates]
    taken = shown.picked.at[at]
    best = 0.0 if taken is None else float(judged.gains[taken, at])
    for label in stake.rivals:
        place = labels.index(label)
        launches = launches_until(
            float(judged.gains[place, at]) - best, float(judged.field.variance[place, at]),
            int(judged.field.launches[place, at]), WORTH_SAYING,
        )  # fmt: skip
        if launches is not None:
            yield Settle(stake.load, label, launches)
