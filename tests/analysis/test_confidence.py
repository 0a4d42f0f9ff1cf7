"""Intervals of improvements: hand-worked numbers, what borrows from what, and what never matters."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import stdtrit

from analysis.significance.confidence import CALIBRATION, intervals, ratio_interval

SETTING = {"setting": 0, "arm_id": 1, "metric": "output_throughput", "statistic": "mean"}


def pairs(levels: dict[int, list[tuple[float, float]]], **changes: Any) -> pd.DataFrame:
    """Rows of (baseline, speculative) for each concurrency."""
    return pd.DataFrame(
        [
            {**SETTING, "concurrency": level, "baseline": old, "speculative": new, **changes}
            for level, repeats in levels.items()
            for old, new in repeats
        ]
    )


THREE = [(100.0, 110.0), (100.0, 120.0), (100.0, 130.0)]


def test_one_level_alone_is_students_t_on_log_ratios() -> None:
    # log 1.1, 1.2, 1.3: mean 0.179999, standard deviation 0.083551, error of the mean 0.048238
    half = stdtrit(2, 1 - 0.025 * CALIBRATION) * 0.048238

    row = intervals(pairs({8: THREE})).levels.iloc[0]

    assert row["repeats"] == 3
    assert row["improvement"] == pytest.approx(np.exp(0.179999) - 1, abs=1e-6)
    assert row["low"] == pytest.approx(np.exp(0.179999 - half) - 1, abs=1e-4)
    assert row["high"] == pytest.approx(np.exp(0.179999 + half) - 1, abs=1e-4)
    assert row["noise"] == pytest.approx(0.083551, abs=1e-6)
    assert row["dof"] == pytest.approx(2)


def test_where_lower_is_better_the_interval_is_of_one_minus_the_ratio() -> None:
    halved = pairs({8: [(100.0, 50.0), (100.0, 51.0), (100.0, 49.0)]}, metric="itl")

    row = intervals(halved).levels.iloc[0]

    assert row["low"] < row["improvement"] < row["high"]
    assert row["improvement"] == pytest.approx(0.5, abs=1e-3)
    assert row["verdict"] == "better"


def test_levels_that_agree_on_their_noise_lend_each_other_repeats() -> None:
    alone = intervals(pairs({1: THREE})).levels.iloc[0]

    together = intervals(pairs(dict.fromkeys((1, 2, 4, 8, 16, 32), THREE))).levels.iloc[0]

    assert together["high"] - together["low"] < 0.8 * (alone["high"] - alone["low"])
    assert together["dof"] > alone["dof"]


def test_a_loud_level_keeps_its_own_noise() -> None:
    quiet = [(100.0, 100.0 + step) for step in (0.0, 0.1, 0.2, 0.3, 0.4)]
    loud = [(100.0, 100.0 + step) for step in (-40.0, -20.0, 0.0, 20.0, 40.0)]

    found = intervals(pairs({1: loud, 2: quiet, 4: quiet, 8: quiet})).levels
    width = (found["high"] - found["low"]).to_list()

    assert width[0] > 0.4
    assert max(width[1:]) < 0.02


def test_the_mean_over_levels_is_the_geometric_mean_and_narrower_than_its_levels() -> None:
    found = intervals(pairs({1: THREE, 2: THREE, 4: THREE}))

    level, mean = found.levels.iloc[0], found.geomean.iloc[0]
    assert mean["improvement"] == pytest.approx(level["improvement"])
    assert mean["high"] - mean["low"] < level["high"] - level["low"]


def test_one_repeat_has_no_interval_and_decides_nothing() -> None:
    found = intervals(pairs({1: [(100.0, 150.0)], 2: [(100.0, 150.0)]}))

    assert found.levels["improvement"].tolist() == [pytest.approx(0.5)] * 2
    assert found.levels[["low", "high", "dof", "p_value"]].isna().all(axis=None)
    assert set(found.levels["verdict"]) | set(found.geomean["verdict"]) == {"not enough evidence"}


def test_a_level_with_one_repeat_does_not_spoil_the_mean_of_the_others() -> None:
    found = intervals(pairs({1: THREE, 2: THREE, 4: [(100.0, 120.0)]}))

    assert found.levels["low"].isna().tolist() == [False, False, True]
    assert found.geomean["low"].notna().all()


def test_a_value_that_is_not_above_zero_leaves_its_level_unknown() -> None:
    found = intervals(pairs({1: [*THREE, (100.0, 0.0)], 2: THREE}))

    assert np.isnan(found.levels["improvement"].iloc[0])
    assert np.isnan(found.geomean["improvement"].iloc[0])


def test_a_metric_without_a_better_direction_is_left_out() -> None:
    assert intervals(pairs({1: THREE}, metric="output_tokens")).levels.empty


def test_identical_repeats_give_a_narrow_interval_and_no_error() -> None:
    row = intervals(pairs({1: [(100.0, 120.0)] * 3})).levels.iloc[0]

    assert row["low"] == pytest.approx(0.2, abs=1e-4)
    assert row["verdict"] == "better"


def test_a_higher_level_of_confidence_is_wider() -> None:
    wide, narrow = (intervals(pairs({1: THREE}), level).levels.iloc[0] for level in (0.99, 0.9))

    assert wide["low"] < narrow["low"] < narrow["high"] < wide["high"]


def test_missing_repeats_are_nan_in_an_array() -> None:
    levels, mean = ratio_interval(np.array([[0.1, 0.2, np.nan], [0.1, 0.2, 0.3]]))

    assert levels.mean == pytest.approx([0.15, 0.2])
    assert float(mean.mean) == pytest.approx(0.175)


def test_pairs_that_share_a_baseline_are_one_repeat() -> None:
    rows = pairs({1: THREE}).assign(baseline_id=["a", "a", "a"])
    apart = rows.assign(baseline_id=["a", "b", "c"])

    assert intervals(rows).levels["repeats"].tolist() == [1]
    assert intervals(rows).levels["verdict"].tolist() == ["not enough evidence"]
    assert intervals(apart).levels["repeats"].tolist() == [3]


def moving(*, together: bool) -> pd.DataFrame:
    """Six levels of four repeats: each repeat moves all levels alike, or each level by itself."""
    turns = [(0, 1, 2, 3), (1, 3, 0, 2), (3, 0, 2, 1), (2, 3, 1, 0), (0, 2, 3, 1), (3, 1, 0, 2)]
    rows = pairs(
        {
            level: [
                (100.0, 120.0 + 4 * (repeat if together else turn[repeat])) for repeat in range(4)
            ]
            for level, turn in enumerate(turns, start=1)
        }
    )
    return rows.assign(repeat=list(range(4)) * 6)


def test_levels_that_move_as_one_are_not_six_witnesses() -> None:
    alone = intervals(moving(together=False)).geomean.iloc[0]
    shared = intervals(moving(together=True)).geomean.iloc[0]
    unknown = intervals(moving(together=True).drop(columns="repeat")).geomean.iloc[0]

    assert (alone["shared"], shared["shared"], unknown["shared"]) == (False, True, False)
    assert shared["high"] - shared["low"] > 2 * (unknown["high"] - unknown["low"])
    assert shared["dof"] == 3
    assert shared["improvement"] == pytest.approx(unknown["improvement"])


values = st.floats(50.0, 200.0)
series = st.dictionaries(
    st.integers(1, 64), st.lists(st.tuples(values, values), min_size=2, max_size=4),
    min_size=1, max_size=4,
)  # fmt: skip
COLUMNS = ["improvement", "low", "high", "noise", "dof", "p_value"]


def numbers(frame: pd.DataFrame) -> Any:
    return frame[COLUMNS].to_numpy(dtype=float)


@settings(max_examples=25, deadline=None)
@given(series)
def test_swapping_the_arms_inverts_the_interval(
    levels: dict[int, list[tuple[float, float]]],
) -> None:
    found = intervals(pairs(levels)).levels
    swapped = intervals(
        pairs({level: [(new, old) for old, new in rows] for level, rows in levels.items()})
    ).levels

    assert 1 + found["low"].to_numpy() == pytest.approx(1 / (1 + swapped["high"]), rel=1e-4)
    assert 1 + found["high"].to_numpy() == pytest.approx(1 / (1 + swapped["low"]), rel=1e-4)


@settings(max_examples=25, deadline=None)
@given(series, st.floats(1e-3, 1e3))
def test_another_unit_changes_nothing(
    levels: dict[int, list[tuple[float, float]]], unit: float
) -> None:
    scaled = {n: [(old * unit, new * unit) for old, new in rows] for n, rows in levels.items()}

    for one, other in zip(
        vars(intervals(pairs(levels))).values(),
        vars(intervals(pairs(scaled))).values(),
        strict=True,
    ):
        assert numbers(one) == pytest.approx(numbers(other), rel=1e-4, abs=1e-6)


@settings(max_examples=25, deadline=None)
@given(series, st.randoms(use_true_random=False))
def test_the_order_of_the_rows_changes_nothing(
    levels: dict[int, list[tuple[float, float]]], chance: Any
) -> None:
    rows = pairs(levels)
    order = list(range(len(rows)))
    chance.shuffle(order)

    shuffled = intervals(rows.iloc[order])

    assert numbers(shuffled.levels) == pytest.approx(
        numbers(intervals(rows).levels), rel=1e-4, abs=1e-6
    )


@settings(max_examples=25, deadline=None)
@given(series, series)
def test_another_series_changes_nothing(
    levels: dict[int, list[tuple[float, float]]], others: dict[int, list[tuple[float, float]]]
) -> None:
    both = pd.concat([pairs(levels), pairs(others, arm_id=2)])

    found = intervals(both).levels

    assert numbers(found[found["arm_id"] == 1]) == pytest.approx(
        numbers(intervals(pairs(levels)).levels)
    )
