"""Acceptance by hand: rate = A/T, mean length = 1 + A/D, per position A_i/D."""

import pytest

from analysis.drafts.acceptance import Counters, cross_check, from_counters, from_requests
from warehouse.rows import Acceptance

BEFORE = Counters(1000, 3000, 1500, (900, 400, 200))


def source(name: str, rate: float | None, length: float | None) -> Acceptance:
    return Acceptance(name, 100, 300, 210, rate, length)  # type: ignore[arg-type]


def test_counters_are_subtracted_before_anything_is_divided() -> None:
    # D = 1100 - 1000 = 100, T = 3300 - 3000 = 300, A = 1710 - 1500 = 210.
    # Rate 210/300 = 0.7; length 1 + 210/100 = 3.1; positions 90/100, 70/100, 50/100.
    found = from_counters(BEFORE, Counters(1100, 3300, 1710, (990, 470, 250)))
    assert found is not None
    assert (found.source, found.drafts, found.draft_tokens) == ("counters", 100, 300)
    assert found.accepted_tokens == 210
    assert found.rate == pytest.approx(0.7)
    assert found.mean_length == pytest.approx(3.1)
    assert found.by_position == pytest.approx((0.9, 0.7, 0.5))
    assert sum(found.by_position) == pytest.approx(found.mean_length - 1)


@pytest.mark.parametrize(
    "after",
    [
        Counters(10, 30, 21, (9, 7, 5)),
        Counters(1100, 3300, 1400, (990, 470, 250)),
        Counters(1100, 3300, 1710, (990, 470, 199)),
        Counters(1100, 3300, 1710, ()),
    ],
)
def test_a_counter_that_fell_means_a_restart_and_no_acceptance(after: Counters) -> None:
    assert from_counters(BEFORE, after) is None


def test_a_position_first_counted_in_between_starts_from_zero() -> None:
    # 4 drafts; nothing counted by position before: 3/4 and 1/4.
    found = from_counters(Counters(0, 0, 0), Counters(4, 8, 4, (3, 1)))
    assert found is not None
    assert found.by_position == pytest.approx((0.75, 0.25))


def test_no_drafts_leave_every_ratio_unknown_and_not_zero() -> None:
    found = from_counters(BEFORE, BEFORE)
    assert found is not None
    assert (found.drafts, found.rate, found.mean_length, found.by_position) == (0, None, None, ())


def test_requests_are_pooled_by_their_totals() -> None:
    # A long request (90 of 100 drafted, 50 drafts) and a short one (0 of 10, 5 drafts):
    # 90/110, not the mean of 0.9 and 0; length 1 + 90/55.
    found = from_requests(55, 110, 90, (50, 40))
    assert found.rate == pytest.approx(90 / 110)
    assert found.mean_length == pytest.approx(1 + 90 / 55)
    assert found.by_position == pytest.approx((50 / 55, 40 / 55))
    assert found.source == "requests"


def test_drafts_of_varying_length_do_not_follow_one_plus_k_times_the_rate() -> None:
    # 10 drafts of 1 token, 10 of 3: T = 40, A = 20, rate 0.5, but 1 + 20/20 = 2, not 1 + 3 x 0.5.
    assert from_requests(20, 40, 20).mean_length == pytest.approx(2)


def test_sources_within_two_percent_agree() -> None:
    assert cross_check([source("counters", 0.70, 3.10), source("requests", 0.71, 3.12)]) == []


def test_a_rate_more_than_two_percent_off_is_flagged_with_both_figures() -> None:
    (flag,) = cross_check([source("counters", 0.70, 3.1), source("vllm_bench", 0.60, 3.1)])
    assert (flag.name, flag.severity) == ("acceptance_sources_disagree", "warning")
    assert flag.sentence == "The acceptance rate is 0.700 by counters but 0.600 by vllm_bench."


def test_a_length_more_than_two_percent_off_is_flagged() -> None:
    (flag,) = cross_check([source("counters", 0.7, 3.1), source("requests", 0.7, 2.5)])
    assert flag.sentence.startswith("The mean acceptance length is 3.100 by counters but 2.500")


def test_an_unknown_value_disagrees_with_nothing() -> None:
    assert cross_check([source("counters", 0.7, 3.1), source("requests", None, None)]) == []
    assert cross_check([source("counters", 0.7, 3.1)]) == []
    assert cross_check([]) == []
