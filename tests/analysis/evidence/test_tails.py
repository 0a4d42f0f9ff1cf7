"""Where two variances are known differently well: tails between those of both."""

import numpy as np
import pytest
from scipy.stats import t as student

from analysis.evidence.launches import Tails


def tails(share: float, dof: float, rest_dof: float) -> Tails:
    return Tails(np.array([share]), np.array([dof]), np.array([rest_dof]))


def test_one_part_alone_is_student_s_t() -> None:
    assert tails(1.0, 4, 4).reach(0.05)[0] == pytest.approx(student.ppf(0.975, 4))
    assert tails(0.0, 4, 20).reach(0.05)[0] == pytest.approx(student.ppf(0.975, 20))


def test_a_tail_is_the_mean_of_both_by_their_shares() -> None:
    expected = 0.25 * student.sf(3, 4) + 0.75 * student.sf(3, 20)
    assert tails(0.25, 4, 20).above(np.array([3.0]))[0] == pytest.approx(expected)


@pytest.mark.parametrize("rate", [0.2, 0.05, 0.001, 1e-5])
def test_the_reach_leaves_the_rate_outside(rate: float) -> None:
    found = tails(0.3, 2, 30)
    assert 2 * found.above(found.reach(rate))[0] == pytest.approx(rate, rel=1e-6)


def test_nothing_is_known_where_nothing_repeats() -> None:
    found = tails(1.0, 0, 0)
    assert np.isnan(found.reach(0.05)[0])
    assert np.isnan(found.above(np.array([1.0]))[0])
