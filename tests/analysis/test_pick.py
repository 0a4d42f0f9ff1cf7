"""Which arm is taken where one of them drafts by a table of K: worked by hand."""

import numpy as np

from analysis.choice.field import Candidate, Field
from analysis.choice.pick import pick
from analysis.evidence.tails import certain
from warehouse.arms import Entry

LOADS = (1, 16)
#: K = 5 is best alone, K = 2 under load: a table of both looks best of all.
FIXED = ((0.50, -0.10), (0.20, 0.15))


def taken(table: tuple[Entry, ...] = (), gains: tuple[float, float] = (0.0, 0.0)):
    """What is taken of K = 5 and K = 2, and of an arm by ``table`` where one was measured."""
    log = np.array([*FIXED, gains] if table else FIXED)
    arms = [Candidate(at, f"draft K={k}", "draft", k) for at, k in enumerate((5, 2))]
    if table:
        arms.append(Candidate(2, "draft K=5/2 by table", "draft (table)", None, "table", table))
    field = Field(
        tuple(arms), log, np.ones(log.shape), np.ones(log.shape), certain(log.shape, 1),
        np.zeros(len(log)), np.full(log.shape, np.nan),
    )  # fmt: skip
    found = pick(field, log, LOADS, np.ones(log.shape, dtype=np.bool_), np.ones(len(LOADS)))
    assert found is not None
    return found


def test_k_follow_the_load_where_their_table_was_not_measured() -> None:
    found = taken()
    assert found.at == (0, 1)
    assert found.table is not None
    assert [(start, k) for start, _, k in found.table.entries] == [(1, 5), (5, 2)]


def test_a_table_that_was_measured_counts_as_what_it_was_measured_to_be() -> None:
    entries = taken().table
    assert entries is not None
    # Worse than K = 5 alone and K = 2 under load: switching cost more than it brought.
    poor = taken(entries.entries, (0.20, 0.02))
    assert poor.family == "draft"
    assert poor.table is None
    assert poor.at == (0, None)
    good = taken(entries.entries, (0.48, 0.14))
    assert good.family == "draft (table)"
    assert good.at == (2, 2)


def test_another_table_that_was_measured_says_nothing_of_this_one() -> None:
    assert taken(((1, 4, 3), (5, 16, 1)), (0.10, 0.02)).table is not None
