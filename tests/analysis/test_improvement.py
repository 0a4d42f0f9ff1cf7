"""One definition of improvement, by hand and by its symmetries."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.matching.comparison import geometric_mean, improvement
from warehouse.catalogue import Better

amounts = st.floats(0.001, 1e6)
directions: st.SearchStrategy[Better] = st.sampled_from(["higher", "lower"])


def test_more_throughput_is_better() -> None:
    # 100 -> 150 tok/s: 150 / 100 - 1.
    assert improvement(100, 150, "higher") == pytest.approx(0.5)


def test_less_latency_is_better() -> None:
    # 200 -> 150 ms: 1 - 150 / 200.
    assert improvement(200, 150, "lower") == pytest.approx(0.25)


@pytest.mark.parametrize(("better", "new"), [("higher", 80.0), ("lower", 120.0)])
def test_worse_is_negative_in_either_direction(better: Better, new: float) -> None:
    assert improvement(100, new, better) == pytest.approx(-0.2)


def test_a_length_is_neither_better_nor_worse() -> None:
    assert improvement(100, 150, "neither") is None


@pytest.mark.parametrize("baseline", [0.0, -1.0, math.nan])
def test_a_baseline_that_is_not_above_zero_has_no_improvement(baseline: float) -> None:
    assert improvement(baseline, 1, "higher") is None


@given(amounts, amounts)
def test_swapping_the_arms_inverts_a_gain_in_throughput(a: float, b: float) -> None:
    there, back = improvement(a, b, "higher"), improvement(b, a, "higher")
    assert there is not None
    assert back is not None
    assert (1 + there) * (1 + back) == pytest.approx(1)


@given(st.floats(1, 1000), st.floats(1, 1000))
def test_swapping_the_arms_inverts_a_gain_in_latency(a: float, b: float) -> None:
    there, back = improvement(a, b, "lower"), improvement(b, a, "lower")
    assert there is not None
    assert back is not None
    assert (1 - there) * (1 - back) == pytest.approx(1)


@given(amounts, amounts, st.floats(0.001, 1000), directions)
def test_another_unit_changes_no_improvement(
    a: float, b: float, factor: float, better: Better
) -> None:
    scaled = improvement(a * factor, b * factor, better)
    assert scaled == pytest.approx(improvement(a, b, better), rel=1e-9, abs=1e-9)


@given(amounts, amounts)
def test_the_sign_says_which_arm_is_better(a: float, b: float) -> None:
    higher, lower = improvement(a, b, "higher"), improvement(a, b, "lower")
    assert higher is not None
    assert lower is not None
    assert (higher > 0) == (lower < 0)


def test_the_geometric_mean_of_ratios() -> None:
    # sqrt(2 x 8) = 4; a doubling and a halving cancel.
    assert geometric_mean([2, 8]) == pytest.approx(4)
    assert geometric_mean([2, 0.5]) == pytest.approx(1)


@pytest.mark.parametrize("values", [[], [1, 0], [1, -2], [1, math.nan]])
def test_there_is_no_geometric_mean_of_nothing_or_of_a_value_not_above_zero(
    values: list[float],
) -> None:
    assert geometric_mean(values) is None


@given(st.lists(amounts, min_size=1, max_size=20))
def test_a_geometric_mean_lies_among_its_values_in_any_order(values: list[float]) -> None:
    mean = geometric_mean(values)
    assert mean is not None
    assert min(values) * (1 - 1e-9) <= mean <= max(values) * (1 + 1e-9)
    assert mean == pytest.approx(geometric_mean(reversed(values)))
