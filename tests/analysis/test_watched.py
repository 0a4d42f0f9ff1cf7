"""What a server counts while it is watched, and lengths of steps held against measured ones, by hand."""

from dataclasses import replace
from math import exp

import pytest

from analysis.drafts.acceptance import Counters
from analysis.drafts.watched import (
    ServerLook,
    length_change,
    scaled,
    since_restart,
    watched,
)


def look(
    at: float, drafts: float, running: float = 1.0, generated: float | None = None
) -> ServerLook:
    counted = Counters(drafts, 2 * drafts, drafts, (0.75 * drafts, 0.25 * drafts))
    return ServerLook(at, counted, 2 * drafts if generated is None else generated, 0, running, 0)


def test_growth_is_counted_from_look_to_look_and_added_up_over_replicas() -> None:
    one = [look(at, 1000 + 60 * at) for at in range(13)]
    other = [look(at, 40 * at, running=3) for at in range(13)]
    found = watched([one, other])
    assert (found.counted.drafts, found.counted.draft_tokens) == (1200, 2400)
    assert found.counted.by_position == (900, 300)
    assert [each.drafts for each in found.blocks] == [100] * 12
    assert (found.k, found.most, found.replicas) == (2.0, 2, 2)
    # 1,440 tokens had 1 request in flight in their replica, 960 had 3.
    assert found.in_flight == pytest.approx((1440 * 1 + 960 * 3) / 2400)
    assert found.in_flight_most == 3


def test_after_a_restart_only_what_came_later_counts() -> None:
    before = [look(at, 500 + 10 * at) for at in range(5)]
    after = [look(at, 10 * (at - 5)) for at in range(5, 13)]
    kept, times = since_restart([*before, *after])
    assert (kept[0].at, times) == (5, 1)
    found = watched([[*before, *after]])
    assert (found.counted.drafts, found.restarts) == (70, 1)


def test_a_server_that_comes_back_with_drafts_or_without_has_restarted() -> None:
    without = [replace(look(at, 0), counters=None) for at in (0, 1)]
    assert since_restart([*without, look(2, 0)])[1] == 1
    assert not watched(
        [[look(0, 0), look(1, 5), *(replace(x, at=x.at + 2) for x in without)]]
    ).drafts_at_all


def test_an_idle_minute_counts_nothing_in_the_load() -> None:
    busy = [look(at, 100 * at, running=8) for at in range(4)]
    idle = [look(at, 300, running=0) for at in range(4, 60)]
    assert watched([[*busy, *idle]]).in_flight == pytest.approx(8, rel=0.01)


NOW = [Counters(100, 200, 100, (60, 40))] * 12


def test_the_interval_of_the_ratio_is_the_one_that_was_worked_by_hand() -> None:
    # Of 100 drafts 40 have none accepted, 20 one, 40 two: mean 1, variance 0.4 + 0.4 = 0.8. Measured:
    # half of 400 two, half one: mean 1.5, variance 0.25.
    change = length_change(NOW, [Counters(400, 800, 600, (400, 200))])
    assert change is not None
    assert (change.now, change.measured, change.ratio) == (2, 2.5, pytest.approx(0.8))
    # sqrt(0.8 / 1200 / 4 + 0.25 / 400 / 6.25) = 0.0163299; t(11) = 2.2009852.
    assert change.high / change.ratio == pytest.approx(exp(2.2009852 * 0.0163299), rel=1e-6)
    assert change.low * change.high == pytest.approx(change.ratio**2)


def test_without_positions_a_draft_is_taken_to_be_accepted_whole_or_not_at_all() -> None:
    change = length_change(NOW, [Counters(400, 800, 600)])
    assert change is not None
    # sqrt(0.8 / 1200 / 4 + 1.5 x 0.5 / 400 / 6.25) = 0.0216025.
    assert change.high / change.ratio == pytest.approx(exp(2.2009852 * 0.0216025), rel=1e-5)


def test_blocks_that_scatter_more_than_drafts_widen_the_interval_on_both_sides() -> None:
    measured = [Counters(1200, 2400, 1200, (720, 480))]
    even = length_change(NOW, measured)
    apart = [Counters(100, 200, 100 + x, (60 + x / 3, 40 + 2 * x / 3)) for x in (30, -30)]
    uneven = length_change(apart * 6, measured)
    assert even is not None
    assert uneven is not None
    assert uneven.ratio == pytest.approx(1)
    assert uneven.precise > 3 * even.precise


def test_measured_cells_that_scatter_more_than_drafts_widen_the_interval() -> None:
    alike = length_change(NOW, [Counters(600, 1200, 600, (360, 240))] * 2)
    apart = [Counters(600, 1200, 600 + x, (360 + x / 3, 240 + 2 * x / 3)) for x in (150, -150)]
    uneven = length_change(NOW, apart)
    assert alike is not None
    assert uneven is not None
    assert uneven.precise > 3 * alike.precise


def test_a_mix_has_the_length_of_its_steps_not_the_mean_of_lengths() -> None:
    # Half of the tokens at 2 a step and half at 4: two steps of the first for one of the second.
    (mixed,) = scaled([(0.5, [Counters(100, 300, 100)]), (0.5, [Counters(200, 600, 600)])])
    assert (mixed.drafts, mixed.accepted_tokens) == (pytest.approx(150), pytest.approx(250))
    assert scaled([(0.5, [Counters(100, 300, 100)]), (0.5, [])]) == []


@pytest.mark.parametrize(
    "blocks", [[Counters(30, 60, 30, (20, 10))] * 3, [Counters(20, 40, 20, (10, 10))] * 4]
)
def test_of_few_blocks_or_few_drafts_nothing_is_said(blocks: list[Counters]) -> None:
    assert length_change(blocks, NOW) is None
    assert length_change(NOW, []) is None
