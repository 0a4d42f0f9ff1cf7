"""Acceptance carried on beyond the measured positions, by hand and on published and recorded figures."""

from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.prediction.usual import conditional, from_lengths, from_positions
from warehouse.errors import InvalidInput

STUDY = Path(__file__).parents[2] / "examples/claims/published-study.yaml"
#: Acceptance by position at K = 5 in the laptop lab (a 4.7M target, its distilled draft).
LAB = {
    "structured": (0.74, 0.58, 0.52, 0.46, 0.41),
    "code": (0.76, 0.59, 0.45, 0.33, 0.27),
    "prose": (0.64, 0.36, 0.22, 0.14, 0.07),
}


def test_conditional_acceptance_is_the_ratio_of_neighbours() -> None:
    assert conditional((0.8, 0.4, 0.3)) == pytest.approx((0.8, 0.5, 0.75))
    assert conditional((0.8, 0.0, 0.0)) == pytest.approx((0.8, 0.0))
    assert conditional(()) == ()


def test_measured_positions_are_kept_and_the_decay_goes_on() -> None:
    # p = 0.8, 0.4: g = 0.5, so p_3 = 0.2 and r = 0.8, 0.32, 0.064.
    decay = from_positions((0.8, 0.32))
    assert decay.ratio == pytest.approx(0.5)
    assert decay.by_position(3) == pytest.approx((0.8, 0.32, 0.064))
    assert decay.mean_length(3) == pytest.approx(2.184)
    assert decay.by_position(1) == pytest.approx((0.8,))


def test_a_conditional_acceptance_that_rises_is_carried_on_level() -> None:
    # p = 0.5, 0.8: it may not go on to 1.28, so p_3 = 0.8.
    decay = from_positions((0.5, 0.4))
    assert decay.ratio == 1
    assert decay.by_position(3) == pytest.approx((0.5, 0.4, 0.32))


def test_positions_that_few_drafts_reach_say_little_about_the_decay() -> None:
    # p = 0.9, 0.1, 0.9: level by a plain fit, but only 9 % of the drafts say anything about p_3.
    assert from_positions((0.9, 0.09, 0.081)).ratio < 0.5


def test_the_published_k_2_and_3_predict_k_4() -> None:
    rows = yaml.safe_load(STUDY.read_text(encoding="utf-8"))["draft_tokens"]
    published = {row["num_speculative_tokens"]: row["mean_acceptance_length"] for row in rows}
    assert set(published) == {2, 3, 4}
    decay = from_lengths({k: published[k] for k in (2, 3)})
    assert decay.mean_length(2) == pytest.approx(published[2])
    assert decay.mean_length(3) == pytest.approx(published[3])
    assert decay.mean_length(4) == pytest.approx(published[4], rel=0.01)


@pytest.mark.parametrize("rates", LAB.values(), ids=LAB)
@pytest.mark.parametrize("known", [3, 4])
def test_three_positions_of_a_real_draft_predict_the_next_within_one_percent(
    rates: tuple[float, ...], known: int
) -> None:
    measured = 1 + sum(rates)
    assert from_positions(rates[:known]).mean_length(5) == pytest.approx(measured, rel=0.01)


def test_one_length_means_one_acceptance_for_all_positions() -> None:
    # p + p² = 0.75 has the root p = 0.5, so K = 3 gives 1 + 0.5 + 0.25 + 0.125.
    decay = from_lengths({2: 1.75})
    assert decay.mean_length(3) == pytest.approx(1.875)


@settings(max_examples=50)
@given(
    first=st.floats(0.05, 0.99),
    ratio=st.floats(0.3, 1.0),
    ks=st.sets(st.integers(1, 7), min_size=2, max_size=4),
)
def test_lengths_that_follow_a_decay_are_predicted_exactly(
    first: float, ratio: float, ks: set[int]
) -> None:
    truth = from_positions([first, first**2 * ratio])
    found = from_lengths({k: truth.mean_length(k) for k in ks})
    assert found.mean_length(max(ks) + 1) == pytest.approx(truth.mean_length(max(ks) + 1), rel=0.01)


@pytest.mark.parametrize("lengths", [{3: 4.2}, {2: 1.0}, {2: 0.5}])
def test_an_impossible_length_is_refused_with_its_range(lengths: dict[int, float]) -> None:
    with pytest.raises(InvalidInput, match="impossible with K"):
        from_lengths(lengths)


def test_nothing_known_is_refused() -> None:
    with pytest.raises(InvalidInput, match="no decay"):
        from_lengths({})
    with pytest.raises(InvalidInput, match="No draft token"):
        from_positions((0.0, 0.0))
