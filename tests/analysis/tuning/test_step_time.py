"""The time of a step: known laws are followed, the better law is chosen, noise gives its band."""

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.prediction.rows import Floats, Mask, Rows
from analysis.prediction.step_time import FIRST_TOKEN_LENGTHS, LEVEL, Fit, fit_times
from warehouse.errors import InvalidInput

Law = Callable[[Any, Any], Any]


def grid(ks: Iterable[int] = (0, 1, 3, 5), loads: Iterable[int] = (1, 5, 25, 100)) -> Rows:
    batch, k = np.array([(c, k) for c in loads for k in ks], dtype=np.float64).T
    return Rows(batch, k, np.full(len(k), 100.0), np.full(len(k), 200.0), 1 + 0.5 * k)


def groups(rows: Rows) -> Mask:
    """Every load, and every K of a draft."""
    loads = [rows.batch == load for load in np.unique(rows.batch)]
    return np.array(loads + [rows.k == k for k in np.unique(rows.k[rows.k > 0])])


def fitted(law: Law, rows: Rows | None = None) -> Fit:
    rows = grid() if rows is None else rows
    return fit_times(rows, law(rows.batch, rows.k), groups(rows))


def straight(c: Floats, k: Floats) -> Floats:
    return 5 + 0.5 * (k > 0) + 0.8 * k + 0.03 * c + 0.04 * c * k


def test_a_straight_law_is_found() -> None:
    found = fitted(straight)
    assert found.residual < 0.005
    asked = grid(ks=(2, 6), loads=(50, 150))
    assert found.at(asked).mean() == pytest.approx(straight(asked.batch, asked.k), rel=0.02)


def mixture_of_experts(c: Floats, k: Floats) -> Floats:
    read = 1 - (1 - 4 / 128) ** (c * (k + 1))
    return 2 + 8 * read + 0.02 * c * (k + 1) + 0.3 * k


def compute_bound(c: Floats, k: Floats) -> Floats:
    return np.maximum(11.0, 0.035 * c * (k + 1)) + 0.4 * k


@pytest.mark.parametrize("law", [mixture_of_experts, compute_bound])
def test_bends_of_real_servers_are_followed(law: Law) -> None:
    asked = grid(ks=(2, 4), loads=(10, 50))
    assert fitted(law).at(asked).mean() == pytest.approx(law(asked.batch, asked.k), rel=0.06)


@pytest.mark.parametrize(
    ("law", "name"), [(mixture_of_experts, "sum of parts"), (compute_bound, "roofline")]
)
def test_the_law_that_predicts_withheld_points_better_is_chosen(law: Law, name: str) -> None:
    found = fitted(law)
    best, other = sorted(found.choices, key=lambda one: one.error or 0.0)
    assert best.law == name
    assert best.share > 0.75
    assert best.share + other.share == pytest.approx(1)


def test_a_roofline_is_carried_on_beyond_what_was_measured() -> None:
    found = fitted(compute_bound, grid(ks=(0, 1, 2, 3, 4, 5), loads=(4, 16, 64, 128)))
    asked = grid(loads=(256,))
    truth = compute_bound(asked.batch, asked.k)
    assert found.at(asked).spread().middle == pytest.approx(truth, rel=0.05)


def test_a_bend_that_was_not_reached_may_still_come() -> None:
    # Flat as far as it was measured: 64 · 3 tokens in flight, where the bend is at 314.
    found = fitted(compute_bound, grid(ks=(0, 1, 2), loads=(1, 4, 16, 64)))
    asked = grid(ks=(2,), loads=(16, 128))
    band = found.at(asked).spread()
    inside, beyond = np.log(band.high / band.middle)
    assert beyond > 1.5 * inside


def test_noise_gives_a_band_that_holds_as_many_as_it_says() -> None:
    chance, rows, held = np.random.default_rng(7), grid(), []
    truth = compute_bound(rows.batch, rows.k)
    for _ in range(60):
        noisy = truth * np.exp(chance.normal(0, 0.05, len(truth)))
        band = fit_times(rows, noisy, groups(rows)).at(rows).spread()
        again = truth * np.exp(chance.normal(0, 0.05, len(truth)))
        held.append(np.mean((band.low <= again) & (again <= band.high)))
    assert LEVEL - 0.04 < np.mean(held) < LEVEL + 0.05


@settings(max_examples=25)
@given(st.lists(st.floats(0.1, 100), min_size=16, max_size=16))
def test_no_step_takes_less_than_nothing_whatever_was_measured(times: list[float]) -> None:
    rows = grid()
    found = fit_times(rows, np.array(times), groups(rows))
    band = found.at(rows).spread()
    assert (band.low > 0).all()
    assert (band.low <= band.middle).all()
    assert (band.middle <= band.high).all()
    assert found.worst >= found.residual


@settings(max_examples=25)
@given(st.floats(1e-3, 1e3))
def test_the_unit_of_time_changes_nothing_else(unit: float) -> None:
    rows = grid()
    one, other = (fitted(lambda c, k, u=u: u * compute_bound(c, k)) for u in (1.0, unit))
    assert other.at(rows).mean() == pytest.approx(one.at(rows).mean() * unit, rel=1e-6)
    assert other.residual == pytest.approx(one.residual, abs=1e-6)


def test_a_first_token_waits_for_its_own_prompt_where_lengths_differ() -> None:
    short = grid()
    rows = Rows(*(np.tile(values, 2) for values in vars(short).values()))
    rows.prompt_tokens[len(short.k) :] = 4000.0
    ttft = 20 + 0.05 * rows.prompt_tokens + 0.4 * rows.batch
    found = fit_times(rows, ttft, groups(rows), FIRST_TOKEN_LENGTHS)
    assert found.knows_prompts
    assert found.at(rows).mean() == pytest.approx(ttft, rel=0.02)
    assert not fit_times(
        short, ttft[: len(short.k)], groups(short), FIRST_TOKEN_LENGTHS
    ).knows_prompts


def test_nothing_measured_is_refused() -> None:
    with pytest.raises(InvalidInput, match="no measurement to fit"):
        fit_times(grid().where(np.zeros(16, dtype=bool)), np.zeros(0), np.zeros((0, 0), bool))


def test_one_measurement_is_enough_for_a_time_and_for_no_choice_of_law() -> None:
    rows = grid(ks=(3,), loads=(8,))
    found = fit_times(rows, np.array([12.0]), np.zeros((0, 1), dtype=bool))
    assert found.at(rows).mean() == pytest.approx([12.0], rel=0.05)
    assert [one.error for one in found.choices] == [None, None]


def test_errors_are_relative_so_a_slow_load_does_not_drown_a_fast_one() -> None:
    rows = grid(loads=(1, 100))
    times = straight(rows.batch, rows.k) * np.where(rows.batch > 1, 10, 1)
    fast = rows.batch == 1
    found = fit_times(rows, times, groups(rows)).at(rows.where(fast)).mean()
    assert found == pytest.approx(times[fast], rel=0.12)


#: The laptop lab (a 4.7M target, its distilled draft, two CPU cores): output tokens/s of the
#: baseline, then relative to it at K = 1 … 5, by dataset and concurrency.
LAB = {
    ("structured", 1): (231, 1.27, 1.50, 1.54, 1.70, 1.71),
    ("structured", 4): (803, 1.23, 1.37, 1.43, 1.47, 1.49),
    ("structured", 16): (2328, 1.11, 1.12, 1.15, 1.19, 1.16),
    ("code", 1): (232, 1.20, 1.43, 1.42, 1.52, 1.53),
    ("code", 4): (809, 1.18, 1.33, 1.32, 1.36, 1.37),
    ("code", 16): (2376, 1.09, 1.15, 1.09, 1.11, 1.06),
    ("prose", 1): (232, 1.12, 1.18, 1.10, 1.12, 1.10),
    ("prose", 4): (810, 1.11, 1.17, 1.10, 1.11, 1.05),
    ("prose", 16): (2380, 1.06, 1.05, 0.92, 0.89, 0.86),
}
#: Acceptance rate at K = 1 … 5.
LAB_RATES = {
    "structured": (0.82, 0.72, 0.66, 0.61, 0.55),
    "code": (0.77, 0.67, 0.60, 0.54, 0.48),
    "prose": (0.63, 0.50, 0.40, 0.34, 0.29),
}


@pytest.mark.parametrize("dataset", LAB_RATES)
def test_a_withheld_k_of_a_real_server_is_predicted_within_a_few_percent(dataset: str) -> None:
    found: list[tuple[float, ...]] = []
    for (name, load), (baseline, *gains) in LAB.items():
        for k, gain in enumerate([1.0, *gains]) if name == dataset else ():
            length = 1 + k * LAB_RATES[dataset][k - 1] if k else 1.0
            found.append((load, k, length, load * 1000 / (baseline * gain) * length))
    batch, k, length, step = np.array(found, dtype=np.float64).T
    rows = Rows(batch, k, np.full(len(k), 80.0), np.full(len(k), 64.0), length)
    group = np.array([k == one for one in range(1, 6)])
    at, row = np.nonzero(group)
    errors = np.abs(
        fit_times(rows, step, group).without(rows.where(row), at).mean() / step[row] - 1
    )
    assert np.mean(errors) < 0.05
    assert errors.max() < 0.12
