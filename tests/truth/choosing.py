"""What a decision takes, against the best that was measured: a random study with one traffic."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from answers.decide.answer import decide_on
from answers.decide.values import DecideQuestion, Decision, MapLevel
from answers.ground import Ground
from tests.truth.random_arms import k_at
from tests.truth.random_frames import ground_of_studies
from tests.truth.random_studies import BOUND, RandomStudy
from tests.truth.studies import Floats

#: Studies in one frame.
TOGETHER = 100
SLO = f"itl:p95<{BOUND * 1e3:g}ms"
#: One study in so many is asked with an SLO, and for a load between two.
SOME = 3


@dataclass(frozen=True)
class Told:
    """A decision and what is true of its study: ``truth``, ``between`` and ``measured`` (arms with the
    baseline first, loads) as in ``RandomStudy``, of its traffic. ``named``: the decision with its
    operating load stated; ``bound``: with an SLO beside it; ``halfway``: with a load between two."""

    study: RandomStudy
    decision: Decision
    truth: Floats
    between: Floats
    measured: NDArray[np.bool_]
    named: Decision | None = None
    bound: Decision | None = None
    halfway: Decision | None = None

    @cached_property
    def compared(self) -> NDArray[np.bool_]:
        """(arms with the baseline, loads): arms that were measured beside the baseline."""
        there = self.measured & self.measured[:1]
        return np.insert(there[1:], 0, False, axis=0)

    @cached_property
    def loads(self) -> list[int]:
        """The places of the loads at which anything can be compared."""
        return np.flatnonzero(self.compared.any(axis=0)).tolist()

    @property
    def operating(self) -> int:
        """The place of the largest load that the baseline and at least one arm measured."""
        return self.loads[-1]

    def value(self, load: int) -> float:
        return float(self.study.loads[load].value or 0)

    @property
    def between_value(self) -> float | None:
        """A load that nobody measured, halfway between the two largest neighbours that were."""
        one = len(self.study.loads) - 2
        if {one, one + 1} <= set(self.loads):
            return float(np.sqrt(self.value(one) * self.value(one + 1)))
        return None

    def best(self, load: int) -> float:
        """The log gain of the best that was measured at a load, drafting nothing included."""
        return max(0.0, float(self.truth[self.compared[:, load], load].max(initial=0.0)))

    def place(self, label: str) -> int:
        """The place of an arm of this name, the baseline's 0."""
        return self.study.labels.index(label)

    def level(self, one: Decision, load: int) -> MapLevel | None:
        return next((x for x in one.levels if x.load == self.study.loads[load]), None)

    def served(self, one: Decision, load: int) -> float:
        """The log gain of the server that a decision takes: by its map where that has the load, else
        by its table or its one arm."""
        level = self.level(one, load)
        if level is not None:
            told = level.served or level
            off = told.num_speculative_tokens == 0 or told.arm is None
            return 0.0 if off else float(self.truth[self.place(told.arm), load])
        if one.table:
            k = k_at(one.table, self.value(load))
            return float(self.truth[self.place(f"{one.method} K={k}"), load]) if k else 0.0
        return float(self.truth[self.place(one.arm), load])

    def named_by(self, level: MapLevel, load: int) -> float:
        """The log gain of what the map names at a load."""
        off = level.num_speculative_tokens == 0
        return 0.0 if off else float(self.truth[self.place(level.arm), load])

    def lost(self, one: Decision, load: int) -> float:
        """The share of the best speed that a decision loses at a load."""
        return float(-np.expm1(self.served(one, load) - self.best(load)))


def told(studies: Sequence[RandomStudy], seed: int = 0) -> Iterator[Told]:
    """Every decision on the studies, in order, with all that is asked of it."""
    for start in range(0, len(studies), TOGETHER):
        yield from _together(studies[start : start + TOGETHER], seed)


def _together(studies: Sequence[RandomStudy], seed: int) -> Iterator[Told]:
    known = ground_of_studies(studies, seed)
    by_name = {f"study-{one.name}": one for one in studies}
    found = [
        _with_truth(by_name[str(one.subject.study)], one)
        for one in decide_on(known, DecideQuestion()).decisions
    ]
    some = [one for one in found if int(one.study.name) % SOME == 0]
    named = _asked(known, found, lambda one: one.value(one.operating))
    bound = _asked(known, some, lambda one: one.value(one.operating), SLO)
    halfway = _asked(known, some, lambda one: one.between_value)
    for one in found:
        at = _key(one.decision)
        yield replace(one, named=named.get(at), bound=bound.get(at), halfway=halfway.get(at))


def _asked(
    known: Ground, found: Sequence[Told], value_of: Callable[[Told], float | None],
    slo: str | None = None,
) -> dict[tuple[str | None, str], Decision]:  # fmt: skip
    """The decisions with a load stated; decisions of one load are made together."""
    wanted = {_key(one.decision): value_of(one) for one in found}
    studies = known.cells["study"]
    answers = {}
    for value in sorted({one for one in wanted.values() if one is not None}):
        names = {study for (study, _), load in wanted.items() if load == value}
        mine = replace(known, shown=frozenset(known.cells["cell_id"][studies.isin(names)]))
        for one in decide_on(mine, DecideQuestion(load=value, slo=slo)).decisions:
            if wanted.get(_key(one)) == value:
                answers[_key(one)] = one
    return answers


def _key(one: Decision) -> tuple[str | None, str]:
    return one.subject.study, one.traffic.name


def _with_truth(study: RandomStudy, one: Decision) -> Told:
    """Of a mix the times of a token add up; the baseline's are the same on all datasets here."""
    shares = dict(one.traffic.mix) or {one.traffic.name: 1.0}
    places = [study.datasets.index(name) for name in shares]
    weights = np.array(list(shares.values()))[:, None, None]
    truth, between = (
        -np.log((weights * np.exp(-x[places])).sum(axis=0)) for x in (study.truth, study.between)
    )
    return Told(study, one, truth, between, study.measured[places].all(axis=0))
