"""What is known after some launches, place by place, and the launch that comes next."""

from collections.abc import Iterator, Mapping

import numpy as np

from analysis.search.prior import Mix, mixed
from analysis.search.proof import Standing, promised
from analysis.search.race import End, Next, State
from analysis.search.space import BASELINE, Aim, Floats, Seen, Space
from answers.decide.answer import mix_weights
from answers.search.values import Candidate, Found, Step, Terms
from answers.search.words import where
from answers.wording import percent
from warehouse.errors import InvalidInput

# --- What is known of each candidate of a search: where it leads, may still win, or why it is out.


def candidates(
    known: tuple[Space, Seen, Aim], now: State, gone: Mapping[str, str]
) -> tuple[Candidate, ...]:
    """Return every arm of a search, the baseline first. ``gone``: arm -> why it is out."""
    space, seen, _ = known
    return tuple(
        Candidate(
            arm.label, sum(launch.arm == at for launch in seen.launches),
            *((None, None) if at in seen.out else _gains(now, at)),
            f"out: {gone.get(arm.label, 'it was never measured')}" if at in seen.out else
            "; ".join(_states(known, now, at)),
        )
        for at, arm in enumerate(space.arms)
    )  # fmt: skip


def _gains(now: State, arm: int) -> tuple[float | None, float | None]:
    if now.belief is None or arm == BASELINE:
        return None, None
    expected = now.belief.expected
    gain = np.expm1(expected[arm] - expected[BASELINE])
    return float(gain.min()), float(gain.max())


def _states(known: tuple[Space, Seen, Aim], now: State, arm: int) -> Iterator[str]:
    """Yield what is to be said of an arm, in words."""
    space, seen, aim = known
    if seen.barred is not None and seen.barred[arm].any():
        yield f"breaks the SLO {where(space, seen.barred[arm])}"
    if now.now is None:
        measured = any(launch.arm == arm for launch in seen.launches)
        yield "measured" if measured else "not measured yet"
    else:
        yield from _standings(
            space, now.now, arm, None if (isinstance(now.step, End) and now.step.decided) else aim
        )


def _standings(space: Space, now: Standing, arm: int, aim: Aim | None) -> Iterator[str]:
    """Yield where an arm leads and where it may still win. ``aim``: None where all is decided."""
    leads = now.lead == arm
    if leads.any():
        yield f"leads {where(space, leads)}"
    if aim is not None:
        share = aim.error / (2 * len(space.places))
        if (rival := now.risk[arm] > share).any():
            chance = percent(min(float(now.risk[arm].max()), 1.0), sign=False)
            yield f"may win {where(space, rival)} (chance {chance} at most)"
        elif now.dropped(aim.error)[arm]:
            yield "cannot win any more"
        elif not leads.any():
            yield "behind"
    elif not leads.any():
        yield "behind"


# --- What is known after some launches, place by place, and the launch that comes next.


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
