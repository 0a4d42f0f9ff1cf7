"""Verdicts, the repeats that would settle what is open, and what stands among many rows."""

import numpy as np
import pandas as pd
import pytest
from scipy.special import stdtrit

from analysis.significance.evidence import (
    repeats_enough,
    standing,
    summary,
    summary_sentence,
    verdicts,
)


@pytest.mark.parametrize(
    ("low", "high", "word"),
    [
        (0.01, 0.30, "better"),
        (-0.30, -0.01, "worse"),
        (-0.02, 0.03, "no measurable difference"),
        (-0.02, 0.06, "not enough evidence"),
        (-0.06, 0.02, "not enough evidence"),
        (np.nan, np.nan, "not enough evidence"),
    ],
)
def test_the_interval_decides_the_verdict(low: float, high: float, word: str) -> None:
    assert verdicts(np.array([low]), np.array([high])).tolist() == [word]


def test_enough_repeats_are_the_fewest_whose_interval_settles_it() -> None:
    # 10 % noise, 10 % effect, each repeat adds 5 degrees of freedom
    def reach(repeats: int) -> float:
        dof = 5 * (repeats - 1)
        return float(stdtrit(dof, 0.975) + stdtrit(dof, 0.8)) * 0.1 / repeats**0.5

    needed = int(repeats_enough(np.array([0.1]), np.array([0.1]), np.array([5.0]))[0])

    assert reach(needed) <= 0.1 < reach(needed - 1)


def test_no_effect_needs_the_repeats_that_show_there_is_none() -> None:
    few, many = repeats_enough(np.zeros(2), np.array([0.02, 0.08]), np.full(2, 5.0))

    assert 2 <= few < many


def test_noise_that_no_number_of_repeats_overcomes_has_no_answer() -> None:
    assert np.isnan(repeats_enough(np.array([0.01]), np.array([0.9]), np.array([1.0]))).all()


def test_among_many_rows_a_difference_must_be_clearer() -> None:
    # 0.04 stands alone, but beside nineteen rows in which nothing shows it is what chance gives.
    assert standing(np.array([0.04])).tolist() == [True]
    assert standing(np.array([0.04, *[0.5] * 19])).tolist() == [False] * 20
    assert standing(np.array([np.nan, 0.001])).tolist() == [False, True]


def test_a_summary_counts_what_stands_and_says_what_does_not() -> None:
    rows = pd.DataFrame(
        {"p_value": [0.0001, 0.04, *[0.5] * 18], "verdict": ["better"] * 2 + [
            "no measurable difference"] * 18}
    )  # fmt: skip

    found = summary(rows)

    assert found.counts["better"] == 1
    assert found.withdrawn == 1
    assert summary_sentence(found) == (
        "Of 20 rows: 1 better, 18 no measurable difference, 1 not enough evidence "
        "(1 that would count alone do not among so many; 5% false discoveries)."
    )
