"""A search step by step, on servers whose truth is known here."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import ndtr

from analysis.search.belief import Belief, acceptance_lengths, believe
from analysis.search.proof import proof, standing
from analysis.search.race import (
    End,
    Next,
    SearchState,
    chance_of_deciding,
    options,
    settling,
    state,
)
from analysis.search.space import (
    AcceptanceLengths,
    Aim,
    Floats,
    MeasuredLaunch,
    SearchArm,
    SearchPlace,
    SeenLaunches,
    Space,
)

LOADS = (1.0, 8.0, 64.0)
SPACE = Space(
    (SearchArm("baseline", "", 0), *(SearchArm(f"K={k}", "draft", k) for k in (1, 3, 5))),
    tuple(SearchPlace("code", load) for load in LOADS), 3.0, np.full(3, 2.0),
)  # fmt: skip
EVERYWHERE = np.ones(3, dtype=np.bool_)
#: Log speeds (arms, places) and mean acceptance lengths of a draft that is accepted at 0.7.
LENGTH = np.array([[(1 - 0.7 ** (k + 1)) / 0.3] * 3 for k in (0, 1, 3, 5)])
STEP = np.array([[0.0, 0.0, 0.0], [0.08, 0.1, 0.3], [0.2, 0.3, 0.8], [0.35, 0.5, 1.2]])
SPEED = np.log(LENGTH) - STEP
SURE = AcceptanceLengths(LENGTH, np.zeros(LENGTH.shape))


def played(
    speed: Floats, noise: float, aim: Aim, out: frozenset[int] = frozenset()
) -> tuple[SearchState, tuple[MeasuredLaunch, ...]]:
    random = np.random.default_rng(7)
    launches: tuple[MeasuredLaunch, ...] = ()
    while isinstance((now := state(SPACE, SeenLaunches(launches, SURE, out), aim)).step, Next):
        step = now.step
        value = speed[step.arm] + noise * random.standard_normal(3)
        launches = (*launches, MeasuredLaunch(step.arm, np.where(step.places, value, np.nan)))
    return now, launches


def test_a_search_begins_with_the_baseline_everywhere_and_the_longest_draft_at_both_ends() -> None:
    aim = Aim(0.02, 0.05, 500.0)
    first = state(SPACE, SeenLaunches((), SURE), aim).step
    assert isinstance(first, Next)
    assert (first.arm, first.why, first.minutes) == (0, "screen", 9.0)
    second = state(SPACE, SeenLaunches((MeasuredLaunch(0, SPEED[0]),), SURE), aim).step
    assert isinstance(second, Next)
    assert (second.arm, second.places.tolist()) == (3, [True, False, True])


def test_it_finds_the_best_arm_of_each_load_and_has_measured_it_there() -> None:
    now, launches = played(SPEED, 0.01, Aim(0.02, 0.05, 500.0))
    assert now.step == End(True, "settled")
    assert now.now is not None
    lead = now.now.lead
    assert (SPEED.max(axis=0) - SPEED[lead, range(3)] < np.log(1.02)).all()
    for place in range(3):
        assert any(one.arm == lead[place] and one.measured[place] for one in launches)


def test_equal_arms_end_by_the_stake_and_not_by_the_budget() -> None:
    speed = np.log(LENGTH) - np.log(LENGTH)
    now, _ = played(speed, 0.02, Aim(0.05, 0.05, 500.0))
    assert now.step == End(True, "settled")


def test_noise_that_forbids_a_decision_is_told_before_half_the_budget_is_spent() -> None:
    aim = Aim(0.005, 0.05, 108.0)
    speed = np.log(LENGTH) - np.log(LENGTH)
    now, launches = played(speed, 0.12, aim)
    assert now.step == End(False, "noise")
    assert sum(SPACE.minutes(one.measured) for one in launches) <= 0.5 * aim.budget_min
    assert now.belief is not None
    assert now.now is not None
    more = settling(SPACE, SeenLaunches(launches, SURE), now.belief, now.now, aim)
    assert more.minutes is None or more.minutes > aim.budget_min / 2


def test_the_chance_of_a_decision_follows_the_noise() -> None:
    """Arms that are equally fast: little noise will show it, much noise hardly can."""
    chances = []
    for noise in (0.01, 0.12):
        random = np.random.default_rng(5)
        launches = tuple(
            MeasuredLaunch(arm, noise * random.standard_normal(3))
            for _ in range(2)
            for arm in range(4)
        )
        seen, aim = SeenLaunches(launches, SURE), Aim(0.02, 0.05, 1000.0)
        belief = believe(SPACE, seen)
        now = standing(belief, seen, aim)
        chances.append(chance_of_deciding(SPACE, seen, belief, now, aim, 72.0))
        assert chance_of_deciding(SPACE, seen, belief, now, aim, 1.0) == 0.0
    assert chances[0] > 0.3
    assert chances[1] < 0.1


@pytest.mark.parametrize(("noise", "why"), [(0.01, "nothing left"), (0.12, "noise")])
def test_arms_that_cannot_be_launched_again_are_told_from_noise(noise: float, why: str) -> None:
    """Half of the budget is spent, and no arm has a launch left."""
    random = np.random.default_rng(5)
    launches = tuple(
        MeasuredLaunch(arm, noise * random.standard_normal(3)) for _ in range(2) for arm in range(4)
    )
    seen, aim = SeenLaunches(launches, SURE), Aim(0.02, 0.05, 144.0)
    closed = state(SPACE, replace(seen, closed=frozenset(range(4))), aim)
    assert closed.step == End(False, why)
    assert closed.chance == 0.0
    free = state(SPACE, seen, aim)
    assert free.freely is None
    assert free.chance == closed.freely


def test_an_arm_that_breaks_the_slo_at_a_load_is_neither_taken_nor_measured_there() -> None:
    """K=3 wins at the lowest load."""
    barred = np.zeros(SPEED.shape, dtype=np.bool_)
    barred[SPEED[:, 0].argmax(), 0] = True
    launches = tuple(MeasuredLaunch(arm, SPEED[arm]) for arm in range(4))
    seen, aim = SeenLaunches(launches, SURE, barred=barred), Aim(0.001, 0.05, 900.0)
    now = state(SPACE, seen, aim)
    assert now.now is not None
    assert now.now.lead[0] != SPEED[:, 0].argmax()
    assert not now.now.risk[barred].any()
    asked = list(options(SPACE, seen, replace(now.now, of_place=np.ones(3)), aim))
    assert asked
    assert not any(places[0] for arm, places in asked if barred[arm, 0])


def test_a_load_at_which_every_arm_breaks_the_slo_is_settled_without_a_winner() -> None:
    barred = np.zeros(SPEED.shape, dtype=np.bool_)
    barred[:, 2] = True
    seen = SeenLaunches(
        tuple(MeasuredLaunch(arm, SPEED[arm]) for arm in range(4)), SURE, barred=barred
    )
    now = standing(believe(SPACE, seen), seen, Aim(0.02, 0.05, 900.0))
    assert now.of_place[2] == 0
    assert np.isneginf(now.behind[:, 2]).all()


def test_an_arm_that_is_out_costs_nothing_and_never_leads() -> None:
    now, launches = played(SPEED, 0.01, Aim(0.05, 0.05, 500.0), frozenset({3}))
    assert 3 not in {one.arm for one in launches}
    assert now.now is not None
    assert 3 not in now.now.lead


def test_a_budget_is_never_passed() -> None:
    aim = Aim(0.001, 0.05, 40.0)
    now, launches = played(SPEED, 0.05, aim)
    assert isinstance(now.step, End)
    assert not now.step.decided
    assert sum(SPACE.minutes(one.measured) for one in launches) <= aim.budget_min


def test_what_comes_next_follows_from_the_launches_alone() -> None:
    _, launches = played(SPEED, 0.03, Aim(0.02, 0.05, 500.0))
    cut = SeenLaunches(launches[:5], SURE)
    one, other = (state(SPACE, cut, Aim(0.02, 0.05, 500.0)).step for _ in range(2))
    assert isinstance(one, Next)
    assert isinstance(other, Next)
    assert (one.arm, one.places.tolist()) == (other.arm, other.places.tolist())
    assert one.arm == launches[5].arm


def test_many_launches_outweigh_whatever_was_held_for_likely() -> None:
    random = np.random.default_rng(3)
    odd = np.array([0.0, 0.0, 0.0]), np.array([0.9, -0.6, 0.4])
    launches = tuple(
        MeasuredLaunch(arm, odd[arm] + 0.02 * random.standard_normal(3))
        for _ in range(12)
        for arm in (0, 1)
    )
    belief = believe(SPACE, SeenLaunches(launches, SURE))
    gain = belief.expected[1] - belief.expected[0]
    assert gain == pytest.approx(odd[1], abs=0.03)
    noise = np.sqrt(belief.weight @ belief.noise)
    assert ((noise > 0.012) & (noise < 0.035)).all()
    assert np.sqrt(belief.weight @ belief.shared) < 0.02


def test_a_drift_is_named_where_it_is_sure() -> None:
    for drift in (0.0, 0.006):
        random = np.random.default_rng(4)
        launches = tuple(
            MeasuredLaunch(
                turn % 4, SPEED[turn % 4] + drift * turn + 0.005 * random.standard_normal(3)
            )
            for turn in range(24)
        )
        found = believe(SPACE, SeenLaunches(launches, SURE)).drifting
        assert (found > 0.002) == (drift > 0)
        assert found >= 0


def test_a_launch_effect_is_told_from_the_noise_of_cells() -> None:
    random = np.random.default_rng(4)
    launches = tuple(
        MeasuredLaunch(
            arm, SPEED[arm] + 0.06 * random.standard_normal() + 0.01 * random.standard_normal(3)
        )
        for _ in range(10)
        for arm in (0, 1, 2)
    )
    belief = believe(SPACE, SeenLaunches(launches, SURE))
    assert np.sqrt(belief.weight @ belief.shared) > 0.04
    assert (np.sqrt(belief.weight @ belief.noise) < 0.02).all()


def test_rivals_of_one_place_are_not_counted_twice() -> None:
    """Their chances are added up for the table; that anybody is better at all is less."""
    _, launches = played(SPEED, 0.02, Aim(0.02, 0.05, 500.0))
    seen = SeenLaunches(launches, SURE)
    now = standing(believe(SPACE, seen), seen, Aim(0.02, 0.05, 500.0))
    assert now.open <= now.risk.sum() + 1e-12
    assert now.risk[now.lead, range(3)].tolist() == [0.0, 0.0, 0.0]


def test_longer_drafts_tell_the_acceptance_of_shorter_ones_and_by_how_much_they_err() -> None:
    own = np.full((4, 3), np.nan)
    own[3], own[2] = 2.4, 2.1
    rates = np.full((4, 3, 5), np.nan)
    rates[3] = [0.6, 0.3, 0.2, 0.2, 0.1]
    told = acceptance_lengths(SPACE, own, rates, {0, 3})
    assert told.mean[:, 0].tolist() == pytest.approx([1.0, 1.6, 2.1, 2.4])
    assert told.doubt[:, 0].tolist() == pytest.approx([0.0, 0.01, 0.01, 0.0])
    own[2] = 2.1 * np.exp(0.03)
    told = acceptance_lengths(SPACE, own, rates, {0, 2, 3})
    assert told.mean[2, 0] == pytest.approx(2.1 * np.exp(0.03))
    # Root of the mean of the 1 % that is assumed and the 3 % that was seen, squared.
    assert told.doubt[1, 0] == pytest.approx(np.sqrt((0.01**2 + 0.03**2) / 2))


def test_a_load_that_nobody_counted_takes_the_acceptance_of_the_nearest() -> None:
    own = np.full((4, 3), np.nan)
    own[3] = [2.4, 2.8, np.nan]
    told = acceptance_lengths(SPACE, own, np.full((4, 3, 5), np.nan), {0, 3})
    assert told.mean[3].tolist() == pytest.approx([2.4, 2.8, 2.8])
    assert (told.doubt[1] > 0.3).all()


def known(noise: float) -> Belief:
    """A belief that knows the noise, and expects K=1 to gain a tenth everywhere."""
    mean = np.zeros((1, 4, 3))
    mean[0, 1] = 0.1
    return Belief(
        np.ones(1), mean, np.zeros((1, 12, 12)), np.full((1, 3), noise**2), np.zeros(1),
        np.zeros((1, 2)),
    )  # fmt: skip


def test_what_is_proven_stands_on_fresh_launches_alone() -> None:
    winner, baseline = np.full((2, 3), 0.06), np.zeros((2, 3))
    found = proof(known(0.02), np.array([1, 1, 1]), winner, baseline, 0.01)
    assert found.promised.mean.tolist() == pytest.approx([0.1] * 3)
    assert found.proven.mean.tolist() == pytest.approx([0.06] * 3)
    # Two launches of each: 1.96 x 0.02 x sqrt(1/2 + 1/2).
    reach = (found.proven.high - found.proven.mean).tolist()
    assert reach == pytest.approx([0.0392] * 3, abs=1e-4)
    # What is lacking, 0.03, is 1.5 standard deviations.
    assert found.surprise.tolist() == pytest.approx(
        [ndtr(-(0.04 + np.log(0.99)) / 0.02)] * 3, abs=1e-4
    )


def test_a_winner_is_proven_against_the_runner_up_as_against_the_baseline() -> None:
    found = proof(
        known(0.02), np.array([1, 1, 1]), np.full((2, 3), 0.06), np.full((2, 3), 0.01), 0.01,
        np.array([2, 2, 2]),
    )  # fmt: skip
    assert found.promised.mean.tolist() == pytest.approx([0.1] * 3)
    assert found.proven.mean.tolist() == pytest.approx([0.05] * 3)


def test_a_winner_that_falls_short_at_one_load_does_not_keep_its_promise() -> None:
    fresh = np.full((2, 3), 0.1)
    held = proof(known(0.02), np.array([1, 1, 1]), fresh, np.zeros((2, 3)), 0.02)
    assert held.kept(tests=3)
    fresh[:, 1] = 0.0
    short = proof(known(0.02), np.array([1, 1, 1]), fresh, np.zeros((2, 3)), 0.02)
    assert not short.kept(tests=3)
    assert short.surprise.argmin() == 1


def test_a_promise_that_was_vague_is_not_broken_by_what_it_left_open() -> None:
    """The fresh launches are 0.08 below what is expected: four standard deviations of theirs, and one of
    what the search knew."""
    sure = known(0.02)
    vague = replace(sure, cov=np.diag([0.0] * 3 + [0.08**2] * 9)[None])
    launches = np.full((2, 3), 0.02), np.zeros((2, 3))
    asked = np.array([1, 1, 1])
    assert not proof(sure, asked, *launches, 0.01).kept(tests=3)
    told = proof(vague, asked, *launches, 0.01)
    assert told.kept(tests=3)
    assert told.promised.low.tolist() == pytest.approx([0.1 - 1.96 * 0.08] * 3, abs=1e-3)


def batches(at_once: int, left: tuple[int, ...] | None = None) -> list[tuple[Next, ...]]:
    """What a search measures, batch by batch, on servers that scatter by 2 %."""
    random, found = np.random.default_rng(7), []
    launches: tuple[MeasuredLaunch, ...] = ()
    aim = Aim(0.02, 0.05, 200.0)
    while True:
        used = [one.arm for one in launches]
        rest = None if left is None else tuple(x - used.count(a) for a, x in enumerate(left))
        closed = frozenset(a for a, x in enumerate(rest or ()) if not x)
        now = state(SPACE, SeenLaunches(launches, SURE, closed=closed, left=rest), aim, at_once)
        if not now.batch:
            return found
        found.append(now.batch)
        for step in now.batch:
            value = SPEED[step.arm] + 0.02 * random.standard_normal(3)
            launches = (*launches, MeasuredLaunch(step.arm, np.where(step.places, value, np.nan)))


def test_launches_side_by_side_end_sooner_and_stay_within_the_budget() -> None:
    alone, beside = batches(1), batches(4)
    assert len(beside) < len(alone)
    assert [len(one) for one in alone] == [1] * len(alone)
    assert max(len(one) for one in beside) > 1
    assert all(len(one) <= 4 for one in beside)
    assert sum(step.minutes for one in beside for step in one) <= 200
    # The screening is known beforehand, so it is one batch.
    assert [(step.arm, step.why) for step in beside[0]] == [(0, "screen"), (3, "screen")]


def test_launches_side_by_side_tell_different_things() -> None:
    raced = [one for one in batches(4) if one[0].why == "race" and len(one) > 1]
    assert raced
    assert all(len({step.arm for step in one}) > 1 for one in raced)


def test_no_arm_is_launched_more_often_than_it_can_be() -> None:
    asked = [step.arm for one in batches(4, left=(2, 2, 2, 1)) for step in one]
    assert asked
    assert all(asked.count(arm) <= most for arm, most in enumerate((2, 2, 2, 1)))


def test_a_winner_that_cannot_be_measured_where_it_leads_is_open_and_not_decided() -> None:
    """K=3 leads at the middle load, where nobody measured it, and has no launch left."""
    ends = np.array([True, False, True])
    sure = np.where(ends, SPEED, np.nan)
    launches = tuple(
        MeasuredLaunch(arm, SPEED[arm] if arm in (0, 1, 3) else sure[arm])
        for _ in range(6)
        for arm in range(4)
    )
    aim = Aim(0.1, 0.05, 5000.0)
    free = state(SPACE, SeenLaunches(launches, SURE), aim)
    assert isinstance(free.step, Next)
    assert (free.step.why, free.step.arm, free.step.places.tolist()) == (
        "check",
        2,
        [False, True, False],
    )
    closed = state(SPACE, SeenLaunches(launches, SURE, closed=frozenset({2})), aim)
    assert closed.step == End(False, "nothing left")


def test_where_every_arm_is_out_nothing_is_decided() -> None:
    now, launches = played(SPEED, 0.01, Aim(0.02, 0.05, 500.0), out=frozenset({1, 2, 3}))
    assert now.step == End(False, "all out")
    assert [one.arm for one in launches] == [0]


def test_minutes_of_what_failed_are_spent() -> None:
    seen, aim = SeenLaunches((MeasuredLaunch(0, SPEED[0]),), SURE), Aim(0.02, 0.05, 100.0)
    assert isinstance(state(SPACE, seen, aim).step, Next)
    assert state(SPACE, replace(seen, lost_min=90.0), aim).step == End(False, "budget")
