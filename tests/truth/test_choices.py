"""The choice of an arm on a few random studies: every goal is met as far as so few can tell."""

import numpy as np
import pytest

from tests.truth import choices
from tests.truth.random_studies import random_studies
from tests.truth.row import table

STUDIES: dict[choices.FamilyName, int] = {"any": 70, "crossovers": 50, "any, rates": 40}


@pytest.mark.slow
@pytest.mark.parametrize("family", STUDIES)
def test_the_arm_taken_at_the_operating_load_is_the_best_there(family: choices.FamilyName) -> None:
    missed = [row for row in choices.rows_of(family, STUDIES[family]) if not row.passed]

    assert missed == [], table(missed)


def test_random_studies_are_of_the_kinds_that_are_promised() -> None:
    studies = list(random_studies("any", 400))

    assert {len(one.arms) for one in studies} == {1, 2, 3, 4, 5}
    assert {len({arm.method for arm in one.arms}) for one in studies} == {1, 2, 3}
    assert {len(one.loads) for one in studies} == {2, 3, 4, 5, 6}
    assert {len(one.datasets) for one in studies} == {1, 2, 3}
    assert {one.repeats for one in studies} == {2, 3, 4, 5}
    assert 0.08 < np.mean([one.rates for one in studies]) < 0.17
    assert 0.2 < np.mean([not one.measured.all() for one in studies]) < 0.3
    kinds = {(bool(arm.table), arm.adaptive) for one in studies for arm in one.arms}
    assert kinds == {(False, False), (True, False), (False, True)}


def test_gains_of_crossovers_cross_between_the_lowest_and_the_highest_load() -> None:
    for one in random_studies("crossovers", 100):
        high, modest = one.truth[:, 1], one.truth[:, 2]
        assert (high[:, 0] > modest[:, 0]).all()
        assert (high[:, -1] < 0).all()
        assert (modest > 0).all()


def test_the_same_seed_draws_the_same_studies_and_another_seed_others() -> None:
    one, same, other = (next(random_studies("any", 1, seed)) for seed in (3, 3, 4))

    assert np.array_equal(one.truth, same.truth)
    assert one.truth.shape != other.truth.shape or not np.array_equal(one.truth, other.truth)
