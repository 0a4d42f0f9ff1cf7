"""What is known of each candidate of a search: where it leads, may still win, or why it is out."""

from collections.abc import Iterator, Mapping

import numpy as np

from analysis.search.proof import Standing
from analysis.search.race import End, State
from analysis.search.space import BASELINE, Aim, Seen, Space
from answers.search.values import Candidate
from answers.search.words import where
from answers.wording import percent


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
