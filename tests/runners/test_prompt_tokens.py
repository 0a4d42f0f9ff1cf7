"""Prompts cut and filled to lengths in the model's own tokens: what of a text stays, and what cannot be sent."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from runners.planning.plan import make_plan, refusals
from runners.planning.study_file import Study
from runners.texts.prompts import prompt_sets
from tests.runners.conftest import ROOT, lab_executable
from warehouse.errors import StudyError

StudyOf = Callable[..., Study]
#: A library of that name whose tokenizer takes each word with the space before it for a token.
LIBRARY = """
import re
class AutoTokenizer:
    chat_template = "user: assistant:"
    @classmethod
    def from_pretrained(cls, name, **_):
        if not name.endswith("target"):
            raise OSError(f"no tokenizer in {name}")
        return cls()
    def __init__(self):
        self.words = []
    def encode(self, text, add_special_tokens=True):
        found = re.findall(r"\\s*\\S+", text)
        self.words += [word for word in found if word not in self.words]
        return [self.words.index(word) for word in found]
    def decode(self, numbers):
        return "".join(self.words[number] for number in numbers).lstrip()
    def apply_chat_template(self, talk, tokenize, add_generation_prompt):
        return f"user: {talk[0]['content']} assistant:"
"""


@pytest.fixture
def given(
    tmp_path: Path, study_of: StudyOf, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Study]:
    """A study over 60 numbered questions of 13 words each, and the library with the tokenizer."""
    library = tmp_path / "library"
    library.mkdir()
    (library / "transformers.py").write_text(LIBRARY)
    monkeypatch.syspath_prepend(str(library))
    texts = [" ".join(f"{n}.{word}" for word in range(12)) + f" end{n}" for n in range(60)]
    lines = [json.dumps({"prompt": text, "kind": f"k{n % 2}"}) for n, text in enumerate(texts)]
    (tmp_path / "asked.jsonl").write_text("\n".join(lines))

    def make(dataset: dict[str, Any] | None = None, **changes: Any) -> Study:
        asked = {"name": "asked", "file": "asked.jsonl", "prompts_per_level": {1: 5, 4: 20}}
        return study_of(**{
            "datasets": [asked | (dataset or {})], "environment": {"PYTHONPATH": str(library)},
            "request": {"format": "text_completions", "max_tokens": 8},
        } | changes)  # fmt: skip

    return make


def test_each_length_is_a_dataset_of_its_own_beside_load(given: Callable[..., Study]) -> None:
    study = given(prompt_tokens=[8, 40])
    assert [one.name for one in study.measured_on] == ["asked-8t", "asked-40t"]
    assert {cell.dataset for cell in make_plan(study).cells} == {"asked-8t", "asked-40t"}
    # A dataset's own lengths come first.
    own = given({"prompt_tokens": [20]}, prompt_tokens=[8, 40])
    assert [one.name for one in own.measured_on] == ["asked-20t"]
    cells = [make_plan(one).cells[0].fingerprint for one in (given(), own, study)]
    assert len(set(cells)) == 3


def test_a_prompt_has_so_many_tokens_and_ends_as_its_text_does(given: Callable[..., Study]) -> None:
    study = given({"category": "kind"}, prompt_tokens=[8, 40])
    short, long = (prompt_sets(study, f"asked-{n}t")["c4"] for n in (8, 40))
    assert {len(text.split()) for text in short.prompts} == {8}
    assert {len(text.split()) for text in long.prompts} == {40}
    for one, other in zip(short.prompts, long.prompts, strict=True):
        # One text at both lengths: what comes next is the same.
        assert other.endswith(one)
        number = int(one.rpartition("end")[2])
        assert long.kinds[other] == f"k{number % 2}"
        # Before a short text stand those before it.
        assert f"end{(number - 1) % 60}\n" in other
    assert len({text.split()[0] for text in long.prompts}) == len(long.prompts)


def test_what_a_chat_has_around_a_prompt_counts_too(given: Callable[..., Study]) -> None:
    study = given(prompt_tokens=[20], request={"format": "chat_completions"})
    assert {len(text.split()) for text in prompt_sets(study, "asked-20t")["c4"].prompts} == {18}


def test_a_level_that_goes_leaves_the_others_their_prompts(given: Callable[..., Study]) -> None:
    every = prompt_sets(given(prompt_tokens=[40]), "asked-40t")
    for at_once in (1, 4):
        name = f"c{at_once}"
        fewer = given({"concurrency": [at_once]}, prompt_tokens=[40])
        alone = prompt_sets(fewer, "asked-40t", {name: every[name].prompts})
        assert alone[name].hash == every[name].hash


@pytest.mark.parametrize(
    ("dataset", "changes", "said"),
    [
        ({}, {"prompt_tokens": [900]}, r"have 780 tokens together, too few for one prompt of 900; take"),
        ({}, {"prompt_tokens": [8], "target": {"model": "org/other"}},
         "Dataset asked-8t: its prompts cannot be cut to 8 tokens: .*no tokenizer in org/other"),
    ],
)  # fmt: skip
def test_lengths_that_cannot_be_made_are_said_in_a_sentence(
    given: Callable[..., Study], dataset: dict[str, Any], changes: dict[str, Any], said: str
) -> None:
    study = given(dataset, **changes)
    with pytest.raises(StudyError, match=said) as told:
        prompt_sets(study, study.measured_on[0].name)
    assert "\n" not in str(told.value)


@pytest.mark.parametrize(
    ("dataset", "changes", "said"),
    [
        ({}, {"prompt_tokens": [8, 40, 8]}, "datasets named twice: asked-8t"),
        ({"prompt_tokens": [8, 8]}, {}, "datasets named twice: asked-8t"),
        ({"prompt_tokens": [0]}, {}, "line .*prompt_tokens.0"),
        ({"conversations": True}, {"prompt_tokens": [8], "request": {}},
         "asked holds conversations, and prompt_tokens cuts and fills single prompts"),
    ],
)  # fmt: skip
def test_lengths_that_make_no_sense_are_refused_with_the_study(
    given: Callable[..., Study], dataset: dict[str, Any], changes: dict[str, Any], said: str
) -> None:
    with pytest.raises(StudyError, match=said):
        given(dataset, **changes)


def test_a_context_longer_than_the_server_holds_is_refused_before_the_run(
    given: Callable[..., Study],
) -> None:
    held = {"target": {"model": "org/target", "engine_args": {"max-model-len": 64}}}
    fits, not_quite = (make_plan(given(prompt_tokens=[8, n], **held)) for n in (56, 57))
    assert refusals(fits, None) == []
    assert refusals(not_quite, None) == [
        "asked-57t: a prompt of 57 tokens and an answer of up to 8 do not fit max-model-len 64; lower "
        "prompt_tokens or max_tokens, or raise it."
    ]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["code", "structured", "prose"])
def test_the_labs_texts_come_in_256_and_448_of_its_models_tokens(
    study_of: StudyOf, kind: str, tmp_path: Path
) -> None:
    guidellm = lab_executable("guidellm", "guidellm-0.8.1")
    target = ROOT / "studies" / "lab-models" / "target"
    study = study_of(
        target={"model": str(target), "engine_args": {"max-model-len": 512}},
        datasets=[{"name": "lab", "generator": {"kind": kind}, "prompts_per_level": 60}],
        prompt_tokens=[256, 448], executables={"guidellm": str(guidellm)},
        request={"format": "text_completions", "max_tokens": 64},
        environment={"HF_HUB_OFFLINE": "1"},
    )  # fmt: skip
    assert refusals(make_plan(study), None) == []
    short, long = (prompt_sets(study, f"lab-{n}t")["c4"].prompts for n in (256, 448))
    assert len(set(short)) == len(set(long)) == 60
    # Longer by the same share, since they are of the same texts.
    sizes = [sum(map(len, texts)) for texts in (short, long)]
    assert sizes[1] / sizes[0] == pytest.approx(448 / 256, rel=0.1)
