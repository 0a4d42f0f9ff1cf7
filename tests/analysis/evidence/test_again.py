"""One launch against later ones: Student's t with the numbers worked by hand."""

import math

import numpy as np
import pytest

from analysis.evidence.effects import again

NONE = np.empty((0, 1))


def one(original: float, launches: list[float], siblings: list[float] | None = None, lower=False):
    rows = again(
        np.array([original]),
        np.array([[value] for value in siblings]) if siblings else NONE,
        np.array([[value] for value in launches]),
        np.array([lower]),
    )
    return rows.iloc[0]


def test_the_difference_is_judged_by_the_scatter_of_the_later_launches() -> None:
    found = one(100.0, [110.0, 121.0])

    # Mean of the logarithms: 1.5 ln 1.1. Their variance is (ln 1.1)^2 / 2 with one degree of
    # freedom, times 1 + 1/2: t is the square root of 3, beyond which t leaves a third.
    assert found["improvement"] == pytest.approx(1.1**1.5 - 1)
    assert found["p_value"] == pytest.approx(1 / 3)
    half = 12.7062047 * math.log(1.1) * math.sqrt(0.75)
    assert found["high"] == pytest.approx(1.1**1.5 * math.exp(half) - 1, rel=1e-5)
    assert found["word"] == "open"


def test_siblings_lend_their_scatter_and_not_their_level() -> None:
    alone = one(100.0, [120.0])
    helped = one(100.0, [120.0], siblings=[101.0, 99.0, 100.0])

    assert (alone["word"], math.isnan(alone["low"])) == ("open", True)
    assert helped["improvement"] == alone["improvement"] == pytest.approx(0.2)
    assert helped["word"] == "gain"


def test_where_lower_is_better_a_higher_value_is_a_loss() -> None:
    found = one(100.0, [119.0, 120.0, 121.0], lower=True)

    assert found["improvement"] == pytest.approx(1 - (119 * 120 * 121) ** (1 / 3) / 100)
    assert found["word"] == "loss"


def test_many_figures_have_to_be_surer_than_one() -> None:
    rng = np.random.default_rng(1)
    rows = again(
        np.full(20, 100.0), np.empty((0, 20)), 104 + rng.normal(0, 1, (3, 20)), np.zeros(20, bool)
    )
    assert (rows["error"] <= 0.05).all()
    assert (rows["adjusted_low"] <= rows["low"]).all()
