"""A search that is under way: what its drops tell so far, and what to measure next."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from analysis.search.prior import lengths
from analysis.search.race import (
    UNLIKELY,
    End,
    Next,
    State,
    least_minutes,
    needed,
    spent,
    state,
)
from analysis.search.space import Aim, Arm, Place, Seen, Space
from answers.search.found import candidates, found_at, mix_of, of_traffic, step_of
from answers.search.measured import Measured, measured
from answers.search.recorded import START_MIN
from answers.search.values import Out, Played, Step, Terms
from answers.search.winner import Winner, runner_up, winner
from answers.search.words import UNDER_WAY, ended, headline, outlook, where
from answers.wording import percent
from warehouse.errors import InvalidInput
from warehouse.store import Reader

#: The full grid that a search is compared with measures everything so often.
GRID_REPEATS = 3


@dataclass(frozen=True)
class Planned:
    """A study as `draftboard plan` lays it out. ``arms``: the study's own names, the baseline first;
    ``launches``: of each arm, their ids in the order in which they are to be measured; ``launch_min``:
    minutes that one whole launch is expected to take; ``attempts``: tries at a cell that fails;
    ``usd_per_min``: None without a price; ``cells``: of each launch, the keys of its cells;
    ``at_once``: so many launches are measured side by side, on ``one_machine``, which is paid once for
    all of them, or on one each."""

    study: str
    arms: tuple[Arm, ...]
    places: tuple[Place, ...]
    launches: Mapping[str, tuple[str, ...]]
    launch_min: float
    attempts: int = 1
    usd_per_min: float | None = None
    cells: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    at_once: int = 1
    one_machine: bool = True

    @property
    def repeats(self) -> int:
        """The most launches that an arm may get."""
        return max(map(len, self.launches.values()))


@dataclass(frozen=True)
class Order:
    """A launch to measure: its id in the plan, and the datasets and loads of its cells."""

    launch_id: str
    arm: str
    datasets: tuple[str, ...]
    loads: tuple[int, ...]
    step: Step


@dataclass(frozen=True)
class Live:
    """How a search stands. ``orders``: the launches to measure now, none where the search is over; ``told``: all that
    is known so far; ``winner``: the one configuration of a server that is expected to be the best, and
    ``rival``, the next best, both None until the search is decided; ``known``: what it was decided with;
    ``troubles``: why the machine is not to be trusted at present, in words."""

    orders: tuple[Order, ...]
    told: Played
    winner: Winner | None = None
    rival: Winner | None = None
    known: tuple[Space, Seen] | None = None
    troubles: tuple[str, ...] = ()


def live(
    reader: Reader | None,
    planned: Planned,
    terms: Terms,
    out: tuple[Out, ...] = (),
    lost_min: float = 0.0,
) -> Live:
    """Return what comes next. ``reader``: the warehouse of the drops so far, None before the first;
    ``out``: arms that did not start or did not hold; ``lost_min``: minutes of what failed.

    Raises InvalidInput for a budget that is too small to measure every method once, and where the
    study has no launch left for what must be measured.
    """
    found = _found(reader, planned, terms)
    seen = replace(_seen(found, planned, out), lost_min=lost_min)
    space, seen = of_traffic(found.space, seen, terms)
    paid = found.abreast if planned.one_machine else 1.0
    aim = _aim(space, planned, terms, paid)
    least = least_minutes(space, seen.out)
    # Of one that has begun more is known by what was measured: it ends open, and says so.
    if least > aim.budget_min and not seen.launches:
        raise InvalidInput(
            f"--budget: {aim.budget_min:.0f} minutes are too few to measure every method once; the "
            f"least that would do is about {least:.0f}min."
        )
    now = state(space, seen, aim, planned.at_once)
    orders = _orders((space, now), found, planned, terms)
    gone = {one.arm: one.why for one in out if one.arm != planned.arms[0].label}
    told = _told((space, aim, seen), now, planned, terms, gone)
    best = rival = None
    if told.decided and now.belief is not None:
        best = winner(space, seen, now.belief)
        rival = runner_up(space, seen, now.belief, best)
        told = replace(told, headline=told.headline + _for_all(space, now, best))
    usd = None if planned.usd_per_min is None else (
        told.minutes * paid * planned.usd_per_min
    )  # fmt: skip
    told = replace(told, usd=usd, candidates=candidates((space, seen, aim), now, gone))
    return Live(orders, told, best, rival, (space, seen), _troubles(found, now, aim))


def _for_all(space: Space, now: State, best: Winner) -> str:
    """Say where the winner of the whole, which one server serves, is of another method than what leads
    there."""
    if now.now is None or best.config is None:
        return ""
    family = np.array([arm.family for arm in space.arms])
    other = family[now.now.lead] != family[best.arms]
    if not other.any():
        return ""
    return (
        f" One server serves all of it, so one method is taken, {best.words}; {where(space, other)} alone "
        "would take another. Where each dataset has a server of its own, search each by itself."
    )


def _troubles(found: Measured, now: State, aim: Aim) -> tuple[str, ...]:
    """Return what the machine did during the last launch, and by how much it drifts where that is more
    than the stake over all launches."""
    step = 0.0 if now.belief is None else now.belief.drifting
    if abs(step) * len(found.seen.launches) <= np.log1p(aim.stake):
        return found.troubles
    size = float(np.expm1(step))
    return (*found.troubles, f"It drifts: each launch is {percent(size)} against the one before.")


def bare(planned: Planned) -> Space:
    """Return what may be measured, with the minutes that are expected."""
    start = min(START_MIN, planned.launch_min / 2)
    each = (planned.launch_min - start) / len(planned.places)
    return Space(planned.arms, planned.places, start, np.full(len(planned.places), each))


def _found(reader: Reader | None, planned: Planned, terms: Terms) -> Measured:
    space = bare(planned)
    if reader is not None:
        return measured(reader, planned.study, space, terms)
    none = np.full((len(space.arms), len(space.places), 1), np.nan)
    return Measured(space, Seen((), lengths(space, none[..., 0], none, ())), frozenset())


def _seen(found: Measured, planned: Planned, out: tuple[Out, ...]) -> Seen:
    arms = found.space.arms
    left = tuple(len(_left(found, planned, arm.label)) for arm in arms)
    closed = frozenset(at for at, many in enumerate(left) if not many)
    names = {one.arm for one in out}
    gone = frozenset(at for at, arm in enumerate(arms) if at and arm.label in names)
    return replace(found.seen, out=gone, closed=closed, left=left)


def _left(found: Measured, planned: Planned, arm: str) -> tuple[str, ...]:
    """Return the launches of an arm of which no cell was measured, nor of any later one."""
    ids = planned.launches[arm]
    used = [at for at, name in enumerate(ids) if name in found.ids]
    return ids[max(used, default=-1) + 1 :]


def _aim(space: Space, planned: Planned, terms: Terms, paid: float) -> Aim:
    """``paid``: the share of the launches' minutes that money is paid for."""
    most = space.grid_minutes(min(planned.repeats, GRID_REPEATS))
    if terms.budget_min is not None:
        most = terms.budget_min / (paid if terms.by_money else 1.0)
    return Aim(terms.stake, terms.error, most)


def _orders(
    known: tuple[Space, State], found: Measured, planned: Planned, terms: Terms
) -> tuple[Order, ...]:
    """The launches in the words of the study, each with an id of its own."""
    space, now = known
    turns: Counter[int] = Counter()
    orders = []
    for step in now.batch:
        told = step_of(space, now, step)
        orders.append(_order((space, step, told), turns[step.arm], found, planned, terms))
        turns[step.arm] += 1
    return tuple(orders)


def _order(
    known: tuple[Space, Next, Step], turn: int, found: Measured, planned: Planned, terms: Terms
) -> Order:
    """One launch; its cells are all loads of some datasets, so what lies between them is measured
    along. ``turn``: so many of its arm come before it in the same batch."""
    space, step, told = known
    mix = mix_of(terms, found.space)
    label = space.arms[step.arm].label
    places = [space.places[at] for at in np.flatnonzero(step.places)]
    left = _left(found, planned, label)[turn:]
    if not left:
        raise InvalidInput(
            f"{label} was launched {len(planned.launches[label])} times, as often as `repeats` of the study allows, and no "
            "cell of it decides; `draftboard runs` shows their flags. Raise `repeats` to go on."
        )
    return Order(
        left[0], label,
        tuple(mix.share if mix else dict.fromkeys(place.traffic for place in places)),
        tuple(sorted({int(place.load) for place in places})), told,
    )  # fmt: skip


def _told(
    known: tuple[Space, Aim, Seen],
    now: State,
    planned: Planned,
    terms: Terms,
    gone: Mapping[str, str],
) -> Played:
    space, aim, seen = known
    steps = tuple(
        Step(
            space.arms[launch.arm].label,
            where(space, launch.measured),
            space.minutes(launch.measured),
            "measured",
            None,
        )
        for launch in seen.launches
    )
    over = isinstance(now.step, End)
    told = Played(
        planned.study, None, terms, steps, found_at(space, aim, now),
        isinstance(now.step, End) and now.step.decided,
        ended(now.step, measuring=True) if isinstance(now.step, End) else UNDER_WAY,
        spent(space, seen), space.grid_minutes(GRID_REPEATS),
        () if now.now is None else tuple(
            space.arms[at].label for at in np.flatnonzero(now.now.dropped(aim.error))),
        (), "", chance=now.chance, out=tuple(f"{arm} ({why})" for arm, why in gone.items()),
    )  # fmt: skip
    more = None
    doubtful = over or (now.chance is not None and now.chance < UNLIKELY)
    if doubtful and not told.decided and now.belief is not None and now.now is not None:
        more = needed(space, seen, (now.belief, now.now), aim)
    used_up = _used_up(space, now, seen, aim)
    return replace(told, headline=headline(told, more), outlook=outlook(told, more, used_up))


def _used_up(space: Space, now: State, seen: Seen, aim: Aim) -> tuple[str, ...]:
    """Return the arms that can still win and had all launches that the study allows, where more of
    them would probably decide."""
    if now.freely is None or now.freely < UNLIKELY or now.now is None:
        return ()
    dropped = now.now.dropped(aim.error)
    return tuple(space.arms[at].label for at in sorted(seen.closed) if not dropped[at])
