"""Whether the right arm is taken at the operating load, on random studies whose best arm is known.

What a decision loses is held against the best that was measured beside the baseline at that load,
drafting nothing included. The goals are those that were set before the rule was written.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from analysis.evidence.words import GAIN
from answers.decide.values import ArmAtLoad, Decision
from tests.truth.choosing import Told, told
from tests.truth.figures import mean_printed
from tests.truth.random_studies import BOUND, FamilyName, random_studies
from tests.truth.row import Row, mean_at_most, share

#: Most studies of a family, however many trials the other modules have.
MOST: dict[FamilyName, int] = {"any": 1000, "crossovers": 1000, "any, rates": 1000}
#: Family -> mean loss, share that loses much.
GOALS: dict[FamilyName, tuple[float, float]] = {
    "any": (0.0025, 0.03), "crossovers": (0.0025, 0.03), "any, rates": (0.0015, 0.02),
}  # fmt: skip
MUCH, MAP_LOSS, FALSELY_NOTHING = 0.03, 0.003, 0.02
FALSE_GAIN, WRONG_YES, COVERED = 0.001, 0.005, (0.94, 0.97)
#: Power: the best arm gains at least so much at the operating load, noise at most so much.
GAINS, QUIET, LAUNCHES = 0.10, 0.03, 3
#: A yes is wrong where the server loses more than this at a load.
NOWHERE_WORSE = 0.03
#: What is within this share of the SLO's bound may be either side of it.
CLOSE = 0.03
_NOTHING = re.compile(r"drafting nothing is (expected to be )?best")


@dataclass(frozen=True)
class Group:
    """Decisions of a family on one kind of traffic."""

    family: FamilyName
    name: str
    found: Sequence[Told]

    def share(self, what: str, hits: Sequence[bool], *bounds: float | None) -> Iterator[Row]:
        """A row for the share of hits; none where nothing could have hit."""
        if hits:
            yield share(self.name, what, sum(hits), len(hits), *bounds)

    def mean(self, what: str, values: Sequence[float], limit: float | None) -> Iterator[Row]:
        if values and limit is not None:
            yield mean_at_most(self.name, what, values, limit)
        elif values:
            yield mean_printed(self.name, what, np.array(values))


def families() -> Iterator[FamilyName]:
    yield from MOST


def rows(trials: int, seed: int = 0) -> list[Row]:
    """All rows of the table."""
    return [row for family in families() for row in rows_of(family, trials, seed)]


def rows_of(family: FamilyName, trials: int, seed: int = 0) -> list[Row]:
    """The rows of a family; of *any* those of studies with so many requests at once, since those at
    rates have a row of their own, drawn from more of them."""
    drawn = random_studies(family, min(trials, MOST[family]), seed)
    found = list(told([one for one in drawn if one.rates == (family == "any, rates")], seed))
    return [row for group in groups(family, found) for rule in _RULES for row in rule(group)]


def groups(family: FamilyName, found: Sequence[Told]) -> Iterator[Group]:
    """Single datasets, then mixes."""
    name = "any, at once" if family == "any" else family
    yield Group(family, name, [one for one in found if not one.decision.traffic.mix])
    yield Group(family, f"{name}: mixes", [one for one in found if one.decision.traffic.mix])


def _losses(group: Group) -> Iterator[Row]:
    mean, much = GOALS[group.family]
    lost = [one.lost(one.decision, one.operating) for one in group.found]
    yield from group.mean("mean loss at the operating load", lost, mean)
    yield from group.share("loses > 3 % there", [x > MUCH for x in lost], much)


def _named(group: Group) -> Iterator[Row]:
    """The default decision against that of the same load when it is stated."""
    for what, same in _SAME.items():
        hits = [x.named is None or same(x.decision) != same(x.named) for x in group.found]
        yield from group.share(f"another {what} than --load of the same load", hits, 0.0)


_SAME: dict[str, Callable[[Decision], object]] = {
    "arm": lambda one: (one.arm, one.operating.num_speculative_tokens, one.table),
    "word": lambda one: one.operating.difference.word,
    "answer": lambda one: one.answer,
    "cost": lambda one: one.saving,
}


def _nothing(group: Group) -> Iterator[Row]:
    said = [one for one in group.found if _NOTHING.search(one.decision.paragraph)]
    hits = [np.expm1(one.best(one.operating)) > MUCH for one in said]
    what = '"drafting nothing is best", and an arm gains > 3 %'
    yield from group.share(what, hits, FALSELY_NOTHING)


def _maps(group: Group) -> Iterator[Row]:
    lost = [
        float(-np.expm1(one.named_by(level, load) - one.best(load)))
        for one in group.found
        for load in one.loads
        if (level := one.level(one.decision, load)) is not None and level.launches
    ]
    yield from group.mean("map: mean loss of what it names at each load", lost, MAP_LOSS)


def _arms_named(group: Group) -> Iterator[Row]:
    hits = [one.decision.operating_load == one.study.loads[one.operating] for one in group.found]
    yield from group.share("judged where the largest load can be compared", hits, None, 1.0)
    there = [one.level(one.decision, load) is not None for one in group.found for load in one.loads]
    yield from group.share("map: each load that can be compared stands there", there, None, 1.0)


def _power(group: Group) -> Iterator[Row]:
    hits = [one.decision.answer == "yes" for one in group.found if _clear(one)]
    yield from group.share("yes where the best arm gains ≥ 10 % and loses nowhere", hits, None, 0.9)


def _clear(one: Told) -> bool:
    """Whether the best arm gains much at the operating load and loses nowhere, with three launches
    and little noise."""
    at = one.operating
    arm = int(np.where(one.compared[:, at], one.truth[:, at], -np.inf).argmax())
    own = one.truth[arm][one.compared[arm]]
    quiet = one.study.noise <= QUIET and one.study.repeats == LAUNCHES
    return quiet and own.min() >= 0 and float(np.expm1(one.truth[arm, at])) >= GAINS


def _false_words(group: Group) -> Iterator[Row]:
    gains = [
        truth <= 0
        for one in group.found
        for cell, truth in _cells(one)
        if cell.difference.word == GAIN
    ]
    yield from group.share("gain, though there is none", gains, FALSE_GAIN)
    yes = [_wrong(one) for one in group.found if one.decision.answer == "yes"]
    yield from group.share("yes, though it loses", yes, WRONG_YES)


def _wrong(one: Told) -> bool:
    """Whether what is served truly loses at the operating load, or more than a yes allows
    elsewhere."""
    served = {load: np.expm1(one.served(one.decision, load)) for load in one.loads}
    return served[one.operating] <= 0 or min(served.values()) < -NOWHERE_WORSE


def _cells(one: Told) -> Iterator[tuple[ArmAtLoad, float]]:
    """Each arm at each load, with its true log gain."""
    for cell in one.decision.arms:
        load = one.study.loads.index(cell.load)
        yield cell, float(one.truth[one.place(cell.arm), load])


def _coverage(group: Group) -> Iterator[Row]:
    held = []
    for one in group.found:
        for cell, truth in _cells(one):
            told = cell.difference
            true = np.expm1(truth) if told.metric == "output_throughput" else -np.expm1(-truth)
            if told.low is not None and told.high is not None:
                held.append(bool(told.low <= true <= told.high))
    # The errors of a mix are added as if they erred together: its intervals are too wide.
    low, high = COVERED
    mixes = any(one.decision.traffic.mix for one in group.found)
    yield from group.share("plain intervals hold the truth", held, None if mixes else high, low)


def _with_slo(group: Group) -> Iterator[Row]:
    """The SLO is asked at the operating load: the best is the best of those that truly meet it."""
    lost, missed = [], []
    for one in (x for x in group.found if x.bound is not None and x.decision.traffic.dataset):
        at = one.operating
        pace = one.study.pace * np.exp(-one.truth[:, at]) / BOUND
        fits = (one.compared[:, at] | (np.arange(len(pace)) == 0)) & (pace <= 1 - CLOSE)
        taken = one.served(one.bound, at)
        missed.append(bool(one.study.pace * np.exp(-taken) / BOUND > 1 + CLOSE and fits.any()))
        if fits.any():
            lost.append(max(0.0, float(-np.expm1(taken - one.truth[fits, at].max()))))
    yield from group.mean("with an SLO: mean loss against the best that meets it", lost, None)
    yield from group.share("with an SLO: takes what misses it, and something meets it", missed)


def _unmeasured(group: Group) -> Iterator[Row]:
    """Halfway between the two largest loads, of what was measured at both: where one arm is truly best
    on both sides it should be taken; where they differ, which is best is open."""
    lost, wrong, silent = [], [], []
    for one in (x for x in group.found if x.between_value is not None and x.halfway is not None):
        level = one.halfway.operating
        silent.append(level.load.value != one.between_value)
        if silent[-1]:
            continue
        at = len(one.study.loads) - 2
        both = one.compared[:, at] & one.compared[:, at + 1]
        off = level.num_speculative_tokens == 0
        taken = 0.0 if off else float(one.between[one.place(level.arm), at])
        if len({_best_of(one, both, load) for load in (at, at + 1)}) == 1:
            best = max(0.0, float(one.between[both, at].max(initial=0.0)))
            lost.append(float(-np.expm1(taken - best)))
        if one.halfway.answer == "yes":
            wrong.append(taken <= 0)
    what = "between two loads, one arm best at both"
    yield from group.mean(f"{what}: mean loss", lost, None)
    yield from group.share("between two loads: told of another load", silent)
    yield from group.share("between two loads: yes, though it loses", wrong, WRONG_YES)


def _best_of(one: Told, arms: NDArray[np.bool_], load: int) -> int:
    """The place of the best of the arms at a load, 0 where drafting nothing is."""
    gains = np.where(arms, one.truth[:, load], -np.inf)
    gains[0] = 0.0
    return int(gains.argmax())


_RULES = (
    _losses, _named, _nothing, _maps, _arms_named, _power, _false_words, _coverage, _with_slo,
    _unmeasured,
)  # fmt: skip
