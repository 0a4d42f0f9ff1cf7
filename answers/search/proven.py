"""What fresh launches prove of the winner of a search: promised and proven gain, told apart."""

from dataclasses import dataclass, replace

import numpy as np

from analysis.search.belief import believe
from analysis.search.proof import Proof as Told
from analysis.search.proof import proof
from analysis.search.space import Arm, Floats, Launch, Space
from answers.decide.answer import decide
from answers.decide.overview import overviews
from answers.decide.words import brief
from answers.search.found import of_traffic
from answers.search.live import Live, Planned, bare
from answers.search.measured import measured
from answers.search.values import Out, Played, Proof, ProofAnswer, Proven, Terms
from warehouse.filters import Filters
from warehouse.store import Reader

#: How often the winner, the runner-up and the baseline are launched.
LAUNCHES = 2
#: Answers, those that say the least for drafting first.
_RISING = ("no", "open", "at some loads", "yes")


def proven(
    reader: Reader, planned: Planned, now: Live, study: str, refused: tuple[Out, ...] = ()
) -> Played:
    """Return the search with what its proof says; without one as long as the launches of the winner or
    of the baseline are not whole. A runner-up whose launches are not is compared with nothing.

    ``study``: the name of the proof's; ``refused``: arms of the proof whose answers keep them from being
    taken.
    """
    known, taken, rival = now.known, now.winner, now.rival
    if known is None or taken is None or taken.config is None:
        return now.told
    baseline, winner, *others = _fresh(reader, planned, now, study)
    if min(len(baseline), len(winner)) < LAUNCHES:
        return now.told
    stake, belief = now.told.terms.stake, believe(*known)
    found = proof(belief, taken.arms, (winner, baseline), stake)
    beside = None if rival is None or len(others[0]) < LAUNCHES else (
        proof(belief, taken.arms, (winner, others[0]), stake, rival.arms)
    )  # fmt: skip
    both = [one for one in (found, beside) if one is not None]
    tests = len(both) * len(taken.arms)
    decided = _decided(reader, study, now.told.terms)
    more = decided.more if decided.answer == "open" else None
    told = Proof(
        taken.config, taken.words, all(one.kept(tests) for one in both),
        decided.answer, decided.words, decided.paste,
        _lines(known[0], found), None if rival is None else rival.words,
        () if beside is None else _lines(known[0], beside),
        next((one.why for one in refused if one.arm == taken.name), None),
        study, None if more is None else min(len(baseline), len(winner)) + more,
    )  # fmt: skip
    return replace(now.told, proof=told)


@dataclass(frozen=True)
class _Decided:
    """``more``: launches of each arm that would settle what is open, None where nobody can tell."""

    answer: ProofAnswer
    words: str
    paste: str | None = None
    more: int | None = None


def _decided(reader: Reader, study: str, terms: Terms) -> _Decided:
    """Return the decision on the study of the proof, as every page takes it: on the mix, on the only
    dataset, or on each where they cannot be mixed. The answer for all is the one that says the least
    for drafting."""
    found = decide(reader, terms.question(Filters(study=(study,))))
    if not found.decisions:
        return _Decided("none", found.why_none or "")
    (one, *_) = overviews(found.decisions)
    alone = len(one.leads) == 1
    told = (brief(lead) if alone else f"{one.place(lead)}: {brief(lead)}" for lead in one.leads)
    configs = {lead.config for lead in one.leads}
    return _Decided(
        min((lead.answer for lead in one.leads), key=_RISING.index), " ".join(told),
        configs.pop() if len(configs) == 1 else None,
        max((needed.launches for lead in one.leads for needed in lead.settle), default=None),
    )  # fmt: skip


def _fresh(reader: Reader, planned: Planned, now: Live, study: str) -> list[Floats]:
    """Return the launches (launches, places) of the baseline, of the winner, and of the runner-up where
    there is one."""
    ones = [one for one in (now.winner, now.rival) if one is not None]
    space, terms = bare(planned), now.told.terms
    arms = (space.arms[0], *(Arm(one.name, one.role, 1) for one in ones))
    fresh = measured(reader, study, replace(space, arms=arms), terms)
    _, seen = of_traffic(fresh.space, fresh.seen, terms)
    return [_whole(seen.launches, arm) for arm in range(len(arms))]


def _lines(space: Space, found: Told) -> tuple[Proven, ...]:
    return tuple(
        Proven(
            place.traffic, place.load, *found.promised.ratios(at), *found.proven.ratios(at),
            float(found.surprise[at]),
        )
        for at, place in enumerate(space.places)
    )  # fmt: skip


def _whole(launches: tuple[Launch, ...], arm: int) -> Floats:
    """(launches, places): those launches of an arm that measured every place."""
    rows = [one.speed for one in launches if one.arm == arm and one.measured.all()]
    return np.array(rows) if rows else np.empty((0, 0))
