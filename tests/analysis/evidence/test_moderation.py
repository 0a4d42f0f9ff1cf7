"""Variances borrow from each other as limma's do."""

import numpy as np
import pytest
from scipy.special import digamma, polygamma

from analysis.evidence.launches import MANY, prior_dof


def _fit_f_dist(variances: np.ndarray, dof: float) -> float:
    """limma's fitFDist (Smyth 2004, section 6.2): d0 of variances with equal degrees of freedom."""
    e = np.log(variances) - digamma(dof / 2) + np.log(dof / 2)
    excess = e.var(ddof=1) - polygamma(1, dof / 2)
    low, high = 1e-6, 1e6
    for _ in range(200):
        middle = np.sqrt(low * high)
        low, high = (middle, high) if polygamma(1, middle) > excess else (low, middle)
    return 2 * float(np.sqrt(low * high))


def test_the_prior_of_one_group_is_limma_s() -> None:
    draw = np.random.default_rng(4)
    scales = 1 / draw.gamma(1.5, size=12)
    variances = scales * draw.chisquare(6, size=12) / 6

    found = prior_dof((variances / variances.mean())[None], np.array([6.0]))

    assert found == pytest.approx(_fit_f_dist(variances, 6.0), rel=1e-4)


def test_variances_that_scatter_as_chance_makes_them_are_one() -> None:
    equal = np.ones((1, 6))

    assert prior_dof(equal, np.array([4.0])) == MANY


def test_without_two_levels_nothing_can_scatter() -> None:
    assert prior_dof(np.array([[1.0]]), np.array([4.0])) == MANY
    assert prior_dof(np.array([[np.nan, 1.0]]), np.array([4.0])) == MANY


def test_unlike_variances_keep_a_part_of_their_own() -> None:
    unlike = np.array([[0.01, 0.02, 4.0, 0.01, 3.0, 0.05]])

    assert prior_dof(unlike, np.array([10.0])) < 5
