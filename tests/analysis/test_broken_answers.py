"""Answers that end at once or never, counted by prompt: numbers by hand, and studies whose truth is known."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import fisher_exact

from analysis.evidence.answer_texts import is_json, repeats
from analysis.evidence.broken_answers import by_texts, compared, compared_texts, flip_test, settled

PROMPTS = 160
Lengths = list[float]


def rows(cell: str, lengths: Lengths, **columns: object) -> pd.DataFrame:
    """The requests of one cell, in the order in which they were sent."""
    told = {
        "cell_id": cell, "index": range(len(lengths)), "status": "completed",
        "start": np.arange(len(lengths), dtype=float), "output_tokens": lengths, "prompt_hash": None,
    }  # fmt: skip
    return pd.DataFrame({**told, **columns})


def found(baselines: list[pd.DataFrame], arms: list[pd.DataFrame]) -> dict[str, dict[str, float]]:
    """What is counted by kind, a launch of both arms in each place."""
    pairs = pd.DataFrame({
        "setting": 0, "arm_id": 1, "load": 0,
        "baseline_id": [one["cell_id"].iloc[0] for one in baselines],
        "speculative_id": [one["cell_id"].iloc[0] for one in arms],
    })  # fmt: skip
    told = compared(pairs, pd.concat([*baselines, *arms], ignore_index=True))
    return {row["kind"]: row for row in told.to_dict("records")}


def test_one_launch_is_tested_by_the_sign_and_more_by_how_often() -> None:
    assert flip_test(np.array([1] * 8 + [-1])) == pytest.approx(10 / 512)  # McNemar
    assert flip_test(np.array([-1, 0])) == flip_test(np.array([0])) == 1.0
    # Of the signs of 3, 1 and 1, only + + + adds up to 5; + + -, + - + to 3, + - - and - + + to 1.
    assert flip_test(np.array([3, 1, 1])) == pytest.approx(1 / 8)
    assert flip_test(np.array([3, 1, -1])) == pytest.approx(3 / 8)


def test_answers_end_at_once_below_three_tokens_or_a_tenth_of_the_median() -> None:
    baseline = rows("b", [100.0] * 6 + [9.0, 100.0])
    told = found([baseline], [rows("s", [1.0, 9.0, 10.0, 100.0, 100.0, 100.0, 9.0, 100.0])])[
        "short"
    ]

    assert (told["share"], told["share_baseline"], told["tokens"]) == (3 / 8, 1 / 8, 9.0)
    assert told["p"] == 1 / 4  # two prompts that only the arm breaks
    few = found([rows("b", [4.0, 4.0])], [rows("s", [2.0, 3.0])])["short"]
    assert (few["share"], few["tokens"]) == (1 / 2, 2.0)


def test_a_prompt_counts_once_however_many_launches_break_it() -> None:
    arms = [rows(f"s{at}", [1.0, 100.0, 100.0]) for at in range(3)]
    told = found([rows(f"b{at}", [100.0] * 3) for at in range(3)], arms)["short"]

    assert (told["share"], told["p"]) == (1 / 3, 1 / 2)


def test_prompts_are_found_by_what_they_ask_in_whatever_order_they_were_sent() -> None:
    baseline = rows("b", [1.0, 100.0, 100.0], prompt_hash=["a", "b", "c"])
    told = found([baseline], [rows("s", [100.0, 100.0, 1.0], prompt_hash=["c", "b", "a"])])

    assert told["short"]["p"] == 1.0


def test_what_was_cut_off_or_failed_is_no_answer() -> None:
    status = ["completed", "incomplete", "errored"]
    told = found([rows("b", [100.0] * 3)], [rows("s", [100.0, 1.0, 0.0], status=status)])["short"]

    assert told["share"] == 0.0


def test_answers_that_run_into_the_limit_are_counted_and_those_all_forced_to_it_differ_in_nothing() -> (
    None
):
    own = [100.0 + at for at in range(20)]
    told = found([rows("b", own)], [rows("s", [512.0] * 10 + own[10:])])["endless"]

    assert (told["share"], told["share_baseline"], told["tokens"]) == (1 / 2, 0.0, 512.0)
    assert told["p"] == pytest.approx(0.5**10)
    forced = found([rows("b", [256.0] * 20)], [rows("s", [256.0] * 20)])
    assert {one["p"] for one in forced.values()} == {1.0}


def test_the_more_a_study_compares_the_surer_each_must_be() -> None:
    p = np.array([0.004, 0.9, 0.9, 0.004, 0.9])

    assert settled(p, np.array([0, 0, 1, 1, 1])).tolist() == [True, False, False, False, False]


def studies(count: int, broken: float = 0.0, ends: float = 0.1) -> tuple[int, int]:
    """In how many studies of three arms, two loads and three launches an arm is settled that is sound, and
    in how many the first arm is. Answers are drawn anew in each launch, some of them short (``ends``); what
    the first arm breaks (a share of the prompts) it breaks in every launch."""
    rng = np.random.default_rng(31)
    shape = (count, 2, 3, 4, PROMPTS)
    tokens = np.where(rng.random(shape) < ends, 2, rng.integers(200, 300, shape))
    tokens[:, :, :, 1, : round(broken * PROMPTS)] = 1
    place = np.indices(shape[:-1]).reshape(4, -1)
    cells = pd.DataFrame(dict(zip(("setting", "load", "launch", "arm_id"), place, strict=True)))
    cells["speculative_id"] = np.arange(len(cells))
    cells["baseline_id"] = cells["speculative_id"] - cells["arm_id"]
    answers = pd.DataFrame({
        "cell_id": np.repeat(cells["speculative_id"], PROMPTS), "output_tokens": tokens.ravel(),
        "index": np.tile(range(PROMPTS), len(cells)), "status": "completed", "start": 0.0,
        "prompt_hash": None,
    })  # fmt: skip
    told = compared(cells[cells["arm_id"] > 0], answers)
    out = told[settled(told["p"].to_numpy(), told["setting"].to_numpy())]
    wrong = out[(out["arm_id"] > 1) | (broken == 0)]
    return wrong["setting"].nunique(), out[out["arm_id"] == 1]["setting"].nunique()


def test_equal_arms_lose_none_in_99_of_100_studies() -> None:
    false, _ = studies(200)

    assert false <= 2


@pytest.mark.parametrize("ends", [0.0, 0.05])
def test_one_answer_in_eight_is_always_found_and_nobody_else_is_blamed(ends: float) -> None:
    assert studies(20, 0.125, ends) == (0, 20)


SENTENCE = "The quick brown fox jumps over the lazy dog, and so on and so forth. "
STORY = " ".join(
    f"{word} {at * at}" for at, word in enumerate(["so", "it", "goes", "on", "and", "on"] * 20)
)


@pytest.mark.parametrize(
    ("text", "loops"),
    [
        (STORY + SENTENCE * 20, True),
        (STORY + SENTENCE * 20 + "The quick br", True),
        (STORY[:300] + "!" * 200 + "\n", True),
        (STORY + STORY[:100] * 6, True),
        # It came out of it, it has said so twice only, or too little to tell.
        (SENTENCE * 20 + STORY, False),
        (STORY + SENTENCE * 2, False),
        ("10000000", False), ("no no no no", False), ("", False), (STORY, False),
        (f"x = [{', '.join(['[0, 0, 0, 0]'] * 30)}]", False),
        ("\n".join(f"| row {at} | 0 | 0 | 0 |" for at in range(60)), False),
    ],
)  # fmt: skip
def test_an_answer_repeats_itself_where_it_ends_in_one_block_said_over_and_over(
    text: str, loops: bool
) -> None:
    assert repeats(text) is loops


CALL = '{"name": "find", "arguments": {"place": "here"}}'


@pytest.mark.parametrize(
    ("text", "is_one"),
    [
        ('{"a": 1}', True), (' [1, {"b": []}]\n', True), ('```json\n{"a": 1}\n```', True),
        ('```\n[]\n```', True), ('Here it is:\n```json\n{"a": 1}\n```\nAnything else?', True),
        ('<think>\nLet {me} see\n</think>\n\n{"a": 1}', True),
        (f"<tool_call>\n{CALL}\n</tool_call>\n<tool_call>\n{CALL}\n</tool_call>", True),
        ('<tool_call>{"type": "function", "function": {"name": "f", "arguments": "{}"}}</tool_call>', True),
        ('<tool_call>{"name": "f", "parameters": {}}</tool_call>', True),
        ('{"a": 1', False), ('{"a": NaN}', False), ('{"a": "\ud800"}', False), ("12", False), ('"text"', False), ("", False), ("{}{}", False),
        ("```python\n[1]\n```", False), ('```json\n{"a": 1}\n```\nor\n```json\n{"a": }\n```', False),
        ('```json\n{"a": 1}\n```\nor\n```json\n{"a": 2}\n```', True), ('```json\n{"a": 1}', True), ('```json\n{"a": 1', False), ("Prose.", False), ("[" * 100_000, False),
        (f"<tool_call>{CALL}</tool_call><tool_call>{CALL[:-1]}</tool_call>", False),
        ('<tool_call>{"a": 1}</tool_call>', False), ("<tool_call>[]</tool_call>", False), ("<tool_call>3</tool_call>", False),
        ('<tool_call>{"name": "f", "arguments": "{"}</tool_call>', False),
        ('<tool_call>{"name": "", "arguments": {}}</tool_call>', False),
    ],
)  # fmt: skip
def test_an_answer_is_json_without_its_fence_and_a_call_has_a_name_and_arguments(
    text: str, is_one: bool
) -> None:
    assert is_json(text) is is_one


def of_texts(
    shares: list[tuple[float, float]], metric: str, hashes: list[str] | None = None
) -> list[dict[str, object]]:
    """What texts say of an arm; ``shares``: of each launch, the baseline's and the arm's."""
    cells = [f"{arm}{at}" for arm in "bs" for at in range(len(shares))]
    asked = pd.concat([rows(one, [100.0] * PROMPTS, prompt_hash=hashes) for one in cells])
    pairs = pd.DataFrame({
        "setting": 0, "arm_id": 1, "load": 0, "metric": metric,
        "baseline_id": cells[: len(shares)], "speculative_id": cells[len(shares) :],
        "baseline": [one for one, _ in shares], "speculative": [other for _, other in shares],
    })  # fmt: skip
    told = compared_texts(by_texts(pairs), asked)
    return [dict(one) for one in told.to_dict("records")]


def test_shares_of_texts_are_of_the_prompts_of_one_launch_however_many_there_are() -> None:
    for launches in (1, 3):
        (one,) = of_texts([(1 / 160, 9 / 160)] * launches, "repeating_answers")
        exact = fisher_exact([[9, 151], [1, 159]], alternative="greater").pvalue
        assert one["kind"] == "repeating"
        told = [one["share"], one["share_baseline"], one["p"]]
        assert told == pytest.approx([9 / 160, 1 / 160, exact])


def test_a_prompt_that_is_sent_again_and_again_is_one_witness() -> None:
    (one,) = of_texts([(0.0, 0.125)], "repeating_answers", [f"p{at % 16}" for at in range(PROMPTS)])
    exact = fisher_exact([[2, 14], [0, 16]], alternative="greater").pvalue
    assert one["p"] == pytest.approx(exact)


def test_json_counts_where_half_of_the_baselines_answers_are_some() -> None:
    (one,) = of_texts([(0.5, 0.25)], "json_answers")
    assert (one["kind"], one["share"], one["share_baseline"]) == ("unparsed", 0.75, 0.5)
    assert of_texts([(0.49, 0.0)], "json_answers") == []


@pytest.mark.parametrize(("alike", "most"), [(True, 2), (False, 0)])
def test_equal_arms_break_texts_alike_and_lose_none_in_99_of_100_studies(
    alike: bool, most: int
) -> None:
    """Both arms break so many answers: the same ones in each launch of an arm, which is as if there was one
    launch, or others."""
    rng = np.random.default_rng(31)
    out = 0
    for rate in np.repeat([0.0, 0.02, 0.125, 0.5], 25):
        drawn = rng.binomial(PROMPTS, rate, (1 if alike else 3, 2)) / PROMPTS
        shares = np.broadcast_to(drawn, (3, 2)).tolist()
        (one,) = of_texts([(old, new) for old, new in shares], "repeating_answers")
        out += settled(np.array([one["p"]] + [1.0] * 3), np.zeros(4, dtype=np.int64)).sum()
    assert out <= most
