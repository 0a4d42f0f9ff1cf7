"""Arm against arm: what meets, what is a tie, and what must change nothing."""

from collections.abc import Callable
from typing import Any

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.matching.arm_values import arm_values, with_baseline
from analysis.verdicts.duels import Duels, duels

Study = Callable[..., Any]


def rows(values: dict[tuple[int, int], list[float]]) -> pd.DataFrame:
    """(concurrency, arm) -> the value of each repeat, in league 0."""
    return pd.DataFrame(
        [
            {"league": 0, "arm": arm, "concurrency": load, "prompts": 0, "repeat": n, "value": v}
            for (load, arm), found in values.items()
            for n, v in enumerate(found)
        ]
    )


def fight(values: dict[tuple[int, int], list[float]], metric: str = "output_throughput") -> Duels:
    return duels(rows(values), metric, "mean")


def test_the_improvement_is_of_the_other_over_the_one() -> None:
    found = fight({(8, 2): [100.0, 102.0], (8, 4): [110.0, 112.2]}).at(0, 8)[2, 4]
    assert found.improvement == pytest.approx(0.1)
    assert found.repeats == 2
    slower = fight({(8, 2): [100.0, 102.0], (8, 4): [110.0, 112.2]}, "itl").at(0, 8)[2, 4]
    assert slower.improvement == pytest.approx(-0.1)


def test_a_repeat_that_both_share_cancels() -> None:
    # A slow second repeat slows both arms: the ratio is 1.2 in each.
    found = fight({(8, 2): [100.0, 50.0, 80.0], (8, 4): [120.0, 60.0, 96.0]}).at(0, 8)[2, 4]
    assert found.verdict == "better"
    assert found.low == pytest.approx(0.2, abs=1e-3)


def test_what_is_not_measurable_or_too_small_is_a_tie() -> None:
    noisy = fight({(8, 2): [100.0, 80.0, 120.0], (8, 4): [100.0, 115.0, 95.0]})
    assert noisy.at(0, 8)[2, 4].tied
    small = fight({(8, 2): [100.0, 100.1, 100.2], (8, 4): [101.0, 101.1, 101.2]})
    assert small.at(0, 8)[2, 4].tied
    clear = fight({(8, 2): [100.0, 100.1, 100.2], (8, 4): [110.0, 110.1, 110.2]})
    assert not clear.at(0, 8)[2, 4].tied


def test_one_repeat_is_a_tie_only_where_the_difference_is_small() -> None:
    found = fight({(8, 2): [100.0], (8, 3): [101.0], (8, 4): [130.0]}).at(0, 8)
    assert found[2, 3].tied
    assert not found[2, 4].tied
    assert pd.isna(found[2, 4].low)


def test_over_all_loads_there_is_one_answer_a_pair() -> None:
    values = {(load, arm): [100.0 * load * arm] * 2 for load in (1, 8) for arm in (1, 2)}
    found = fight(values).at(0)
    assert list(found) == [(1, 2)]
    assert found[1, 2].improvement == pytest.approx(1.0)


def test_leagues_prompts_and_repeats_apart_never_meet() -> None:
    values = {(8, 2): [100.0, 101.0], (8, 4): [110.0, 111.0]}
    for name, value in (("league", 1), ("prompts", 1), ("repeat", 7)):
        apart = rows(values)
        apart.loc[apart["arm"] == 4, name] = value
        found = duels(apart, "output_throughput", "mean")
        assert found.levels == {}
        assert found.at(0) == {}


def test_an_arm_without_a_value_above_zero_does_not_fight() -> None:
    assert fight({(8, 2): [100.0], (8, 4): [0.0]}).levels == {}


figures = st.lists(st.floats(1, 1000), min_size=3, max_size=3)
grids = st.fixed_dictionaries({(load, arm): figures for load in (1, 8) for arm in (2, 4)})


@settings(deadline=None, max_examples=25)
@given(grids)
def test_swapping_arms_inverts_the_improvement(values: dict[tuple[int, int], list[float]]) -> None:
    swapped = {(load, 6 - arm): found for (load, arm), found in values.items()}
    one, other = fight(values).at(0), fight(swapped).at(0)
    assert 1 + other[2, 4].improvement == pytest.approx(1 / (1 + one[2, 4].improvement))
    assert other[2, 4].verdict == {"better": "worse", "worse": "better"}.get(
        one[2, 4].verdict, other[2, 4].verdict
    )


@settings(deadline=None, max_examples=25)
@given(grids, st.floats(0.001, 1000), st.integers(0, 5))
def test_units_and_the_order_of_rows_change_nothing(
    values: dict[tuple[int, int], list[float]], unit: float, seed: int
) -> None:
    straight = rows(values)
    turned = straight.sample(frac=1, random_state=seed).assign(value=lambda r: r["value"] * unit)
    one = duels(straight, "output_throughput", "mean").at(0)[2, 4]
    other = duels(turned, "output_throughput", "mean").at(0)[2, 4]
    assert other.improvement == pytest.approx(one.improvement, abs=1e-9)
    assert other.verdict == one.verdict


@settings(deadline=None, max_examples=25)
@given(grids, figures)
def test_a_cell_that_meets_nobody_changes_no_duel(
    values: dict[tuple[int, int], list[float]], lonely: list[float]
) -> None:
    one, other = fight(values), fight({**values, (64, 4): lonely})
    assert one.at(0).keys() == other.at(0).keys()
    for load in (1, 8):
        assert other.at(0, load) == one.at(0, load)


def test_a_baseline_stands_in_the_league_of_every_family(study: Study) -> None:
    one, two = study(ks=(0, 2), loads=(8,)), study(ks=(3,), loads=(8,), method="ngram")
    cells = pd.concat([one.cells, two.cells])
    measured = pd.concat([one.measurements, two.measurements])
    found = with_baseline(arm_values(cells, measured, "output_throughput", "mean"))
    assert found.groupby("league")["k"].agg(sorted).tolist() == [[0, 2], [0, 3]]
