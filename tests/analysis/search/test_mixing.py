"""Several datasets as one traffic, with numbers worked by hand."""

import numpy as np
import pytest

from analysis.search.belief import Mix, mixed, unmixed
from analysis.search.space import (
    AcceptanceLengths,
    MeasuredLaunch,
    SearchArm,
    SearchPlace,
    SeenLaunches,
    Space,
)

#: Code at 1 and 8, prose at 1 and 8, chat at 1 alone.
SPACE = Space(
    (SearchArm("baseline", "", 0), SearchArm("K=1", "draft", 1)),
    (SearchPlace("chat", 1.0), SearchPlace("code", 1.0), SearchPlace("code", 8.0), SearchPlace("prose", 1.0), SearchPlace("prose", 8.0)),
    3.0, np.array([9.0, 1.0, 2.0, 4.0, 8.0]),
)  # fmt: skip
LENGTHS = AcceptanceLengths(
    np.array([[1.0] * 5, [9.0, 2.0, 2.0, 1.0, 1.0]]), np.array([[0.0] * 5, [0.0, 0.03, 0, 0, 0]])
)
MIX = Mix({"code": 0.25, "prose": 0.75})


def test_a_token_of_the_mix_takes_the_mean_time_of_its_datasets() -> None:
    speed = np.log([7.0, 2.0, 100.0, 1.0, 50.0])
    space, seen = mixed(SPACE, SeenLaunches((MeasuredLaunch(0, speed),), LENGTHS), MIX)
    assert [(one.traffic, one.load) for one in space.places] == [("mix", 1.0), ("mix", 8.0)]
    assert space.cell_min.tolist() == [5.0, 10.0]
    # 0.25 / 2 + 0.75 / 1 and 0.25 / 100 + 0.75 / 50
    assert np.exp(-seen.launches[0].speed) == pytest.approx([0.875, 0.0175])
    # A quarter of the tokens in drafts of 2, the rest one by one: 0.25 / 2 + 0.75 steps a token.
    assert seen.lengths.mean[1].tolist() == pytest.approx([1 / 0.875] * 2)
    assert seen.lengths.doubt[1].tolist() == pytest.approx([0.03 * 0.125 / 0.875, 0.0])


def test_latencies_count_against_those_of_the_baseline() -> None:
    """Answers of prose take a hundred times as long, and count for no more than their share."""
    base = MeasuredLaunch(0, -np.log([7.0, 1.0, 1.0, 100.0, 100.0]))
    fast = MeasuredLaunch(1, -np.log([7.0, 0.5, 1.0, 100.0, 50.0]))
    _, seen = mixed(SPACE, SeenLaunches((base, fast), LENGTHS), Mix(MIX.share, relative=True))
    assert np.exp(-seen.launches[1].speed) == pytest.approx([0.875, 0.625])


def test_a_launch_that_lacks_a_dataset_says_nothing_there_and_a_broken_slo_counts_for_all() -> None:
    part = MeasuredLaunch(1, np.array([1.0, 1.0, np.nan, 1.0, 1.0]))
    none = MeasuredLaunch(1, np.array([1.0, 1.0, 1.0, np.nan, np.nan]))
    barred = np.zeros((2, 5), dtype=np.bool_)
    barred[1, [0, 4]] = True
    _, seen = mixed(SPACE, SeenLaunches((part, none), LENGTHS, barred=barred), MIX)
    assert [one.measured.tolist() for one in seen.launches] == [[True, False]]
    assert seen.barred is not None
    assert seen.barred.tolist() == [[False, False], [False, True]]


def test_a_load_of_the_mix_is_measured_at_each_of_its_datasets() -> None:
    assert unmixed(SPACE, MIX, np.array([False, True])).tolist() == [
        False,
        False,
        True,
        False,
        True,
    ]
