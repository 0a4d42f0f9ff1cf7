"""Rounding parts answers late, a draft that is taken unchecked parts them at once."""

import pandas as pd
import pytest

from analysis.evidence.output_check import Parting, parting

ONCE = Parting()
REPEATED = Parting(texts=20, parted=20, tokens=200)


def answers(*texts: str | None) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "index": range(len(texts)), "status": "completed", "output_tokens": 8,
            "prompt_hash": [f"{i:032x}" for i in range(len(texts))], "output": list(texts),
        }
    )  # fmt: skip


def test_tokens_are_counted_until_answers_part_or_end() -> None:
    found = parting(answers("abcd", "same", None), answers("abXd", "same", "kept"))

    assert found == Parting(texts=2, parted=1, tokens=(1 + 8 * 2 / 4) + 8)


def test_an_answer_that_is_the_beginning_of_the_other_parts_at_its_end() -> None:
    assert parting(answers("abcd"), answers("ab")) == Parting(1, 1, 1 + 8 * 2 / 4)
    assert parting(answers(""), answers("ab")) == Parting(1, 1, 1)


@pytest.mark.parametrize(
    ("found", "other"),
    [
        (Parting(texts=160, parted=5, tokens=160 * 45), False),  # a few, anywhere
        (Parting(texts=50, parted=50, tokens=50 * 150), False),  # nearly all, late
        (Parting(texts=1, parted=1, tokens=1), False),
        (Parting(texts=10, parted=10, tokens=10), True),
        (Parting(texts=40, parted=38, tokens=38 * 12 + 2 * 60), True),
        (Parting(), False),
    ],
)
def test_an_arm_answers_otherwise_where_its_answers_part_soon(found: Parting, other: bool) -> None:
    assert found.is_other(ONCE) is other


def test_what_the_baseline_does_between_two_launches_is_nobodys_fault() -> None:
    found = Parting(texts=20, parted=20, tokens=180)

    assert found.is_other(ONCE)
    assert not found.is_other(REPEATED)


def test_one_answer_that_the_baseline_parts_in_by_chance_allows_nothing() -> None:
    assert Parting(texts=40, parted=40, tokens=80).is_other(
        Parting(texts=40, parted=1, tokens=2400)
    )


def test_a_baseline_that_hardly_parts_by_itself_leaves_the_allowance_of_rounding() -> None:
    own = Parting(texts=40, parted=1, tokens=2400)

    assert not Parting(texts=100, parted=60, tokens=6000).is_other(own)
