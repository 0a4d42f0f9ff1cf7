"""One search, step by step: screen, race, stop. What is done next follows from what was measured.

The launches that the rest of a budget pays for are chosen as the race would choose them if every mean
stayed where it is expected. What they will say is then drawn from the belief (the preposterior
distribution, Raiffa and Schlaifer 1961, chapter 5), and it is counted how often that decides.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from analysis.search.belief import Belief, believe
from analysis.search.proof import PlaceLeaders, standing, variance_to_lead
from analysis.search.space import BASELINE, Aim, Floats, SeenLaunches, Space

# --- What one more launch would tell, for the minutes that it takes.


Places = NDArray[np.bool_]
Why = Literal["screen", "race", "check"]
#: Rivals less likely than this to matter are not counted when a launch is weighed.
_FAINT = 1e-6


@dataclass(frozen=True)
class Next:
    """A launch to measure: ``why`` it is asked for: nothing can be said without it (screen), it tells most
    about what is open (race), or it measures a winner that was only reckoned so far (check). ``worth``: the
    open chance that a race expects it to remove for each minute."""

    arm: int
    places: Places
    minutes: float
    why: Why
    worth: float = 0.0


def _as_normal(belief: Belief) -> tuple[Floats, Floats]:
    """Return the belief as one normal distribution: its covariance over the sizes of the noise, and
    that of a launch's values."""
    launch = np.diag(belief.weight @ belief.noise) + float(belief.weight @ belief.shared)
    return np.tensordot(belief.weight, belief.cov, 1), launch


def options(
    space: Space, seen: SeenLaunches, now: PlaceLeaders, aim: Aim
) -> Iterator[tuple[int, Places]]:
    """Yield every launch that is worth a thought: an arm that may still win, at all open places or
    at one load of them."""
    open_now = now.open_places(aim.error)
    loads = np.array([place.load for place in space.places])
    groups = [open_now, *(open_now & (loads == x) for x in np.unique(loads[open_now]))]
    dropped, shut = now.dropped(aim.error), seen.shut
    for arm in range(len(space.arms)):
        if arm not in seen.out | seen.closed and not dropped[arm]:
            mine = (group & ~shut[arm] for group in groups[: 1 if len(groups) == 2 else None])
            yield from ((arm, group) for group in mine if group.any())


def _options_by_worth(
    space: Space, cov: Floats, launch: Floats, seen: SeenLaunches, now: PlaceLeaders, aim: Aim
) -> list[Next]:
    width = len(space.places)
    arm, place = np.nonzero(now.risk > _FAINT)
    rival, lead = arm * width + place, now.lead[place] * width + place
    # Of every rival that matters: its covariances with all states less those of its lead.
    contrast = cov[rival] - cov[lead]
    spread = contrast[np.arange(len(arm)), rival] - contrast[np.arange(len(arm)), lead]
    before = np.maximum(np.sqrt(np.maximum(spread, 0)) ** 2, 1e-12)
    far = now.behind[arm, place] - np.log1p(aim.stake)
    weighed = []
    for number, places in options(space, seen, now, aim):
        cells = number * width + np.flatnonzero(places)
        inner = cov[np.ix_(cells, cells)] + launch[np.ix_(places, places)]
        shown = contrast[:, cells]
        gone = np.minimum((shown @ np.linalg.inv(inner) * shown).sum(axis=1), before)
        # The variance goes and the mean stays: a normal tail falls as exp(-distance^2 / (2 variance)).
        after = np.maximum(before - gone, 1e-12)
        removed = np.asarray(-np.expm1(-0.5 * far**2 * (1 / after - 1 / before)))
        minutes = space.minutes(places)
        worth = float((now.risk[arm, place] * removed).sum()) / minutes
        weighed.append(Next(number, places, minutes, "race", worth))
    return sorted(weighed, key=lambda option: -option.worth)


def _cov_after(cov: Floats, launch: Floats, option: Next) -> Floats:
    places = option.places
    cells = option.arm * len(places) + np.flatnonzero(places)
    seen = cov[:, cells]
    inner = cov[np.ix_(cells, cells)] + launch[np.ix_(places, places)]
    return np.asarray(cov - seen @ np.linalg.solve(inner, seen.T))


def _standing_at(cov: Floats, now: PlaceLeaders, aim: Aim) -> PlaceLeaders:
    """Return the standing if what is known has this covariance and the means of now; ``open`` is as it
    was."""
    variance = variance_to_lead(cov, now.lead)
    far = now.behind - np.log1p(aim.stake)
    risk = np.where(np.isfinite(far), ndtr(far / np.sqrt(np.maximum(variance, 1e-12))), 0.0)
    risk[now.lead, np.arange(len(now.lead))] = 0.0
    return replace(now, risk=risk, of_place=risk.sum(axis=0))


# --- What would settle what is open: the launches still needed if every speed is as expected.


#: More launches than this are not counted: look into the noise instead.
MOST = 60


@dataclass(frozen=True)
class Settling:
    """What it still takes to settle a search: ``launches`` and ``minutes``; None for more than
    MOST."""

    launches: int | None
    minutes: float | None


def settling(
    space: Space, seen: SeenLaunches, belief: Belief, now: PlaceLeaders, aim: Aim
) -> Settling:
    """Return what is still needed if every mean stays where it is expected.

    Each launch takes away variance as the belief says; the noise is taken at its mean size. It is at
    least one launch: give what is still open.
    """
    (cov, launch), minutes = _as_normal(belief), 0.0
    for count in range(MOST + 1):
        leaders = _standing_at(cov, now, aim)
        if count and leaders.risk.sum() <= aim.error:
            return Settling(count, minutes)
        every = _options_by_worth(space, cov, launch, seen, leaders, aim)
        if not every or not every[0].worth > 0:
            break
        cov, minutes = _cov_after(cov, launch, every[0]), minutes + every[0].minutes
    return Settling(None, None)


# --- What the rest of a budget can be expected to bring: the chance that it decides.


#: So many futures are drawn for each of so many sizes of the noise, always from the same numbers.
_FUTURES, _SIZES = 16, 20
#: How often it is looked on the way whether the search is decided.
_LOOKS = 6
#: The launches to come are chosen in about so many rounds at most, several alike in each.
_ROUNDS = 30


def chance_of_deciding(
    space: Space, seen: SeenLaunches, belief: Belief, now: PlaceLeaders, aim: Aim, left: float
) -> float:
    """Return the chance (0-1) that ``left`` more minutes decide what is open.

    It is rather too small: the race chooses anew after every launch.
    """
    ahead: Ahead = []
    guessed, launch = _as_normal(belief)
    alike = max(1, int(left // (_ROUNDS * (space.start_min + float(space.cell_min.min())))))
    while True:
        leaders = _standing_at(guessed, now, aim)
        every = _options_by_worth(space, guessed, launch, seen, leaders, aim)
        best = next(
            (option for option in every if option.minutes <= left and option.worth > 0), None
        )
        if best is None:
            break
        for _ in range(min(alike, int(left // best.minutes))):
            left -= best.minutes
            ahead.append((best.arm, np.flatnonzero(best.places)))
            guessed = _cov_after(guessed, launch, best)
    if not ahead:
        return 0.0
    cells = sum(len(places) for _, places in ahead)
    drawn = np.random.default_rng(0).standard_normal((_SIZES, _FUTURES, cells))
    sizes = np.searchsorted(np.cumsum(belief.weight), (np.arange(_SIZES) + 0.5) / _SIZES)
    # Chances of rivals that err together do not add up: as much less as now.
    less = now.open / max(float(now.risk.sum()), 1e-12)
    inner = replace(aim, error=aim.error / max(less, 1e-12))
    sizes = np.minimum(sizes, len(belief.weight) - 1)
    decided = [
        _decided(belief, int(size), ahead, future, seen.shut, inner).mean()
        for size, future in zip(sizes, drawn, strict=True)
    ]
    return float(np.mean(decided))


#: Launches to come: the arm of each, and the numbers of the places that it measures.
Ahead = list[tuple[int, NDArray[np.int64]]]


def _decided(
    belief: Belief, size: int, ahead: Ahead, drawn: Floats, shut: NDArray[np.bool_], aim: Aim
) -> NDArray[np.bool_]:
    """Return (futures,): whether a search would be decided on the way, if the noise had this
    size."""
    many = np.array([len(places) for _, places in ahead])
    place = np.concatenate([places for _, places in ahead])
    state = np.concatenate([arm * shut.shape[1] + places for arm, places in ahead])
    launch = np.repeat(np.arange(len(ahead)), many)
    looks = np.unique(np.linspace(0, len(ahead), _LOOKS + 1).round().astype(int)[1:] - 1)
    cov, mean = belief.cov[size], belief.mean[size].ravel()
    inner = cov[np.ix_(state, state)] + belief.shared[size] * (launch[:, None] == launch)
    inner[np.diag_indices(len(inner))] += belief.noise[size][place]
    root = np.linalg.solve(np.linalg.cholesky(inner), cov[state])
    over = np.zeros(len(drawn), dtype=np.bool_)
    for until in np.cumsum(many)[looks[looks >= 0]]:
        shown = root[:until]
        future = mean + drawn[:, :until] @ shown
        over |= _risk(future, cov - shown.T @ shown, shut, aim) <= aim.error
    return over


def _risk(future: Floats, cov: Floats, shut: NDArray[np.bool_], aim: Aim) -> Floats:
    """Return (futures,): the chances, added up, that a rival is better by more than the stake."""
    arms, places = shut.shape
    mean = np.where(shut, -np.inf, future.reshape(-1, arms, places))
    lead = mean.argmax(axis=1)
    best = np.take_along_axis(mean, lead[:, None], axis=1)
    best = np.where(np.isfinite(best), best, 0.0)  # Where none may be taken nothing is at stake.
    at = np.arange(arms * places).reshape(arms, places)
    own = np.diag(cov).reshape(arms, places)
    both = cov[at[:, None], at[None]]
    sd = np.sqrt(np.maximum(own[:, None] + own[None] - 2 * both, 1e-18))
    sd = sd[lead, :, np.arange(places)].swapaxes(1, 2)
    risk = ndtr((mean - best - np.log1p(aim.stake)) / sd)
    np.put_along_axis(risk, lead[:, None], 0.0, axis=1)
    return np.asarray(risk.sum(axis=(1, 2)))


# --- What is done next.


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
class End:
    """The search is over: ``decided``, or why not."""

    decided: bool
    why: Literal["settled", "budget", "noise", "nothing left", "all out"]


@dataclass(frozen=True)
class SearchState:
    """What is known after some launches; ``belief`` and ``now`` are None while screening. ``steps``:
    the launches to measure now, side by side, the one that tells most first, or the end. ``chance``:
    that the rest of the budget decides, None where it is early or decided; ``freely``: the same if
    every arm could be launched again, None where that is so or the chance is not small."""

    space: Space
    seen: SeenLaunches
    aim: Aim
    steps: tuple[Next, ...] | End
    belief: Belief | None = None
    now: PlaceLeaders | None = None
    chance: float | None = None
    freely: float | None = None

    @property
    def step(self) -> Next | End:
        """The launch that comes next, or the end."""
        return self.steps if isinstance(self.steps, End) else self.steps[0]

    @property
    def batch(self) -> tuple[Next, ...]:
        """All launches to measure now; empty where the search is over."""
        return () if isinstance(self.steps, End) else self.steps

    @property
    def decided(self) -> bool:
        """Whether the search is over and has its answer."""
        return isinstance(self.steps, End) and self.steps.decided

    @property
    def dropped(self) -> tuple[str, ...]:
        """The arms on which no launch is spent any more."""
        if self.now is None:
            return ()
        places = np.flatnonzero(self.now.dropped(self.aim.error))
        return tuple(self.space.arms[at].label for at in places)

    def settling(self) -> Settling | None:
        """Return what a search that is open still needs, if every arm could be measured again; None
        while it is screening."""
        if self.belief is None or self.now is None:
            return None
        inner = _within(self.space, self.aim)
        return settling(
            self.space, replace(self.seen, closed=frozenset()), self.belief, self.now, inner
        )


def spent(space: Space, seen: SeenLaunches) -> float:
    """Return the minutes that launches took, by what the space says of their costs, and those of what
    failed."""
    return sum(space.minutes(launch.measured) for launch in seen.launches) + seen.lost_min


def state(space: Space, seen: SeenLaunches, aim: Aim, at_once: int = 1) -> SearchState:
    """Return what is known and what to do next, with up to ``at_once`` launches side by side. It
    depends on what was measured alone, so that a search that was killed goes on where it stopped."""
    left = aim.budget_min - spent(space, seen)
    screen = _lacking(space, seen)
    if screen:
        return SearchState(space, seen, aim, _within_minutes(screen, left, at_once))
    belief = believe(space, seen)
    now = standing(belief, seen, aim)
    after = SearchState(space, seen, aim, End(False, "all out"), belief, now)
    if len(seen.out) == len(space.arms) - 1:
        return after
    inner = _within(space, aim)
    if now.open <= inner.error:
        return replace(after, steps=_checks(space, seen, now, left, at_once))
    used, chance, freely = 1 - left / aim.budget_min, None, None
    if used >= _FORESEEN_FROM:
        chance = chance_of_deciding(space, seen, belief, now, inner, left)
        if chance < UNLIKELY and seen.closed:
            freely = chance_of_deciding(
                space, replace(seen, closed=frozenset()), belief, now, inner, left
            )
    steps: tuple[Next, ...] | End
    if chance is None or used < _JUDGED_FROM or chance >= HOPELESS:
        steps = _raced(space, seen, belief, now, inner, left, at_once)
    elif freely is not None and freely >= HOPELESS:
        # Arms that would decide cannot be measured again.
        steps = End(False, "nothing left")
    else:
        steps = End(False, "noise" if left > space.start_min + space.cell_min.min() else "budget")
    return replace(after, steps=steps, chance=chance, freely=freely)


def _within(space: Space, aim: Aim) -> Aim:
    share = _OF_ERROR if len(space.families()) == 1 else _OF_ERROR_MANY
    return replace(aim, error=share * aim.error)


def _within_minutes(steps: Iterable[Next], left: float, at_once: int) -> tuple[Next, ...] | End:
    fitting: list[Next] = []
    for step in steps:
        if len(fitting) == at_once or step.minutes > left:
            break
        fitting.append(step)
        left -= step.minutes
    return tuple(fitting) or End(False, "budget")


def _checks(
    space: Space, seen: SeenLaunches, now: PlaceLeaders, left: float, at_once: int
) -> tuple[Next, ...] | End:
    """Return the winners to measure where they were only reckoned so far, or the end: decided where there
    is none left, and open where one cannot be measured any more."""
    measured = np.zeros(now.risk.shape, dtype=np.bool_)
    for launch in seen.launches:
        measured[launch.arm] |= launch.measured
    reckoned = ~measured[now.lead, np.arange(len(space.places))]
    if not reckoned.any():
        return End(True, "settled")
    wanted = [(arm, (now.lead == arm) & ~measured[arm]) for arm in np.unique(now.lead[reckoned])]
    able = [
        Next(int(arm), lacking, space.minutes(lacking), "check")
        for arm, lacking in wanted
        if arm not in seen.closed
    ]
    return _within_minutes(able, left, at_once) if able else End(False, "nothing left")


def _raced(
    space: Space,
    seen: SeenLaunches,
    belief: Belief,
    now: PlaceLeaders,
    aim: Aim,
    left: float,
    at_once: int,
) -> tuple[Next, ...] | End:
    """Return the launches to measure together, the best first, or why none can be measured.

    Each further one is weighed as if those before it were measured and every mean stayed, so that it
    tells something else; none is added once those before it are expected to be enough.
    """
    (guessed, launch), leaders, rest = _as_normal(belief), now, seen
    chosen: list[Next] = []
    while len(chosen) < at_once:
        every = _options_by_worth(space, guessed, launch, rest, leaders, aim)
        best = next((option for option in every if option.minutes <= left), None)
        if best is None or (chosen and not best.worth > 0):
            break
        chosen.append(best)
        if seen.left is not None:
            arms = [option.arm for option in chosen]
            gone = {arm for arm in arms if arms.count(arm) >= seen.left[arm]}
            rest = replace(seen, closed=seen.closed.union(gone))
        left, guessed = left - best.minutes, _cov_after(guessed, launch, best)
        leaders = _standing_at(guessed, now, aim)
        if leaders.risk.sum() <= aim.error:
            break
    if chosen:
        return tuple(chosen)
    any_left = next(options(space, seen, now, aim), None) is not None
    return End(False, "budget" if any_left else "nothing left")


def _lacking(space: Space, seen: SeenLaunches) -> list[Next]:
    """Return the launches of the screening that were not measured; of the baseline, whose launch
    may have been cut short, every place is needed."""
    done = {launch.arm for launch in seen.launches}
    of_baseline = [launch.measured for launch in seen.launches if launch.arm == BASELINE]
    again = []
    if of_baseline and not (covered := np.any(of_baseline, axis=0)).all():
        again = [Next(BASELINE, ~covered, space.minutes(~covered), "screen")]
    return again + [step for step in screening(space, seen.out) if step.arm not in done]


def screening(space: Space, out: frozenset[int]) -> list[Next]:
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
