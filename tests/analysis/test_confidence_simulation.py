"""What the intervals promise, checked by simulation with known truth.

Log-normal run-to-run noise in each arm, six concurrency levels, interleaved repeats. The same draws
every time, so that a change of the method and not chance makes a number move.
"""

from collections.abc import Callable
from functools import cache

import numpy as np
import pytest
from numpy.typing import NDArray

from analysis.significance.confidence import CALIBRATION, Interval, ratio_interval
from analysis.significance.shared_moves import widened

Floats = NDArray[np.float64]
Noise = Callable[[np.random.Generator], Floats]

LEVELS = 6
TRIALS = 4000
REPEATS = (2, 3, 4, 5)
TEN_PERCENT = float(np.log(1.1))


def equal(draw: np.random.Generator) -> Floats:
    return np.full((TRIALS, LEVELS), 0.05)


def drawn_evenly(draw: np.random.Generator) -> Floats:
    return draw.uniform(0.02, 0.20, (TRIALS, LEVELS))


def drawn_by_ratio(draw: np.random.Generator) -> Floats:
    return np.exp(draw.uniform(np.log(0.02), np.log(0.20), (TRIALS, LEVELS)))


def falling_with_load(draw: np.random.Generator) -> Floats:
    return np.tile(np.geomspace(0.20, 0.02, LEVELS), (TRIALS, 1))


def falling_in_even_steps(draw: np.random.Generator) -> Floats:
    return np.tile(np.linspace(0.20, 0.02, LEVELS), (TRIALS, 1))


UNEQUAL = (drawn_evenly, drawn_by_ratio, falling_with_load, falling_in_even_steps)


@cache
def measured(noise: Noise, repeats: int, truth: float = 0.0) -> tuple[Interval, Interval]:
    draw = np.random.default_rng([repeats, 20])
    arm = noise(draw)[..., None]
    shape = (TRIALS, LEVELS, repeats)
    logs = truth + arm * draw.standard_normal(shape) - arm * draw.standard_normal(shape)
    return ratio_interval(logs)


def holding(found: Interval) -> float:
    """The share of intervals that hold the truth, where that is no difference."""
    return float(((found.low < 0) & (found.high > 0)).mean())


@pytest.mark.parametrize("repeats", REPEATS)
@pytest.mark.parametrize("noise", UNEQUAL)
def test_95_percent_intervals_hold_the_truth_in_93_to_97_percent(
    noise: Noise, repeats: int
) -> None:
    levels, geomean = measured(noise, repeats)

    assert 0.93 <= holding(levels) <= 0.97
    assert 0.93 <= holding(geomean) <= 0.97


@pytest.mark.parametrize("repeats", REPEATS)
def test_where_nothing_differs_better_or_worse_is_said_in_five_percent_of_rows_at_most(
    repeats: int,
) -> None:
    wrong = [1 - holding(measured(noise, repeats)[0]) for noise in UNEQUAL]

    assert np.mean(wrong) <= 0.05


@pytest.mark.parametrize("repeats", REPEATS)
def test_equal_noise_holds_too(repeats: int) -> None:
    levels, geomean = measured(equal, repeats)

    assert 1 - holding(levels) <= 0.05
    assert 0.93 <= holding(geomean) <= 0.97


def test_five_repeats_find_ten_percent_at_five_percent_noise() -> None:
    levels, geomean = measured(equal, 5, TEN_PERCENT)

    assert (levels.low > 0).mean() >= 0.80
    assert (geomean.low > 0).mean() >= 0.99


def test_three_repeats_find_ten_percent_in_the_mean_over_six_levels() -> None:
    _, geomean = measured(equal, 3, TEN_PERCENT)

    assert (geomean.low > 0).mean() >= 0.95


def guarded(common: float, noise: float, truth: float = 0.0) -> tuple[Floats, Floats, Floats]:
    """Means over levels, half widths without and with the guard against shared moves."""
    draw = np.random.default_rng(4)
    own = noise * draw.standard_normal((1000, LEVELS, 3))
    logs = truth + np.sqrt(2) * (own + common * draw.standard_normal((1000, 1, 3)))
    _, found = ratio_interval(logs)
    half = (found.high - found.low) / 2
    return found.mean, half, widened(logs, half, 0.05 * CALIBRATION)[0]


def test_the_guard_against_shared_moves_costs_little_where_there_are_none() -> None:
    mean, _, half = guarded(0.0, 0.05)
    other, _, wide = guarded(0.0, 0.05, TEN_PERCENT)

    assert 0.93 <= (np.abs(mean) < half).mean() <= 0.97
    assert (other > wide).mean() >= 0.95


def test_the_guard_keeps_most_of_what_a_server_start_shared_by_all_levels_would_cost() -> None:
    mean, bare, half = guarded(0.05, 0.02)

    assert (np.abs(mean) < bare).mean() < 0.7
    assert (np.abs(mean) < half).mean() > 0.88
