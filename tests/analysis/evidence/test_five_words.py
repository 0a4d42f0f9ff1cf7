"""Where one word ends and the next begins."""

import numpy as np
import pytest

from analysis.evidence.words import GAIN, LIKELY, LIKELY_GAIN, LIKELY_LOSS, LOSS, OPEN, words

A_LITTLE = 1e-9


def word(low: float, high: float, probability: float, independent: bool = True) -> str:
    """The word for one difference."""
    (told,) = words(
        np.array([low]), np.array([high]), np.array([probability]), np.array([independent])
    )
    return str(told)


@pytest.mark.parametrize(
    ("low", "high", "probability", "told"),
    [
        (A_LITTLE, 0.1, 0.99, GAIN),
        (0.0, 0.1, 0.99, LIKELY_GAIN),
        (-0.1, 0.1, LIKELY, LIKELY_GAIN),
        (-0.1, 0.1, LIKELY - A_LITTLE, OPEN),
        (-0.1, 0.1, 1 - LIKELY + A_LITTLE, OPEN),
        (-0.1, 0.1, 1 - LIKELY, LIKELY_LOSS),
        (-0.1, 0.0, 0.01, LIKELY_LOSS),
        (-0.1, -A_LITTLE, 0.01, LOSS),
        (np.nan, np.nan, np.nan, OPEN),
    ],
)
def test_an_end_on_zero_settles_nothing_and_the_limit_itself_is_likely(
    low: float, high: float, probability: float, told: str
) -> None:
    assert word(low, high, probability) == told


def test_repeats_that_may_be_one_launch_settle_nothing() -> None:
    assert word(0.05, 0.1, 0.99, independent=False) == LIKELY_GAIN
    assert word(-0.1, -0.05, 0.01, independent=False) == LIKELY_LOSS
