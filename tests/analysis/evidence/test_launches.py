"""How much a launch scatters: residuals and variances worked by hand."""

import numpy as np
import pytest

from analysis.evidence.launches import Residuals, balanced_residuals, loose_residuals, spread

#: One series, two arms, two loads, two rounds. At load 1 the second arm gains 0.4 in round 2, so its
#: residuals are ± 0.1; at load 2 nothing is left.
VALUES = np.array([[[[0.0, 0.0], [1.0, 1.5]], [[0.0, 0.4], [2.0, 2.5]]]])


def test_residuals_are_what_arm_and_round_means_leave() -> None:
    found = balanced_residuals(VALUES)

    # Load 1: ± 0.1 in each of four cells; load 2: none. The launch's mean is ± 0.05.
    assert found.total == pytest.approx(np.array([[0.04, 0.0]]))
    assert found.launch == pytest.approx([4 * 0.05**2])
    assert found.within == pytest.approx(np.array([[0.01, 0.01]]))
    assert found.dof.tolist() == [1.0]


def test_a_study_without_gaps_gives_the_same_residuals_either_way() -> None:
    draw = np.random.default_rng(1)
    whole = draw.normal(size=(1, 3, 4, 5))
    flat = whole[0].transpose(0, 2, 1).reshape(15, 4)
    arm, rounds = np.repeat(np.arange(3), 5), np.tile(np.arange(5), 3)

    balanced, loose = balanced_residuals(whole), loose_residuals(flat, arm, rounds)

    for name in ("total", "within", "launch", "dof"):
        assert getattr(loose, name) == pytest.approx(getattr(balanced, name))


def test_a_gap_takes_a_degree_of_freedom_and_never_adds_one() -> None:
    draw = np.random.default_rng(2)
    flat = draw.normal(size=(6, 2))
    flat[5, 1] = np.nan
    arm, rounds = np.repeat(np.arange(2), 3), np.tile(np.arange(3), 2)

    found = loose_residuals(flat, arm, rounds)

    assert found.dof.tolist() == [1.0]


def test_the_mean_over_loads_has_the_variance_of_the_launches_own_means() -> None:
    found = spread(balanced_residuals(np.random.default_rng(3).normal(size=(1, 4, 6, 3))))
    again = balanced_residuals(np.random.default_rng(3).normal(size=(1, 4, 6, 3)))

    assert found.mean == pytest.approx(again.launch / 6)
    assert found.dof.tolist() == [6.0]


def test_the_variance_of_a_level_has_a_part_of_the_launch_and_one_of_its_own() -> None:
    # Four loads with the same noise, so that they share one variance, and a launch part.
    dof, loads = 6.0, 4
    launch, noise = 0.5, 1.0
    within = np.full((1, loads), noise * (1 - 1 / loads) * dof)
    total = within + launch * dof
    found = spread(Residuals(total, within, np.array([launch * dof]), np.array([dof])))

    rest = noise * (1 - 1 / loads)
    assert found.level[0] == pytest.approx(launch + rest)
    assert found.share[0] == pytest.approx(launch / (launch + rest))
    assert found.rest_dof[0] == pytest.approx(dof * (loads - 1))


def test_one_degree_of_freedom_leaves_each_load_to_student() -> None:
    found = spread(balanced_residuals(VALUES))

    assert found.level[0] == pytest.approx([0.04, 0.0])
    assert (found.dof.tolist(), found.share[0].tolist()) == ([1.0], [1.0, 1.0])


def test_one_round_says_nothing_of_noise() -> None:
    found = spread(balanced_residuals(np.zeros((1, 2, 3, 1))))

    assert found.dof.tolist() == [0.0]
