"""What a search says of each of its candidates."""

import numpy as np

from analysis.search.proof import PlaceLeaders
from analysis.search.race import End, Next, SearchState
from analysis.search.space import (
    AcceptanceLengths,
    Aim,
    MeasuredLaunch,
    SearchArm,
    SearchPlace,
    SeenLaunches,
    Space,
)
from answers.search.live import candidates

ARMS = ("baseline", "k1", "k2", "k3", "k4")
SPACE = Space(
    tuple(SearchArm(name, "" if name == "baseline" else "draft", at) for at, name in enumerate(ARMS)),
    (SearchPlace("code", 1.0), SearchPlace("code", 16.0)), 1.0, np.ones(2),
)  # fmt: skip
AIM = Aim(0.02, 0.05, 100.0)
#: k3 leads alone and k1 under load, where k2 may win; the baseline cannot any more; k4 is out.
RISK = np.array([[0.0, 0.0], [0.004, 0.0], [0.0, 0.2], [0.0, 0.004], [0.0, 0.0]])
NOW = PlaceLeaders(np.array([3, 1]), RISK, np.zeros((5, 2)), RISK.sum(axis=0), 0.2)
NEXT = Next(2, np.array([False, True]), 2.0, "race")


def seen(*arms: int, barred: tuple[int, int] | None = None) -> SeenLaunches:
    shut = np.zeros((5, 2), dtype=np.bool_)
    if barred is not None:
        shut[barred] = True
    known = AcceptanceLengths(np.ones((5, 2)), np.zeros((5, 2)))
    return SeenLaunches(
        tuple(MeasuredLaunch(arm, np.zeros(2)) for arm in arms), known, frozenset({4}), barred=shut
    )


def states(
    known: SeenLaunches, step: Next | End = NEXT, now: PlaceLeaders | None = NOW
) -> dict[str, str]:
    steps = step if isinstance(step, End) else (step,)
    state = SearchState(SPACE, known, AIM, steps, None, now)
    found = candidates(state, {"k4": "code at 16: it crashed"})
    return {one.arm: one.state for one in found}


def test_while_it_races_it_says_who_leads_may_win_or_cannot() -> None:
    assert states(seen(0, 3, 1)) == {
        "baseline": "cannot win any more", "k1": "leads at 16",
        "k2": "may win at 16 (chance 20.0\u202f% at most)", "k3": "leads at 1",
        "k4": "out: code at 16: it crashed",
    }  # fmt: skip


def test_once_it_is_decided_nobody_may_win_any_more() -> None:
    found = states(seen(0, 3, 1), End(True, "settled"))

    assert (found["k1"], found["k2"], found["baseline"]) == ("leads at 16", "behind", "behind")


def test_while_it_screens_it_says_what_is_measured() -> None:
    found = states(seen(0), now=None)

    assert (found["baseline"], found["k3"]) == ("measured", "not measured yet")


def test_an_arm_that_breaks_the_slo_is_told_where() -> None:
    found = states(seen(0, 3, 1, barred=(2, 0)))

    assert found["k2"] == "breaks the SLO at 1; may win at 16 (chance 20.0\u202f% at most)"


def test_launches_are_counted() -> None:
    found = candidates(SearchState(SPACE, seen(0, 3, 3), AIM, (NEXT,), None, NOW), {})

    assert [one.launches for one in found] == [1, 0, 0, 2, 0]
