"""What is known after some launches, place by place, and the launch that comes next."""

import numpy as np

from analysis.search.prior import Mix, mixed
from analysis.search.proof import promised
from analysis.search.race import End, Next, State
from analysis.search.space import BASELINE, Aim, Floats, Seen, Space
from answers.decide.mix import mix_weights
from answers.search.values import Found, Step, Terms
from answers.search.words import where
from warehouse.errors import InvalidInput


def mix_of(terms: Terms, space: Space) -> Mix | None:
    """Return the mix, None where each dataset is decided on its own. Raises InvalidInput for one that
    does not fit the datasets."""
    if not terms.mix:
        return None
    datasets = list(dict.fromkeys(place.traffic for place in space.places))
    mix = Mix(mix_weights(datasets, terms.mix), terms.latency)
    loads = {name: {one.load for one in space.places if one.traffic == name} for name in mix.share}
    if not set.intersection(*loads.values()):
        told = "; ".join(f"{name} at {_told(own)}" for name, own in loads.items())
        raise InvalidInput(
            f"--mix: its datasets share no load ({told}); measure them at the same loads, or leave --mix "
            "out and search each on its own."
        )
    return mix


def _told(loads: set[float]) -> str:
    return ", ".join(f"{load:g}" for load in sorted(loads))


def of_traffic(space: Space, seen: Seen, terms: Terms) -> tuple[Space, Seen]:
    """Return the places at which decisions are due, and what is known there."""
    mix = mix_of(terms, space)
    return (space, seen) if mix is None else mixed(space, seen, mix)


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
