"""Did both arms answer the same: lengths, texts, and what that does not prove."""

from typing import Any

import pandas as pd
import pytest

from analysis.evidence.output_check import NUMERICS, check_outputs, first_difference


def answers(*texts: str | None, tokens: int = 10, **changes: Any) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "index": range(len(texts)), "status": "completed", "output_tokens": tokens,
            "prompt_hash": [f"{i:032x}" for i in range(len(texts))], "output": list(texts),
        } | changes
    )  # fmt: skip


def test_identical_and_differing_texts_are_counted_at_temperature_0() -> None:
    found = check_outputs(
        answers("a b c", "x y z", "same", "it is"),
        answers("a b c", "x y q", "same", "it, is"),
        True,
    )

    assert found.identical == 0.5
    assert found.sentences[1] == (
        "50.0% of 4 texts are identical at temperature 0. Where they differ, they first do at "
        "word 2 (median)."
    )
    assert NUMERICS in found.sentences


@pytest.mark.parametrize(
    ("one", "other", "place"),
    [
        ("a b c", "a b c", None),
        ("a b c", "a b d", 3),
        ("a b", "a b c", 3),
        ("a, b", "a; b", 2),
        ("", "a", 1),
    ],
)
def test_the_first_difference_is_counted_in_words(one: str, other: str, place: int | None) -> None:
    assert first_difference(one, other) == place


def test_prompts_meet_by_their_hash_and_not_by_their_order() -> None:
    found = check_outputs(answers("a", "b"), answers("a", "b").iloc[::-1], True)

    assert found.identical == 1
    assert not any("differ, they first do" in sentence for sentence in found.sentences)


def test_a_prompt_sent_twice_meets_its_own_turn() -> None:
    once = answers("a", "b", prompt_hash="f" * 32)

    found = check_outputs(once, once.iloc[::-1], True)

    assert (found.prompts, found.identical) == (2, 1)


def test_a_prompt_that_one_arm_did_not_complete_is_left_out() -> None:
    found = check_outputs(
        answers("a", "b"), answers("a", "c", status=["completed", "errored"]), True
    )

    assert (found.prompts, found.identical) == (1, 1)


@pytest.mark.parametrize(("greedy", "why"), [(None, "is unknown"), (False, "is not 0")])
def test_texts_are_not_compared_above_temperature_0(greedy: bool | None, why: str) -> None:
    found = check_outputs(answers("a"), answers("b"), greedy)

    assert found.identical is None
    assert why in found.sentences[-1]


def test_texts_that_were_not_kept_are_asked_for() -> None:
    assert "--keep-text" in check_outputs(answers(None), answers(None), True).sentences[-1]


def test_lengths_are_compared_and_a_large_difference_is_said() -> None:
    found = check_outputs(answers("a", "b"), answers("a", "b", tokens=8), None)

    assert found.median_tokens == (10, 8)
    assert "more than 5 % apart" in found.sentences[1]


def test_no_common_prompt_is_said() -> None:
    found = check_outputs(answers("a"), answers("a", prompt_hash=["f" * 32]), True)

    assert found.prompts == 0
    assert "no prompt was completed by both" in found.sentences[0]
