"""What the rest of a budget can be expected to bring: the chance that it decides.

The launches that the rest pays for are chosen as the race would choose them if every mean stayed where
it is expected. What they will say is then drawn from the belief (the preposterior distribution,
Raiffa and Schlaifer 1961, chapter 5), and it is counted how often that decides.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from analysis.search.belief import Belief
from analysis.search.settling import after, standing_at
from analysis.search.space import Aim, Floats, Seen, Space
from analysis.search.standing import Standing
from analysis.search.worth import guess, options, weighed

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
