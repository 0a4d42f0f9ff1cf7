"""Who says how many tokens an arm drafts: the results, its engine, or nobody."""

import pytest

from analysis.choice.expected import Candidate
from answers.decide.shown import k_kind
from warehouse.contract import Chooser


@pytest.mark.parametrize(
    ("k", "chooser", "kind"),
    [
        (3, None, "fixed"),
        (None, None, "unknown"),
        (None, "adaptive", "engine"),
        (None, "match", "engine"),
        (None, "table", "engine"),
    ],
)
def test_an_unknown_k_is_not_one_that_the_engine_chooses(
    k: int | None, chooser: Chooser | None, kind: str
) -> None:
    assert k_kind(Candidate(0, "an arm", "a family", k, chooser)) == kind
