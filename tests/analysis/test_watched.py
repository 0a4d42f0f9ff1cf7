"""What a server counts while it is watched, and lengths of steps held against measured ones, by hand."""

from dataclasses import replace

import pytest

from analysis.drafts.acceptance import Counters
from analysis.drafts.watched import (
    MeasuredLength,
    ServerLook,
    length_change,
    length_of,
    mixed_length,
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


def test_what_single_drafts_scatter_by_follows_from_their_positions() -> None:
    # Of 100 drafts 40 have none accepted, 20 one, 40 two: mean 1, variance 0.4 + 0.4 = 0.8.
    found = length_of([Counters(100, 200, 100, (60, 40))])
    assert found is not None
    assert (found.accepted, found.single, found.spread) == (1, pytest.approx(0.8), 0)
    # Without positions a draft of two is accepted whole or not at all: 1 x (2 - 1).
    whole = length_of([Counters(100, 200, 100)])
    assert whole is not None
    assert whole.single == pytest.approx(1)
    assert length_of([Counters(0, 0, 0)]) is None


def test_the_interval_of_the_ratio_is_the_one_that_was_worked_by_hand() -> None:
    now = [Counters(100, 200, 100, (60, 40))] * 12
    change = length_change(now, MeasuredLength(1.5, 0.8, 400))
    assert change is not None
    assert (change.now, change.measured, change.ratio) == (2, 2.5, pytest.approx(0.8))
    # sqrt(0.8 / 1200 / 4 + 0.8 / 400 / 6.25) = 0.0220605; t(11) = 2.2009852.
    assert change.high / change.ratio == pytest.approx(
        2.718281828 ** (2.2009852 * 0.0220605), rel=1e-5
    )
    assert change.low * change.high == pytest.approx(change.ratio**2)


def test_blocks_that_scatter_more_than_drafts_widen_the_interval_on_both_sides() -> None:
    measured = MeasuredLength(1.0, 0.8, 1200)
    even = length_change([Counters(100, 200, 100, (60, 40))] * 12, measured)
    apart = [
        Counters(100, 200, 100 + sign * 30, (60 + sign * 10, 40 + sign * 20)) for sign in (1, -1)
    ]
    uneven = length_change(apart * 6, measured)
    assert even is not None
    assert uneven is not None
    assert uneven.ratio == pytest.approx(1)
    assert uneven.precise > 3 * even.precise


def test_a_mix_has_the_length_of_its_steps_not_the_mean_of_lengths() -> None:
    # Half of the tokens at 2 a step and half at 4: 3/4 of a step for a token and 2 / (1/2 + 1/4) = 2.667.
    mixed = mixed_length([(0.5, MeasuredLength(1, 0.5, 100)), (0.5, MeasuredLength(3, 0.5, 100))])
    assert 1 + mixed.accepted == pytest.approx(8 / 3)


@pytest.mark.parametrize(
    "blocks", [[Counters(30, 60, 30, (20, 10))] * 3, [Counters(20, 40, 20, (10, 10))] * 4]
)
def test_of_few_blocks_or_few_drafts_nothing_is_said(blocks: list[Counters]) -> None:
    assert length_change(blocks, MeasuredLength(1, 0.5, 1000)) is None
