"""What is worth measuring next: what a launch would tell, what would settle it, what the budget can bring.

The launches that the rest pays for are chosen as the race would choose them if every mean stayed where
it is expected. What they will say is then drawn from the belief (the preposterior distribution,
Raiffa and Schlaifer 1961, chapter 5), and it is counted how often that decides.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from analysis.search.belief import Belief
from analysis.search.proof import Standing
from analysis.search.space import Aim, Floats, Seen, Space

# --- What one more launch would tell, for the minutes that it takes.


Places = NDArray[np.bool_]
#: Rivals less likely than this to matter are not counted when a launch is weighed.
_FAINT = 1e-6


@dataclass(frozen=True)
class Option:
    """A launch that could be next: ``worth`` is the open chance that it is expected to remove for
    each minute."""

    arm: int
    places: Places
    minutes: float
    worth: float


@dataclass(frozen=True)
class Guess:
    """The belief as one normal distribution: means and covariance over the sizes of the noise, and
    the covariance of a launch's values."""

    cov: Floats
    launch: Floats


def guess(belief: Belief) -> Guess:
    """Return the mixture's mean covariance and noise."""
    noise = belief.weight @ belief.noise
    shared = float(belief.weight @ belief.shared)
    cov = np.tensordot(belief.weight, belief.cov, 1)
    return Guess(cov, np.diag(noise) + shared)


def options(space: Space, seen: Seen, now: Standing, aim: Aim) -> Iterator[tuple[int, Places]]:
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


def weighed(
    space: Space, known: Guess, now: Standing, aim: Aim, each: Iterator[tuple[int, Places]]
) -> list[Option]:
    """Return the launches with what each is worth, the best first."""
    contrast, behind, risk = _contrasts(known.cov, now)
    before = np.maximum((contrast[1] ** 2), 1e-12)
    found = []
    for arm, places in each:
        cells = arm * len(space.places) + np.flatnonzero(places)
        told = contrast[0][:, cells]
        inner = known.cov[np.ix_(cells, cells)] + known.launch[np.ix_(places, places)]
        gone = np.minimum((told @ np.linalg.inv(inner) * told).sum(axis=1), before)
        worth = float((risk * _removed(behind, before, gone, aim)).sum())
        minutes = space.minutes(places)
        found.append(Option(arm, places, minutes, worth / minutes))
    return sorted(found, key=lambda one: -one.worth)


def _contrasts(cov: Floats, now: Standing) -> tuple[tuple[Floats, Floats], Floats, Floats]:
    """Return of every rival that matters: its covariances with all states less those of its lead,
    and the standard deviation of their distance; how far it is behind; its risk."""
    places = now.risk.shape[1]
    arm, place = np.nonzero(now.risk > _FAINT)
    rival, lead = arm * places + place, now.lead[place] * places + place
    rows = cov[rival] - cov[lead]
    spread = rows[np.arange(len(arm)), rival] - rows[np.arange(len(arm)), lead]
    return (rows, np.sqrt(np.maximum(spread, 0))), now.behind[arm, place], now.risk[arm, place]


def _removed(behind: Floats, before: Floats, gone: Floats, aim: Aim) -> Floats:
    """Return the share of a rival's risk that goes when ``gone`` of the variance ``before`` goes
    and its mean stays: a normal tail falls as exp(-distance^2 / (2 variance))."""
    far = behind - np.log1p(aim.stake)
    after = np.maximum(before - gone, 1e-12)
    return np.asarray(-np.expm1(-0.5 * far**2 * (1 / after - 1 / before)))


# --- What would settle what is open: the launches still needed if every speed is as expected.


#: More launches than this are not counted: look into the noise instead.
MOST = 60


@dataclass(frozen=True)
class Settling:
    """What it still takes to settle a search: ``launches`` and ``minutes``; None for more than
    MOST."""

    launches: int | None
    minutes: float | None


def settling(space: Space, seen: Seen, belief: Belief, now: Standing, aim: Aim) -> Settling:
    """Return what is still needed if every mean stays where it is expected.

    Each launch takes away variance as the belief says; the noise is taken at its mean size. It is at
    least one launch: give what is still open.
    """
    known, minutes = guess(belief), 0.0
    for count in range(MOST + 1):
        then = standing_at(known.cov, now, aim)
        if count and then.risk.sum() <= aim.error:
            return Settling(count, minutes)
        every = weighed(space, known, then, aim, options(space, seen, then, aim))
        if not every or not every[0].worth > 0:
            break
        known, minutes = after(known, every[0]), minutes + every[0].minutes
    return Settling(None, None)


def after(known: Guess, one: Option) -> Guess:
    """Return what would be known after a launch: its variance goes, the means stay."""
    places = one.places
    cells = one.arm * len(places) + np.flatnonzero(places)
    seen = known.cov[:, cells]
    inner = known.cov[np.ix_(cells, cells)] + known.launch[np.ix_(places, places)]
    return Guess(known.cov - seen @ np.linalg.solve(inner, seen.T), known.launch)


def standing_at(cov: Floats, now: Standing, aim: Aim) -> Standing:
    """Return the standing if what is known has this covariance and the means of now; ``open`` is as it
    was."""
    risk = _risk_at(cov, now, aim)
    return replace(now, risk=risk, of_place=risk.sum(axis=0))


def _risk_at(cov: Floats, now: Standing, aim: Aim) -> Floats:
    """Return (arms, places): the chance that an arm beats the lead by more than the stake, if what is
    known has this covariance and the means of now."""
    arms, places = now.risk.shape
    at = np.arange(arms * places).reshape(arms, places)
    best = at[now.lead, np.arange(places)]
    variance = cov[at, at] + cov[best, best][None] - 2 * cov[at, best[None]]
    far = now.behind - np.log1p(aim.stake)
    risk = np.where(np.isfinite(far), ndtr(far / np.sqrt(np.maximum(variance, 1e-12))), 0.0)
    risk[now.lead, np.arange(places)] = 0.0
    return np.asarray(risk)


# --- What the rest of a budget can be expected to bring: the chance that it decides.


#: So many futures are drawn for each of so many sizes of the noise, always from the same numbers.
_FUTURES, _SIZES = 16, 20
#: How often it is looked on the way whether the search is decided.
_LOOKS = 6
#: The launches to come are chosen in about so many rounds at most, several alike in each.
_ROUNDS = 30


@dataclass(frozen=True)
class _Ahead:
    """The cells of the launches to come: ``state`` and ``place`` of each, ``launch`` its launch.
    ``stops``: after how many cells it is looked."""

    state: NDArray[np.int64]
    place: NDArray[np.int64]
    launch: NDArray[np.int64]
    stops: tuple[int, ...]


def chance_of_deciding(
    space: Space, seen: Seen, known: tuple[Belief, Standing], aim: Aim, left: float
) -> float:
    """Return the chance (0-1) that ``left`` more minutes decide what is open.

    It is rather too small: the race chooses anew after every launch.
    """
    belief, now = known
    ahead = _ahead(space, seen, known, aim, left)
    if ahead is None:
        return 0.0
    drawn = np.random.default_rng(0).standard_normal((_SIZES, _FUTURES, len(ahead.state)))
    sizes = np.searchsorted(np.cumsum(belief.weight), (np.arange(_SIZES) + 0.5) / _SIZES)
    # Chances of rivals that err together do not add up: as much less as now.
    less = now.open / max(float(now.risk.sum()), 1e-12)
    inner = replace(aim, error=aim.error / max(less, 1e-12))
    sizes = np.minimum(sizes, len(belief.weight) - 1)
    decided = [
        _decided(belief, int(size), ahead, future, (seen.shut, inner)).mean()
        for size, future in zip(sizes, drawn, strict=True)
    ]
    return float(np.mean(decided))


def _ahead(
    space: Space, seen: Seen, known: tuple[Belief, Standing], aim: Aim, left: float
) -> _Ahead | None:
    """Return the launches for which the minutes do; None without one."""
    belief, now = known
    guessed = guess(belief)
    chosen: list[tuple[int, NDArray[np.int64]]] = []
    cheapest = space.start_min + float(space.cell_min.min())
    alike = max(1, int(left // (_ROUNDS * cheapest)))
    while True:
        then = standing_at(guessed.cov, now, aim)
        every = weighed(space, guessed, then, aim, options(space, seen, then, aim))
        best = next((one for one in every if one.minutes <= left and one.worth > 0), None)
        if best is None:
            return _cells(chosen, len(space.places)) if chosen else None
        for _ in range(min(alike, int(left // best.minutes))):
            left -= best.minutes
            chosen.append((best.arm, np.flatnonzero(best.places)))
            guessed = after(guessed, best)


def _cells(chosen: list[tuple[int, NDArray[np.int64]]], places: int) -> _Ahead:
    many = np.array([len(at) for _, at in chosen])
    ends = np.cumsum(many)
    looks = np.unique(np.linspace(0, len(ends), _LOOKS + 1).round().astype(int)[1:] - 1)
    return _Ahead(
        np.concatenate([arm * places + at for arm, at in chosen]),
        np.concatenate([at for _, at in chosen]),
        np.repeat(np.arange(len(chosen)), many),
        tuple(int(ends[look]) for look in looks if look >= 0),
    )


def _decided(
    belief: Belief, size: int, ahead: _Ahead, drawn: Floats, aim: tuple[NDArray[np.bool_], Aim]
) -> NDArray[np.bool_]:
    """Return (futures,): whether a search would be decided on the way, if the noise had this
    size."""
    cov, mean = belief.cov[size], belief.mean[size].ravel()
    alike = ahead.launch[:, None] == ahead.launch[None, :]
    inner = cov[np.ix_(ahead.state, ahead.state)] + belief.shared[size] * alike
    inner[np.diag_indices(len(inner))] += belief.noise[size][ahead.place]
    root = np.linalg.solve(np.linalg.cholesky(inner), cov[ahead.state])
    over = np.zeros(len(drawn), dtype=np.bool_)
    for until in ahead.stops:
        told = root[:until]
        future = mean + drawn[:, :until] @ told
        over |= _risk(future, cov - told.T @ told, *aim) <= aim[1].error
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
