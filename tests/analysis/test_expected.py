"""What arms are expected to gain, from what was measured of them and from its noise."""

import numpy as np
import pytest

from analysis.choice.expected import Candidate, Field, Floats, expected_gains
from analysis.evidence.launches import Tails

#: Drafts of two, three and five tokens, alone and at 16 at once; those of two and five as a busy machine
#: measured them.
KS = (2, 3, 5)
LOG = np.log(np.array([[1.335, 0.829], [1.450, 0.690], [1.160, 0.643]]))
LENGTH = np.array([[2.24, 2.14], [2.61, 2.42], [3.21, 2.80]])


def _field(variance: Floats) -> Field:
    return _of(KS, LOG, LENGTH, variance)


def _of(ks: tuple[int, ...], log: Floats, length: Floats, variance: Floats) -> Field:
    arms = tuple(Candidate(at, f"draft K={k}", "draft", k) for at, k in enumerate(ks))
    launches = np.where(np.isfinite(variance), 3.0, 1.0)
    tails = Tails(np.ones(log.shape), np.full(log.shape, 2.0), np.full(log.shape, 2.0))
    return Field(arms, log, launches, variance, tails, np.zeros(len(ks)), length)


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


def test_two_drafts_of_a_noisy_machine_are_not_told_what_nobody_measured() -> None:
    """A table of K measured on the lab: a line from the baseline through both made K = 2 gain 43 % at
    16 at once, where it was measured to gain 27 %."""
    log = np.log(np.array([[1.805, 1.270], [2.336, 1.169]]))
    length = np.array([[2.24, 2.14], [3.21, 2.80]])

    assert expected_gains(_of((2, 5), log, length, np.full(log.shape, 0.02))) == pytest.approx(log)


def test_what_drafting_at_all_costs_is_not_taken_for_noise() -> None:
    """A step that costs a third more as soon as anything is drafted, and little for each token."""
    ks = np.array([1.0, 2.0, 3.0, 4.0])
    length = np.tile(1 + 0.6 * ks[:, None], 2)
    log = np.log(length) - (np.log(1.3) + 0.03 * ks)[:, None]

    assert expected_gains(
        _of((1, 2, 3, 4), log, length, np.full(log.shape, 0.03))
    ) == pytest.approx(log, abs=0.02)
