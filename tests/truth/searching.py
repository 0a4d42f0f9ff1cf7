"""Searches on generated servers: how often a winner is wrong, what deciding costs, what is proven."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from analysis.search.belief import acceptance_lengths
from analysis.search.proof import proof
from analysis.search.race import UNLIKELY, End, SearchState, spent, state
from analysis.search.space import Aim, MeasuredLaunch, SearchArm, SearchPlace, SeenLaunches, Space
from tests.truth.figures import mean_printed
from tests.truth.row import Row, mean_at_most, share
from tests.truth.search_servers import LOADS, Server, servers

#: Minutes of a server start and of a cell; the full grid has three repeats.
START_MIN, CELL_MIN, REPEATS = 3.0, 2.0, 3
ERROR = 0.05
#: Launches of the winner, the runner-up and the baseline in the proof.
PROOFS = 2
#: A search costs so much more than one choice that it gets a part of the trials: by methods.
_PART = {1: 10, 4: 100}


@dataclass(frozen=True)
class SearchFamily:
    """``methods`` with K = 1 to 5 each, and the baseline. ``noise`` of a cell, ``launch``: of what a
    launch shares; the search knows neither. ``alike``: all arms are equally fast. ``cost``: the
    median share of the full grid's minutes that is the goal; ``loss``: the goal of the mean loss;
    ``at_once``: launches side by side."""

    loads: int
    methods: int
    noise: float
    launch: float
    stake: float
    cost: float | None = None
    loss: float | None = None
    alike: bool = False
    at_once: int = 1
    start: float = 0.0

    @property
    def name(self) -> str:
        arms = "equal arms" if self.alike else f"{6 * self.methods} candidates"
        return (
            f"search, {arms}, {self.loads} loads, {self.noise:.0%}, launch {self.launch:.0%}, "
            f"stake {self.stake:.0%}"
            + (f", {self.at_once} at once" if self.at_once > 1 else "")
            + (f", drafting starts at up to {self.start:.0%}" if self.start else "")
        )


def families() -> Iterator[SearchFamily]:
    yield SearchFamily(3, 1, 0.02, 0.0, 0.02, cost=0.45)
    yield SearchFamily(3, 1, 0.05, 0.0, 0.02, loss=0.006)
    yield SearchFamily(3, 1, 0.05, 0.0, 0.03, cost=0.75)
    yield SearchFamily(3, 1, 0.05, 0.0, 0.05, cost=0.5)
    yield SearchFamily(3, 1, 0.10, 0.0, 0.02)
    yield SearchFamily(3, 1, 0.02, 0.04, 0.03)
    yield SearchFamily(3, 1, 0.05, 0.06, 0.05)
    yield SearchFamily(3, 1, 0.03, 0.02, 0.05, alike=True)
    yield SearchFamily(6, 1, 0.02, 0.0, 0.02)
    yield SearchFamily(6, 1, 0.05, 0.0, 0.03)
    yield SearchFamily(6, 1, 0.05, 0.06, 0.05)
    yield SearchFamily(3, 4, 0.02, 0.0, 0.02, cost=0.30)
    yield SearchFamily(3, 4, 0.05, 0.0, 0.03, cost=0.50)
    yield SearchFamily(3, 4, 0.05, 0.0, 0.05, cost=0.33)
    yield SearchFamily(6, 4, 0.05, 0.03, 0.05)
    yield SearchFamily(3, 1, 0.05, 0.0, 0.05, start=0.6)
    yield SearchFamily(3, 1, 0.10, 0.10, 0.10, start=0.6)
    yield SearchFamily(3, 4, 0.05, 0.03, 0.05, start=0.6)
    yield SearchFamily(3, 1, 0.05, 0.0, 0.05, at_once=4)
    yield SearchFamily(3, 1, 0.03, 0.02, 0.05, alike=True, at_once=4)
    yield SearchFamily(3, 4, 0.05, 0.0, 0.05, at_once=8)
    yield SearchFamily(6, 4, 0.05, 0.03, 0.05, at_once=8)


@dataclass(frozen=True)
class Searched:
    """One search. ``cost``: share of the full grid's minutes; ``wrong``: the winner is beaten by more
    than the stake at some load; ``loss``: mean share of the best speed that is lost; ``foreseen``:
    the chance that it gave itself to be decided, when half the budget was spent or when it stopped before;
    None where it was decided by then; ``held``: for each load, whether the true gain lies in the proven
    interval, and ``promised``: in the one that the search promised; ``kept``: whether the promise was
    kept, None where nothing was proven; ``clock``: share of the full grid's minutes that passed on the clock."""

    cost: float
    decided: bool
    wrong: bool
    loss: float
    foreseen: float | None
    held: tuple[bool, ...]
    promised: tuple[bool, ...]
    kept: bool | None
    clock: float


def rows(trials: int) -> list[Row]:
    """All rows of the table."""
    return [row for family in families() for row in rows_of(family, trials)]


def rows_of(family: SearchFamily, trials: int) -> list[Row]:
    count = max(trials // _PART[family.methods], 10)
    found = [searched(family, server) for server in servers(family, count)]
    settled = [one for one in found if one.decided]
    wrong = sum(one.wrong for one in settled)
    cost = [one.cost if one.decided else np.inf for one in found]
    held = [each for one in settled for each in one.held]
    promised = [each for one in settled for each in one.promised]
    broken = [not one.kept for one in settled if one.kept is not None]
    name, loss = family.name, np.array([one.loss for one in found])
    told = [
        share(name, "wrong winner, of the decided", wrong, max(len(settled), 1), at_most=ERROR),
        mean_printed(name, "decided", np.array([float(one.decided) for one in found])),
        _median_cost(name, cost, family.cost),
        mean_printed(name, "minutes on the clock", np.array([one.clock for one in found])),
        mean_printed(name, "mean loss", loss) if family.loss is None
        else mean_at_most(name, "mean loss", loss.tolist(), family.loss),
    ]  # fmt: skip
    if held:
        told.append(share(name, "proven gain in its interval", sum(held), len(held), None, 0.92))
        told.append(share(name, "promised gain in its interval", sum(promised), len(promised)))
    if broken:
        told.append(share(name, "held to have broken its promise", sum(broken), len(broken), 0.05))
    return [*told, *_foreseen(name, found)]


def _foreseen(name: str, found: list[Searched]) -> Iterator[Row]:
    """How often a search that ends open had said half-way that it hardly will decide, and how often
    one had said so that then decided."""
    for what, ended, warned in (
        ("of the undecided: not foreseen half-way", False, False),
        ("of the decided: half-way held for unlikely", True, True),
    ):
        those = [one for one in found if one.decided == ended]
        hits = [one for one in those if one.foreseen is not None
                and (one.foreseen < UNLIKELY) == warned]  # fmt: skip
        yield share(name, what, len(hits), max(len(those), 1))


def _median_cost(name: str, cost: list[float], limit: float | None) -> Row:
    """The median share of the full grid's minutes; a search that decides nothing counts as endless.
    The interval is that of order statistics."""
    ordered, count = np.minimum(np.sort(cost), 9.99), len(cost)
    half = 3.29 * np.sqrt(count) / 2
    low = float(ordered[max(int(count / 2 - half), 0)])
    high = float(ordered[min(int(count / 2 + half), count - 1)])
    goal = "printed" if limit is None else f"≤ {limit:.0%} of the grid"
    median = float(np.median(ordered))
    return Row(name, "median cost", median, low, high, goal, limit is None or low <= limit)


def space_of(family: SearchFamily) -> Space:
    """The arms and places of a family."""
    own = [SearchArm(f"method {m} K={k}", f"method {m}", k) for m in range(family.methods)
           for k in range(1, 6)]  # fmt: skip
    places = tuple(SearchPlace("traffic", float(load)) for load in LOADS[family.loads])
    return Space(
        (SearchArm("baseline", "", 0), *own), places, START_MIN, np.full(len(places), CELL_MIN)
    )


def searched(family: SearchFamily, server: Server) -> Searched:
    """Play one search to its end, and prove it where it decides."""
    space = space_of(family)
    aim = Aim(family.stake, ERROR, space.grid_minutes(REPEATS))
    launches: tuple[MeasuredLaunch, ...] = ()
    foreseen: float | None = None
    clock = 0.0
    while True:
        seen = SeenLaunches(launches, acceptance_lengths(space, server.length, server.by_position,
                                      {one.arm for one in launches}))  # fmt: skip
        now = state(space, seen, aim, family.at_once)
        clock += max((step.minutes for step in now.batch), default=0.0)
        if spent(space, seen) <= aim.budget_min / 2:
            foreseen = now.chance
        if isinstance(now.step, End):
            break
        told = (server.launch(step.arm, step.places) for step in now.batch)
        launches = (*launches, *told)
    assert now.now is not None
    places = np.arange(len(space.places))
    lost = server.truth.max(axis=0) - server.truth[now.now.lead, places]
    used = spent(space, seen) / aim.budget_min
    found = Searched(
        used, now.step.decided, bool((lost > np.log1p(family.stake)).any()),
        float(-np.expm1(-lost).mean()), foreseen, (), (), None, clock / aim.budget_min,
    )  # fmt: skip
    return _proven(found, server, now, family.stake) if now.step.decided else found


def _proven(found: Searched, server: Server, now: SearchState, stake: float) -> Searched:
    """Prove the winner in fresh launches. The proof is against the baseline alone."""
    assert now.belief is not None
    assert now.now is not None
    lead = now.now.lead
    winner = np.array([server.table(lead) for _ in range(PROOFS)])
    everywhere = np.ones(len(lead), dtype=np.bool_)
    baseline = np.array([server.launch(0, everywhere).speed for _ in range(PROOFS)])
    told = proof(now.belief, lead, winner, baseline, stake)
    gain = server.truth[lead, np.arange(len(lead))] - server.truth[0]
    held, promised = (
        tuple(((one.low <= gain) & (gain <= one.high)).tolist())
        for one in (told.proven, told.promised)
    )
    kept = told.kept(len(lead)) if (lead != 0).any() else None
    return replace(found, held=held, promised=promised, kept=kept)
