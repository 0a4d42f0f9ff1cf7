"""What fresh launches prove of the winner of a search: promised and proven gain, told apart."""

from dataclasses import replace

import numpy as np

from analysis.search.belief import believe
from analysis.search.proof import proof
from analysis.search.space import Arm, Floats, Launch
from answers.search.live import Live, Planned
from answers.search.measured import measured
from answers.search.values import Played, Proof, Proven
from warehouse.store_read import Reader

#: How often the winner and the baseline are launched.
LAUNCHES = 2


def study_of_proof(name: str) -> str:
    """The name of the study in which a search's winner is proven."""
    return f"{name}-proof"


def proven(reader: Reader, planned: Planned, now: Live) -> Played:
    """Return the search with what its proof says; without one as long as the proof is not whole."""
    known, taken = now.known, now.winner
    if known is None or taken is None or taken.config is None:
        return now.told
    space, seen = known
    arms = (space.arms[0], Arm(taken.name, "winner", 1))
    fresh = measured(reader, study_of_proof(planned.study), replace(space, arms=arms),
                     now.told.terms.latency)  # fmt: skip
    baseline, winner = (_whole(fresh.seen.launches, arm) for arm in (0, 1))
    if min(len(baseline), len(winner)) < LAUNCHES:
        return now.told
    found = proof(believe(space, seen), taken.arms, winner, baseline)
    lines = tuple(
        Proven(place.traffic, place.load, *(float(np.expm1(value[at])) for value in
               (found.promised, found.proven, found.low, found.high)))
        for at, place in enumerate(space.places)
    )  # fmt: skip
    return replace(now.told, proof=Proof(taken.config, taken.words,
                   found.kept(now.told.terms.stake), lines))  # fmt: skip


def _whole(launches: tuple[Launch, ...], arm: int) -> Floats:
    """(launches, places): those launches of an arm that measured every place."""
    rows = [one.speed for one in launches if one.arm == arm and one.measured.all()]
    return np.array(rows) if rows else np.empty((0, 0))
