"""Nearest rank by hand, and the properties that hold for any values."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.percentiles import nearest_rank
from warehouse.catalogue import QUANTILES

numbers = st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=50)


def test_a_percentile_is_one_of_the_values_and_never_between_two() -> None:
    # Five values, rank = ceil(5 q): q 0.5 -> 3rd, 0.2 -> 1st, 0.21 -> 2nd, 0.9 -> 5th.
    values = np.array([50.0, 10.0, 40.0, 20.0, 30.0])
    assert nearest_rank(values, [0.5, 0.2, 0.21, 0.9]).tolist() == [30, 10, 20, 50]


def test_the_median_of_an_even_number_of_values_is_the_lower_one() -> None:
    assert nearest_rank(np.array([1.0, 2.0, 3.0, 4.0]), [0.5]).tolist() == [2]


def test_a_weighted_percentile_counts_tokens_and_not_requests() -> None:
    # 10 ms for 1 token, 20 ms for 2, 30 ms for 7: sums 1, 3, 10. 10 % = 1, 30 % = 3, 50 % = 5.
    values, weights = np.array([30.0, 10.0, 20.0]), np.array([7.0, 1.0, 2.0])
    found = nearest_rank(values, [0.1, 0.11, 0.3, 0.31, 0.5, 0.99], weights)
    assert found.tolist() == [10, 20, 20, 30, 30, 30]


def test_a_value_of_no_weight_does_not_count() -> None:
    found = nearest_rank(np.array([1.0, 2.0]), [0.0, 0.5, 1.0], np.array([0.0, 3.0]))
    assert found.tolist() == [2, 2, 2]


@pytest.mark.parametrize("weights", [None, []])
def test_no_values_have_no_percentile(weights: list[float] | None) -> None:
    given_weights = None if weights is None else np.array(weights)
    assert np.isnan(nearest_rank(np.array([]), [0.5, 0.9], given_weights)).all()


def test_no_weight_at_all_has_no_percentile() -> None:
    assert np.isnan(nearest_rank(np.array([1.0]), [0.5], np.array([0.0]))).all()


@pytest.mark.parametrize("weighted", [False, True])
def test_every_percentile_of_the_catalogue_has_the_exact_rank_for_any_count(
    weighted: bool,
) -> None:
    for n in (*range(1, 130), 999, 1000, 1001, 2000):
        found = nearest_rank(
            np.arange(1.0, n + 1), tuple(QUANTILES.values()), np.ones(n) if weighted else None
        )
        assert found.tolist() == [math.ceil(Fraction(str(q)) * n) for q in QUANTILES.values()]


@given(numbers, st.integers(1, 9), st.sampled_from(sorted(QUANTILES.values())))
def test_a_whole_weight_is_the_same_as_repeating_the_value(
    values: list[float], times: int, quantile: float
) -> None:
    weights = np.array([1 + (i * times) % 5 for i in range(len(values))], dtype=np.float64)
    repeated = np.repeat(np.array(values), weights.astype(int))
    weighted = nearest_rank(np.array(values), [quantile], weights)
    assert weighted == nearest_rank(repeated, [quantile])


@given(numbers, st.floats(0.001, 1000))
def test_another_unit_scales_a_percentile(values: list[float], factor: float) -> None:
    x = np.array(values)
    assert nearest_rank(x * factor, [0.5]) == nearest_rank(x, [0.5]) * factor
