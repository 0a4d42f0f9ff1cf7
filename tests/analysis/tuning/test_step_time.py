"""The time of a step: known laws are found again, parts are never negative, bends need loads."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.prediction.step_time import fit_first_token, fit_step_time
from warehouse.errors import InvalidInput


def grid(law: Any, ks: tuple[int, ...] = (0, 1, 3, 5), loads: tuple[int, ...] = (1, 5, 25, 100)):
    rows = pd.DataFrame([(c, k) for c in loads for k in ks], columns=["concurrency", "k"])
    rows = rows.assign(batch=rows["concurrency"].astype(float), prompt_tokens=100.0,
                       output_tokens=200.0, length=1.0 + 0.5 * rows["k"])  # fmt: skip
    return rows.assign(step=[law(c, k) for c, k in zip(rows["batch"], rows["k"], strict=True)])


def straight(c: float, k: int) -> float:
    return 5 + 0.5 * (k > 0) + 0.8 * k + 0.03 * c + 0.04 * c * k


def test_a_straight_law_is_found_with_its_parts() -> None:
    found = fit_step_time(grid(straight, loads=(1, 100)))
    assert found.parts == pytest.approx(
        {
            "step": 5, "drafting": 0.5, "draft token": 0.8, "sequence": 0.03,
            "drafted token of a sequence": 0.04,
        }
    )  # fmt: skip
    assert found.residual < 1e-6
    assert found.at(grid(straight, ks=(2,), loads=(50,))) == pytest.approx([straight(50, 2)])


def mixture_of_experts(c: float, k: int) -> float:
    read = 1 - (1 - 4 / 128) ** (c * (k + 1))
    return 2 + 8 * read + 0.02 * c * (k + 1) + 0.3 * k


def compute_bound(c: float, k: int) -> float:
    return max(11.0, 0.035 * c * (k + 1)) + 0.4 * k


@pytest.mark.parametrize("law", [mixture_of_experts, compute_bound])
def test_bends_of_real_servers_are_followed(law: Any) -> None:
    found = fit_step_time(grid(law))
    asked = grid(law, ks=(2, 4), loads=(10, 50))
    assert found.at(asked) == pytest.approx(asked["step"].to_numpy(), rel=0.12)


def test_two_loads_are_fitted_by_straight_parts_alone() -> None:
    found = fit_step_time(grid(mixture_of_experts, loads=(1, 100)))
    assert not [name for name in found.parts if name.startswith("experts") or name == "compute"]


@settings(deadline=None, max_examples=50)
@given(st.lists(st.floats(0.1, 100), min_size=16, max_size=16))
def test_no_part_is_negative_so_no_step_is(times: list[float]) -> None:
    rows = grid(straight).assign(step=times)
    found = fit_step_time(rows)
    assert all(size > 0 for size in found.parts.values())
    assert (found.at(rows) >= 0).all()
    assert found.worst >= found.residual


@settings(deadline=None, max_examples=50)
@given(st.floats(1e-3, 1e3))
def test_the_unit_of_time_scales_the_parts_and_nothing_else(unit: float) -> None:
    rows = grid(compute_bound)
    one, other = fit_step_time(rows), fit_step_time(rows.assign(step=rows["step"] * unit))
    assert other.at(rows) == pytest.approx(one.at(rows) * unit, rel=1e-6)
    assert other.residual == pytest.approx(one.residual, abs=1e-6)


def test_a_first_token_waits_for_its_own_prompt_where_lengths_differ() -> None:
    rows = pd.concat([grid(straight), grid(straight).assign(prompt_tokens=4000.0)])
    rows = rows.assign(ttft=20 + 0.05 * rows["prompt_tokens"] + 0.4 * rows["batch"])
    found = fit_first_token(rows)
    assert found.knows_prompts
    assert found.at(rows) == pytest.approx(rows["ttft"].to_numpy(), rel=0.01)
    assert not fit_first_token(rows[rows["prompt_tokens"] == 100]).knows_prompts


def test_nothing_measured_is_refused() -> None:
    with pytest.raises(InvalidInput, match="no measurement to fit"):
        fit_step_time(grid(straight).iloc[:0])


def test_errors_are_relative_so_a_slow_load_does_not_drown_a_fast_one() -> None:
    rows = grid(straight, loads=(1, 100))
    odd = rows.assign(step=np.where(rows["batch"] > 1, rows["step"] * 10, rows["step"]))
    found = fit_step_time(odd)
    fast = odd[odd["batch"] == 1]
    assert found.at(fast) == pytest.approx(fast["step"].to_numpy(), rel=0.12)


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
    rows = []
    for (name, load), (baseline, *gains) in LAB.items():
        for k, gain in enumerate([1.0, *gains]) if name == dataset else ():
            length = 1 + k * LAB_RATES[dataset][k - 1] if k else 1.0
            step = load * 1000 / (baseline * gain) * length
            rows.append((load, float(load), k, length, 80.0, 64.0, step))
    table = pd.DataFrame(rows, columns=["concurrency", "batch", "k", "length", "prompt_tokens",
                                        "output_tokens", "step"])  # fmt: skip
    errors = []
    for k in range(1, 6):
        withheld = table[table["k"] == k]
        found = fit_step_time(table[table["k"] != k]).at(withheld)
        errors += list(np.abs(found / withheld["step"].to_numpy() - 1))
    assert np.mean(errors) < 0.05
    assert max(errors) < 0.12
