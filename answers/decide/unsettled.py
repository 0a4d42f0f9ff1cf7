"""What is still open: what is at stake, and how many launches would settle it."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from analysis.choice.judged import Judged
from analysis.choice.pick import at_stake, launches_needed, launches_until
from analysis.evidence.words import EQUIVALENCE, LIKELY_LOSS, LOSS, SETTLED
from answers.decide.shown import Shown
from answers.decide.values import Settle
from warehouse.loads import Load

#: A rival that may be better by less than this (ratio) is no open question.
WORTH_SAYING = EQUIVALENCE


@dataclass(frozen=True)
class Stake:
    """How much better a rival may be than what is taken. ``size``: by how much (ratio) one may beat
    it at the load that is spoken about, at most; None where nothing repeats. ``rivals``: the places
    of the arms that may be better by more than is worth saying, the best first."""

    rivals: tuple[int, ...]
    size: float | None
    names: tuple[str, ...] = ()


def stake_of(shown: Shown) -> Stake:
    """Return what is at stake at the load that is spoken about, among arms that may be taken there."""
    judged, at, mine = _spot(shown)
    if not judged.field.tails.known[:, at].any():
        return Stake((), None)
    size = np.expm1(at_stake(judged.field, judged.gains, at, mine))
    # Of an arm that is worse than the baseline nobody asks whether it is the best.
    lost = np.isin(judged.words[:, at].astype(str), [LOSS, LIKELY_LOSS])
    may = judged.grounds.open_to[:, at] & np.isfinite(size) & ~lost
    size = np.where(may, size, -1.0)
    order = [int(place) for place in np.argsort(-size) if size[place] > WORTH_SAYING]
    names = tuple(judged.field.candidates[place].label for place in order)
    return Stake(tuple(order), max(float(size.max(initial=0.0)), 0.0), names)


def _spot(shown: Shown) -> tuple[Judged, int, int | None]:
    """Return the arms at the load that is spoken about: the judgement, the place of the load, and
    the place of what is taken there (None: nothing)."""
    choice = shown.choice
    drafts = choice.server.arm is not None
    if choice.column is not None:
        return choice.column, 0, choice.row if drafts else None
    return choice.judged, choice.figures, choice.best if drafts else None


def to_settle(shown: Shown, stake: Stake) -> Iterator[Settle]:
    """Yield how many more launches would settle whether the arm pays at the load that is spoken
    about, which of the arms is better there, and whether it pays at the other loads at which the
    server drafts."""
    judged, at, mine = _spot(shown)
    if not judged.independent:
        return
    load = shown.choice.spot.load
    yield from _pays(
        judged, at, shown.choice.row if shown.choice.column else shown.choice.best, load
    )
    for rival in stake.rivals[:1]:
        if mine is None:
            break
        launches = launches_until(
            float(judged.gains[rival, at] - judged.gains[mine, at]), float(judged.field.variance[rival, at]),
            int(judged.field.launches[rival, at]), WORTH_SAYING,
        )  # fmt: skip
        if launches is not None:
            label = judged.field.candidates[mine].label
            yield Settle(load, label, launches, judged.field.candidates[rival].label)
    whole, here = shown.judged, {at for at, _ in shown.choice.spot.shares}
    for other, place in enumerate(shown.choice.server.at):
        if place is not None and other not in here and whole.there[place, other]:
            yield from _pays(whole, other, place, whole.loads[other])


def _pays(judged: Judged, at: int, place: int, load: Load) -> Iterator[Settle]:
    if judged.words[place, at] in SETTLED:
        return
    launches = launches_needed(
        float(judged.gains[place, at]), float(judged.field.variance[place, at]),
        int(judged.field.launches[place, at]), float(judged.rate[place, at]),
    )  # fmt: skip
    if launches is not None:
        yield Settle(load, judged.field.candidates[place].label, launches)
