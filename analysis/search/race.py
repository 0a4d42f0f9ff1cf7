"""One search, step by step: screen, race, stop. What is done next follows from what was measured."""

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from analysis.search.belief import Belief, believe
from analysis.search.outlook import (
    Option,
    Settling,
    after,
    chance_of_deciding,
    guess,
    options,
    settling,
    standing_at,
    weighed,
)
from analysis.search.proof import Standing, standing
from analysis.search.space import BASELINE, Aim, Seen, Space


def in_company(
    space: Space, seen: Seen, known: tuple[Belief, Standing], aim: Aim, room: tuple[float, int]
) -> tuple[Option, ...]:
    """Return the launches to measure together, the best first; empty where none can be measured.

    ``room``: the minutes that are left, and how many launches fit side by side. Each further one is
    weighed as if those before it were measured and every mean stayed, so that it tells something
    else; none is added once those before it are expected to be enough.
    """
    (belief, now), (left, most) = known, room
    guessed, then = guess(belief), now
    chosen: list[Option] = []
    while len(chosen) < most:
        every = weighed(space, guessed, then, aim, options(space, _rest(seen, chosen), then, aim))
        best = next((one for one in every if one.minutes <= left), None)
        if best is None or (chosen and not best.worth > 0):
            break
        chosen.append(best)
        left, guessed = left - best.minutes, after(guessed, best)
        then = standing_at(guessed.cov, now, aim)
        if then.risk.sum() <= aim.error:
            break
    return tuple(chosen)


def _rest(seen: Seen, chosen: list[Option]) -> Seen:
    """Return what may still be measured beside the chosen launches."""
    if seen.left is None:
        return seen
    arms = [one.arm for one in chosen]
    gone = (arm for arm in set(arms) if arms.count(arm) >= seen.left[arm])
    return replace(seen, closed=seen.closed.union(gone))


Why = Literal["screen", "race", "check"]
#: The share of the error that the race may use up, with one method and with several; the rest is kept
#: for what the model of the step time and of the noise does not know. Of several methods most arms are
#: never measured, so that more hangs on the model.
_OF_ERROR, _OF_ERROR_MANY = 0.9, 0.7
#: From this share of the budget on it is reckoned how likely the rest decides, …
_FORESEEN_FROM = 0.25
#: … and from this one on a search ends where that chance is below so much.
_JUDGED_FROM, HOPELESS = 0.4, 0.05
#: A smaller chance is told as: the noise probably forbids a decision.
UNLIKELY = 0.5


@dataclass(frozen=True)
class Next:
    """The launch to measure next: ``why`` it is asked for: nothing can be said without it
    (screen), it tells most about what is open (race), or it measures a winner that was only reckoned
    so far (check)."""

    arm: int
    places: NDArray[np.bool_]
    minutes: float
    why: Why


@dataclass(frozen=True)
class End:
    """The search is over: ``decided``, or why not."""

    decided: bool
    why: Literal["settled", "budget", "noise", "nothing left", "all out"]


@dataclass(frozen=True)
class State:
    """What is known after some launches; ``belief`` and ``now`` are None while screening. ``chance``:
    that the rest of the budget decides, None where it is early or decided; ``freely``: the same if
    every arm could be launched again, None where that is so or the chance is not small; ``beside``:
    launches to measure side by side with the one that comes next."""

    belief: Belief | None
    now: Standing | None
    step: Next | End
    chance: float | None = None
    freely: float | None = None
    beside: tuple[Next, ...] = ()

    @property
    def batch(self) -> tuple[Next, ...]:
        """All launches to measure now; empty where the search is over."""
        return (self.step, *self.beside) if isinstance(self.step, Next) else ()


def spent(space: Space, seen: Seen) -> float:
    """Return the minutes that launches took, by what the space says of their costs, and those of what
    failed."""
    return sum(space.minutes(launch.measured) for launch in seen.launches) + seen.lost_min


def state(space: Space, seen: Seen, aim: Aim, at_once: int = 1) -> State:
    """Return what is known and what to do next, with up to ``at_once`` launches side by side. It
    depends on what was measured alone, so that a search that was killed goes on where it stopped."""
    left = aim.budget_min - spent(space, seen)
    screen = _lacking(space, seen)
    if screen:
        step, beside = _fitting(screen, left, at_once)
        return State(None, None, step, beside=beside)
    belief = believe(space, seen)
    now = standing(belief, seen, aim)
    if len(seen.out) == len(space.arms) - 1:
        return State(belief, now, End(False, "all out"))
    inner = _inner(space, aim)
    if now.open <= inner.error:
        step, beside = _checked(_unchecked(space, seen, now), seen, (left, at_once))
        return State(belief, now, step, beside=beside)
    used, chance, freely = 1 - left / aim.budget_min, None, None
    if used >= _FORESEEN_FROM:
        chance = chance_of_deciding(space, seen, (belief, now), inner, left)
        if chance < UNLIKELY and seen.closed:
            freely = chance_of_deciding(space, _opened(seen), (belief, now), inner, left)
        if used >= _JUDGED_FROM and chance < HOPELESS:
            return State(belief, now, _why_hopeless(space, left, freely), chance, freely)
    step, beside = _raced(space, seen, (belief, now), inner, (left, at_once))
    return State(belief, now, step, chance, freely, beside)


def _checked(
    steps: list[Next], seen: Seen, room: tuple[float, int]
) -> tuple[Next | End, tuple[Next, ...]]:
    """Return the winners to measure where they were only reckoned so far, or the end: decided where there
    is none left, and open where one cannot be measured any more."""
    if not steps:
        return End(True, "settled"), ()
    able = [one for one in steps if one.arm not in seen.closed]
    return _fitting(able, *room) if able else (End(False, "nothing left"), ())


def _opened(seen: Seen) -> Seen:
    """Return the same with every arm as one that can be measured again."""
    return replace(seen, closed=frozenset())


def _fitting(steps: list[Next], left: float, at_once: int) -> tuple[Next | End, tuple[Next, ...]]:
    """Return the first of some launches and those beside it, as far as the minutes do."""
    fitting: list[Next] = []
    for step in steps[:at_once]:
        if step.minutes > left:
            break
        fitting.append(step)
        left -= step.minutes
    return (fitting[0], tuple(fitting[1:])) if fitting else (End(False, "budget"), ())


def _why_hopeless(space: Space, left: float, freely: float | None) -> End:
    """Return why the rest cannot decide: arms cannot be measured again that would, the minutes do for
    no launch, or the noise is too large. ``freely`` as in ``State``."""
    if freely is not None and freely >= HOPELESS:
        return End(False, "nothing left")
    return End(False, "noise" if left > space.start_min + space.cell_min.min() else "budget")


def _inner(space: Space, aim: Aim) -> Aim:
    share = _OF_ERROR if len(space.families()) == 1 else _OF_ERROR_MANY
    return replace(aim, error=share * aim.error)


def needed(space: Space, seen: Seen, known: tuple[Belief, Standing], aim: Aim) -> Settling:
    """Return what a search that is open still needs, if every arm could be measured again."""
    belief, now = known
    return settling(space, _opened(seen), belief, now, _inner(space, aim))


def _raced(
    space: Space, seen: Seen, known: tuple[Belief, Standing], aim: Aim, room: tuple[float, int]
) -> tuple[Next | End, tuple[Next, ...]]:
    chosen = in_company(space, seen, known, aim, room)
    if not chosen:
        any_left = next(options(space, seen, known[1], aim), None) is not None
        return End(False, "budget" if any_left else "nothing left"), ()
    first, *others = (Next(one.arm, one.places, one.minutes, "race") for one in chosen)
    return first, tuple(others)


def _unchecked(space: Space, seen: Seen, now: Standing) -> list[Next]:
    """Return launches of the arms that would win at a place where they were not measured."""
    measured = np.zeros(now.risk.shape, dtype=np.bool_)
    for launch in seen.launches:
        measured[launch.arm] |= launch.measured
    places = np.arange(len(space.places))
    found = []
    for arm in np.unique(now.lead[~measured[now.lead, places]]).tolist():
        lacking = (now.lead == arm) & ~measured[arm]
        found.append(Next(arm, lacking, space.minutes(lacking), "check"))
    return found


def least_minutes(space: Space, out: frozenset[int] = frozenset()) -> float:
    """Return the minutes without which nothing can be said."""
    return sum(one.minutes for one in _screening(space, out))


def _lacking(space: Space, seen: Seen) -> list[Next]:
    """Return the launches of the screening that were not measured; of the baseline, whose launch
    may have been cut short, every place is needed."""
    done = {launch.arm for launch in seen.launches}
    told = np.zeros(len(space.places), dtype=np.bool_)
    for launch in seen.launches:
        told |= launch.measured if launch.arm == BASELINE else False
    cut = BASELINE in done and not told.all()
    again = [Next(BASELINE, ~told, space.minutes(~told), "screen")] if cut else []
    return again + [one for one in _screening(space, seen.out) if one.arm not in done]


def _screening(space: Space, out: frozenset[int]) -> list[Next]:
    """Return the launches without which nothing can be said: the baseline everywhere, and of each
    family the arm that drafts most (its acceptance by position tells that of all smaller K), at the
    lowest and the highest load."""
    wanted = [(BASELINE, np.ones(len(space.places), dtype=np.bool_))]
    loads = np.array([place.load for place in space.places])
    ends = (loads == loads.min()) | (loads == loads.max())
    for arms in space.families().values():
        able = [arm for arm in arms if arm not in out]
        wanted += [(able[-1], ends)] if able else []
    return [Next(arm, places, space.minutes(places), "screen") for arm, places in wanted]
