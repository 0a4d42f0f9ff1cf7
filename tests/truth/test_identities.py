"""Random studies through files, ingest and every door: nothing that is said contradicts itself."""

from collections.abc import Iterator
from itertools import islice

import pytest

from tests.truth.identities import checked
from tests.truth.random_studies import FamilyName, RandomStudy, random_studies

#: A study with more cells than this takes too long for a test.
SMALL = 100
FAMILIES: tuple[FamilyName, ...] = ("any", "crossovers", "any, rates")


def small(family: FamilyName) -> Iterator[RandomStudy]:
    return (
        one
        for one in random_studies(family, 100, seed=7)
        if one.measured.sum() * one.repeats < SMALL
    )


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_a_decision_is_one_by_every_face_and_its_words_are_those_of_its_map(
    family: FamilyName,
) -> None:
    missed = [
        (what, where)
        for study in islice(small(family), 1)
        for what, where, holds in checked(study)
        if not holds
    ]

    assert missed == []
