"""What is known after some launches, place by place, and the launch that comes next."""

import numpy as np

from analysis.search.proof import promised
from analysis.search.race import End, Next, State
from analysis.search.space import BASELINE, Aim, Floats, Space
from answers.search.values import Found, Step
from answers.search.words import where


def found_at(space: Space, aim: Aim, now: State) -> tuple[Found, ...]:
    """Return what is known at each place; nothing where the search ended while it was screening."""
    if now.belief is None or now.now is None:
        return ()
    told, share = now.now, aim.error / len(space.places)
    gain = promised(now.belief, told.lead, np.full(len(space.places), BASELINE))
    found = []
    for at, place in enumerate(space.places):
        lead, rival = int(told.lead[at]), int(told.risk[:, at].argmax())
        chance = float(told.of_place[at])
        settled = now.step == End(True, "settled") or chance <= share
        found.append(
            Found(
                place.traffic, place.load, space.arms[lead].label,
                *gain.ratios(at), chance, settled,
                None if settled else space.arms[rival].label, _alike(space, told.behind[:, at], aim),
                meets=bool(np.isfinite(told.behind[lead, at])),
            )
        )  # fmt: skip
    return tuple(found)


def _alike(space: Space, behind: Floats, aim: Aim) -> tuple[str, ...]:
    near = np.flatnonzero((behind < 0) & (behind >= -np.log1p(aim.stake)))
    return tuple(space.arms[arm].label for arm in near)


def step_of(space: Space, now: State, one: Next) -> Step:
    """Return a launch that comes next."""
    return Step(
        space.arms[one.arm].label, where(space, one.places), one.minutes, one.why,
        None if now.now is None else now.now.open,
    )  # fmt: skip
