"""How much surer a difference must be among those of its study."""

import numpy as np
import pytest
from scipy.stats import false_discovery_control, t

from analysis.evidence.launches import error_rates


def test_nothing_settled_needs_the_surest_of_all_to_be_bonferroni_s() -> None:
    rates = error_rates(np.array([0.5, 0.4, 0.3, 0.2]), np.zeros(4, dtype=np.int64))

    assert rates == pytest.approx(np.full(4, 0.05 / 4))


def test_the_level_grows_with_the_share_that_is_settled() -> None:
    rates = error_rates(np.array([1e-6, 1e-5, 0.02, 0.9]), np.zeros(4, dtype=np.int64))

    # Benjamini and Hochberg settle the first three: 0.02 <= 3 / 4 x 0.05.
    assert rates == pytest.approx(np.full(4, 0.05 * 3 / 4))


def test_studies_do_not_know_of_each_other() -> None:
    alone = error_rates(np.array([0.03]), np.array([0]))
    beside = error_rates(np.array([0.03, *np.full(99, 0.5)]), np.array([0, *np.ones(99, int)]))

    assert beside[0] == alone[0] == 0.05


def test_what_never_repeats_is_not_counted() -> None:
    rates = error_rates(np.array([0.03, np.nan]), np.zeros(2, dtype=np.int64))

    assert rates[0] == 0.05


@pytest.mark.parametrize("seed", range(20))
def test_an_adjusted_interval_excludes_zero_exactly_where_it_is_settled(seed: int) -> None:
    draw = np.random.default_rng(seed)
    dof, statistic = 8.0, draw.normal(size=30) * 3
    p_values = 2 * t.sf(np.abs(statistic), dof)

    rates = error_rates(p_values, np.zeros(30, dtype=np.int64))

    excludes = np.abs(statistic) > t.isf(rates / 2, dof)
    assert excludes.tolist() == (false_discovery_control(p_values) <= 0.05).tolist()
