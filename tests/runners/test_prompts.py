"""Prompt sets: disjoint, the same for every arm, with the hash that ingest finds in the report."""

import json
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from ingest.clean import Body, prompt_text
from runners.planning.study_file import Study
from runners.texts.conversations import prompt_hashes
from runners.texts.prompts import prompt_sets, write
from warehouse.contract import hash_text, prompt_set_hash
from warehouse.errors import StudyError

StudyOf = Callable[..., Study]


@pytest.fixture
def given(tmp_path: Path, study_of: StudyOf) -> Callable[..., Study]:
    """A study over so many prompts that lie beside it in a file."""

    def make(count: int, dataset: dict[str, object] | None = None, **changes: object) -> Study:
        lines = [json.dumps({"prompt": f"Question {number}?"}) for number in range(count)]
        (tmp_path / "asked.jsonl").write_text("\n".join(lines), encoding="utf-8")
        asked = {"name": "asked", "file": "asked.jsonl", "prompts_per_level": {1: 5, 4: 20}}
        return study_of(datasets=[asked | (dataset or {})], **changes)

    return make


def test_levels_share_no_prompt_and_warm_up_shares_none_with_them(
    given: Callable[..., Study],
) -> None:
    sets = prompt_sets(given(40), "asked")
    texts = [p for found in sets.values() for p in found.prompts]
    texts += sets["c1"].warm_up
    assert [len(sets[level].prompts) for level in ("c1", "c4")] == [5, 20]
    assert len(texts) == len(set(texts)) == 29


def test_every_arm_gets_the_same_prompts_and_another_seed_others(
    given: Callable[..., Study],
) -> None:
    one, again = (prompt_sets(given(40), "asked") for _ in range(2))
    other = prompt_sets(given(40, {"shuffle_seed": 1}), "asked")
    assert one == again
    assert one["c4"].hash != other["c4"].hash


def test_prompts_are_shuffled(given: Callable[..., Study]) -> None:
    expected = [f"Question {number}?" for number in range(40)]
    random.Random(0).shuffle(expected)
    assert [*prompt_sets(given(40), "asked")["c1"].prompts] == expected[:5]


def test_a_level_left_out_for_a_dataset_takes_no_prompts(given: Callable[..., Study]) -> None:
    study = given(20, {"concurrency": [4]}, window={"warm_up_requests": 0})
    assert list(prompt_sets(study, "asked")) == ["c4"]


@pytest.mark.parametrize("content", ["text", "parts"])
def test_the_hash_of_a_chat_prompt_is_the_one_that_ingest_finds(
    given: Callable[..., Study], content: str
) -> None:
    prompt = prompt_sets(given(40), "asked")["c1"].prompts[0]
    said = prompt if content == "text" else [{"type": "text", "text": prompt}]
    asked = prompt_text(Body(messages=[{"role": "user", "content": said}]))
    assert asked is not None
    assert prompt_hashes(prompt, "chat_completions") == [hash_text(asked)]


def test_the_hash_of_a_completion_is_that_of_its_text(given: Callable[..., Study]) -> None:
    found = prompt_sets(given(40, request={"format": "text_completions"}), "asked")["c1"]
    hashes = [hash_text(prompt_text(Body(prompt=p)) or "") for p in found.prompts]
    assert [prompt_hashes(p, "text_completions")[0] for p in found.prompts] == hashes
    assert found.hash == prompt_set_hash(list(reversed(hashes)))


def test_too_few_prompts_are_said_with_both_numbers(given: Callable[..., Study]) -> None:
    study = given(24)
    with pytest.raises(StudyError, match=r"asked has 24 different prompts.*need 25"):
        prompt_sets(study, "asked")


def test_a_text_that_stands_twice_counts_once(given: Callable[..., Study], tmp_path: Path) -> None:
    study = given(25)
    file = tmp_path / "asked.jsonl"
    file.write_text(file.read_text().replace("Question 24?", "Question 0?"))
    with pytest.raises(StudyError, match="24 different"):
        prompt_sets(study, "asked")


def test_a_dataset_without_prompts_to_spare_warms_up_with_fewer(
    given: Callable[..., Study],
) -> None:
    assert len(prompt_sets(given(27), "asked")["c1"].warm_up) == 2


def test_a_written_set_is_one_prompt_a_line(given: Callable[..., Study], tmp_path: Path) -> None:
    found = prompt_sets(given(40), "asked")["c4"]
    path = tmp_path / "sets" / "asked-c4.jsonl"
    write(found, path)
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    assert lines == [{"prompt": p} for p in found.prompts]
    assert [p.name for p in path.parent.iterdir()] == [path.name]
