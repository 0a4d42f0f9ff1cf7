"""What a wrong choice may cost, and how many launches would tell: worked by hand."""

import numpy as np
import pytest
from scipy.stats import t as student

from analysis.choice.expected import Candidate, Field
from analysis.choice.pick import MOST_LAUNCHES, at_stake, launches_needed, launches_until
from analysis.evidence.launches import Tails

#: Two rivals at two loads, each of 4 launches with a variance of 0.0008 of one launch's value.
GAINS = np.array([[0.10, -0.02], [0.06, 0.03]])
VARIANCE, LAUNCHES, DOF = 0.0008, 4, 6


def field(variance: float = VARIANCE, dof: float = DOF) -> Field:
    shape = GAINS.shape
    names = tuple(Candidate(at, f"arm {at}", "draft", at + 1) for at in range(len(GAINS)))
    return Field(
        names, GAINS, np.full(shape, float(LAUNCHES)), np.full(shape, variance),
        Tails(np.ones(shape), np.full(shape, dof), np.full(shape, dof)), np.zeros(len(GAINS)), np.full(shape, np.nan),
    )  # fmt: skip


#: Of 20 cases one may lie above: the end of the difference of two means of 4 launches.
REACH = student.ppf(0.95, DOF) * np.sqrt(2 * VARIANCE / LAUNCHES)


def test_a_rival_may_beat_the_choice_by_what_it_gains_more_and_by_chance() -> None:
    assert at_stake(field(), GAINS, 0, 0) == pytest.approx([-np.inf, 0.06 - 0.10 + REACH])
    assert at_stake(field(), GAINS, 1, 0) == pytest.approx([-np.inf, 0.03 + 0.02 + REACH])


def test_where_the_baseline_is_taken_every_arm_is_its_rival() -> None:
    assert at_stake(field(), GAINS, 0, None) == pytest.approx([0.10 + REACH, 0.06 + REACH])


def test_where_nothing_repeats_nobody_knows_what_is_at_stake() -> None:
    assert np.isnan(at_stake(field(dof=0), GAINS, 0, None)).all()


def reach(total: int, variance: float, chance: float) -> float:
    """The end of the difference of two means of so many launches."""
    return float(student.ppf(1 - chance, 2 * (total - 1)) * np.sqrt(2 * variance / total))


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("more", [1, 5, MOST_LAUNCHES])
def test_so_many_launches_settle_a_difference_and_one_less_does_not(more: int, sign: int) -> None:
    enough, too_few = (reach(3 + n, 0.002, 0.025) for n in (more, more - 1))
    size = sign * (enough + (too_few - enough) / 100)

    assert launches_needed(size, 0.002, 3, 0.05) == more


def test_a_difference_as_large_as_the_reach_is_not_settled_yet() -> None:
    assert launches_needed(reach(MOST_LAUNCHES + 3, 0.002, 0.025), 0.002, 3, 0.05) is None


@pytest.mark.parametrize("variance", [0.0, np.nan, np.inf])
def test_without_a_known_variance_no_number_of_launches_is_told(variance: float) -> None:
    assert launches_needed(0.1, variance, 3, 0.05) is None
    assert launches_until(-0.1, variance, 3, 0.02) is None


def test_no_difference_is_settled_by_no_number_of_launches() -> None:
    assert launches_needed(0.0, 0.002, 3, 0.05) is None


@pytest.mark.parametrize("more", [1, 5, MOST_LAUNCHES])
def test_so_many_launches_rule_out_that_the_one_behind_is_better(more: int) -> None:
    # Behind by so much that its upper end falls below 2 % better just then.
    enough, too_few = (reach(3 + n, 0.002, 0.05) for n in (more, more - 1))
    behind = float(np.log(1.02)) - enough - (too_few - enough) / 100

    assert launches_until(behind, 0.002, 3, 0.02) == more


def test_what_is_hardly_behind_is_never_ruled_out() -> None:
    assert launches_until(0.0, 0.002, 3, 0.02) is None
