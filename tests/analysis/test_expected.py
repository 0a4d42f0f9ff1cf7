"""What arms are expected to gain, from what was measured of them and from its noise."""

import numpy as np
import pytest

from analysis.choice.expected import expected_gains
from analysis.choice.field import Candidate, Field, Floats
from analysis.evidence.tails import certain

#: A draft of two tokens and one of five, alone and at 16 at once, as a busy machine measured them.
KS = (2, 5)
LOG = np.log(np.array([[1.335, 0.829], [1.160, 0.643]]))
LENGTH = np.array([[2.24, 2.14], [3.21, 2.80]])


def _field(variance: Floats) -> Field:
    arms = tuple(Candidate(at, f"draft K={k}", "draft", k) for at, k in enumerate(KS))
    launches = np.where(np.isfinite(variance), 3.0, 1.0)
    return Field(arms, LOG, launches, variance, certain(LOG.shape, 2), np.zeros(2), LENGTH)


def test_arms_are_taken_at_their_word_where_nothing_was_repeated() -> None:
    nothing_known = np.full(LOG.shape, np.nan)

    assert expected_gains(_field(nothing_known)) == pytest.approx(LOG)


def test_what_noise_explains_of_the_way_over_k_is_left_out() -> None:
    noisy, quiet = np.full(LOG.shape, 4.0), np.full(LOG.shape, 1e-6)

    assert expected_gains(_field(quiet)) == pytest.approx(LOG, abs=1e-3)
    assert not np.allclose(expected_gains(_field(noisy)), LOG, atol=0.05)


def test_noise_that_one_arm_does_not_tell_is_that_of_the_others() -> None:
    known = np.full(LOG.shape, 0.09)
    partly = known.copy()
    partly[1, 0] = np.nan

    assert expected_gains(_field(partly)) == pytest.approx(expected_gains(_field(known)))
