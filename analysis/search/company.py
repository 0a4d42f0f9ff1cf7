"""Launches that are measured side by side, chosen together."""

from dataclasses import replace

from analysis.search.belief import Belief
from analysis.search.settling import after, standing_at
from analysis.search.space import Aim, Seen, Space
from analysis.search.standing import Standing
from analysis.search.worth import Option, guess, options, weighed


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
