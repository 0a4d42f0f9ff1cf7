"""Where prompts come from: local files, the hub's library, texts made here."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ingest.clean import flatten
from runners.planning.plan import make_plan
from runners.planning.study_file import Study
from runners.surroundings.layout import Layout
from runners.texts import generators
from runners.texts.conversations import prompt_hashes
from runners.texts.prompts import PromptFiles, prompt_texts, python_with, value_at
from tests.runners.conftest import lab_executable
from warehouse.contract import hash_text
from warehouse.errors import StudyError

StudyOf = Callable[..., Study]
ROWS = [
    {"ask": "What is a draft?", "lang": "en", "turns": [{"from": "human", "value": "Hello"}]},
    {"ask": "Was ist ein Entwurf?", "lang": "de", "turns": [{"from": "gpt", "value": "Hallo"}]},
    {"ask": "Why?", "lang": "en", "turns": []},
]


@pytest.fixture
def texts(tmp_path: Path, study_of: StudyOf) -> Callable[..., list[str]]:
    """The prompts of one dataset; its files lie beside the study."""

    def read(**dataset: Any) -> list[str]:
        return prompt_texts(study_of(datasets=[{"name": "asked"} | dataset]), "asked")

    (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    (tmp_path / "a.json").write_text(json.dumps(ROWS))
    (tmp_path / "a.csv").write_text(
        "ask,lang\n" + "".join(f"{row['ask']},{row['lang']}\n" for row in ROWS)
    )
    pq.write_table(pa.Table.from_pylist(ROWS), tmp_path / "a.parquet")
    return read


@pytest.mark.parametrize("ending", ["jsonl", "json", "csv", "parquet"])
def test_every_file_format_gives_the_same_prompts(
    texts: Callable[..., list[str]], ending: str
) -> None:
    found = texts(file=f"a.{ending}", field="ask", filter={"where": {"lang": "en"}})
    assert found == ["What is a draft?", "Why?"]


@pytest.mark.parametrize("ending", ["jsonl", "parquet"])
def test_a_field_and_a_filter_may_lie_deep(texts: Callable[..., list[str]], ending: str) -> None:
    found = texts(
        file=f"./a.{ending}",
        field="turns.0.value",
        filter={"where": {"turns.0.from": "human"}},
    )
    assert found == ["Hello"]


def test_prompts_may_be_chosen_by_length(texts: Callable[..., list[str]]) -> None:
    assert texts(file="a.jsonl", field="ask", filter={"min_chars": 5, "max_chars": 16}) == [
        "What is a draft?"
    ]


def test_a_file_named_by_its_full_path_is_found(
    texts: Callable[..., list[str]], tmp_path: Path
) -> None:
    assert len(texts(file=str(tmp_path / "a.csv"), field="ask")) == 3


@pytest.mark.parametrize(
    ("dataset", "said"),
    [
        ({"file": "b.jsonl"}, "there is no file b.jsonl"),
        ({"file": "a.xlsx"}, "a.xlsx is none of .jsonl"),
        ({"file": "a.jsonl", "field": "question"}, "none of its 3 rows .* field question"),
        ({"file": "a.parquet", "field": "question"}, "no column question; it has ask, lang, turns"),
        ({"file": "broken.jsonl"}, "broken.jsonl is not JSONL"),
        ({"file": "list.jsonl"}, "list.jsonl has rows without columns"),
        ({"file": "broken.parquet"}, "Dataset asked cannot be read: .*could not be asked"),
    ],
)
def test_what_cannot_be_read_is_said_in_a_sentence(
    texts: Callable[..., list[str]], tmp_path: Path, dataset: dict[str, str], said: str
) -> None:
    for name in ("broken.jsonl", "broken.parquet"):
        (tmp_path / name).write_text("{")
    (tmp_path / "list.jsonl").write_text("[1]\n")
    with pytest.raises(StudyError, match=said):
        texts(**dataset)


@pytest.mark.slow
def test_a_dataset_of_the_hub_is_read_by_the_library_that_guidellm_brings(
    texts: Callable[..., list[str]], tmp_path: Path, study_of: StudyOf
) -> None:
    guidellm = lab_executable("guidellm", "guidellm-0.8.1")
    folder = tmp_path / "hub"
    folder.mkdir()
    (folder / "train.jsonl").write_text((tmp_path / "a.jsonl").read_text())
    study = study_of(
        # A folder stands for an id of the hub: the same call of the same library, offline.
        datasets=[{"name": "asked", "hub": {"id": str(folder)}, "field": "turns.0.value"}],
        executables={"guidellm": str(guidellm)},
        environment={"HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path / "cache")},
    )
    assert prompt_texts(study, "asked") == ["Hello", "Hallo"]


def test_without_the_library_and_guidellm_the_sentence_says_what_to_install(
    study_of: StudyOf,
) -> None:
    study = study_of(
        datasets=[{"name": "asked", "hub": {"id": "org/set"}}],
        executables={"guidellm": "./not-there"},
    )
    with pytest.raises(StudyError, match=r"needs the library datasets.*install GuideLLM"):
        prompt_texts(study, "asked")


@pytest.mark.slow
def test_a_hub_that_cannot_be_reached_is_said_for_its_dataset(
    study_of: StudyOf, tmp_path: Path
) -> None:
    guidellm = lab_executable("guidellm", "guidellm-0.8.1")
    study = study_of(
        datasets=[{"name": "asked", "hub": {"id": "org/set"}}],
        executables={"guidellm": str(guidellm)},
        environment={"HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path)},
    )
    with pytest.raises(StudyError, match="Dataset asked cannot be read"):
        prompt_texts(study, "asked")


def test_what_does_not_stand_at_a_path_is_none() -> None:
    assert value_at({"a": [{"b": "c"}]}, "a.0.b") == "c"
    assert [value_at({"a": [1]}, path) for path in ("a.1", "b", "a.x", "a.0.b")] == [None] * 4


@pytest.mark.slow
@pytest.mark.parametrize("kind", generators.KINDS)
def test_generated_prompts_are_distinct_of_the_asked_length_and_held_out(
    kind: generators.Kind,
) -> None:
    found = generators.prompts(kind)
    trained_on = "\0".join(d.text for d in generators.documents(kind, held_out=False)[:40])
    assert len(found) == len(set(found)) > 300
    assert {150 <= len(text) <= 320 for text in found} == {True}
    assert found == generators.prompts(kind)
    # Modules copy from one another: gzip, bz2 and lzma have docstrings in common.
    assert sum(text in trained_on for text in found) < len(found) / 20


@pytest.mark.slow
def test_a_module_and_its_docstrings_are_held_out_together() -> None:
    code, prose = (
        {d.name for d in generators.documents(kind, held_out=True)} for kind in ("code", "prose")
    )
    other = {d.name for d in generators.documents("prose", held_out=False)}
    assert code & prose
    assert not code & other


def test_structured_documents_are_what_they_look_like() -> None:
    found = generators.documents("structured", held_out=True)
    orders = [d.text for d in found if d.text.startswith("{")]
    assert {len(json.loads(text)["orders"]) for text in orders} <= {2, 3, 4, 5, 6}


def test_rows_are_read_by_this_python_where_it_has_the_library(study_of: StudyOf) -> None:
    study = study_of(executables={"guidellm": "./not-there"})
    assert python_with(study, "pyarrow") == Path(sys.executable)


TALK = [
    {"from": "system", "value": "Be brief."},
    {"from": "human", "value": "What is a draft?"},
    {"from": "gpt", "value": "A guess."},
    {"from": "human", "value": "Whose?"},
    {"from": "gpt", "value": "A small model's."},
]


def conversed(folder: Path, study_of: StudyOf, talks: list[Any], **dataset: Any) -> list[Any]:
    """The messages of each request that a dataset of conversations gives."""
    (folder / "talks.jsonl").write_text(
        "".join(json.dumps({"talk": talk}) + "\n" for talk in talks)
    )
    said = {"name": "talks", "file": "talks.jsonl", "field": "talk", "conversations": True}
    return [json.loads(text) for text in prompt_texts(study_of(datasets=[said | dataset]), "talks")]


def test_each_turn_of_a_user_is_a_request_with_the_recorded_answers_before_it(
    tmp_path: Path, study_of: StudyOf
) -> None:
    openais = [{"role": "user", "content": "Why?"}, {"role": "tool", "content": "42"},
               {"role": "user", "content": "Why then?"}]  # fmt: skip
    first, second, other = conversed(tmp_path, study_of, [TALK, openais])
    assert [one["role"] for one in second] == ["system", "user", "assistant", "user"]
    assert [one["content"] for one in second[1:]] == ["What is a draft?", "A guess.", "Whose?"]
    assert first == second[:2]
    # What no chat template takes ends the conversation.
    assert other == openais[:1]
    (told,) = prompt_hashes(json.dumps(second), "chat_completions", "conversation")
    assert told == hash_text(flatten(second) or "")


def test_a_conversation_is_as_long_as_all_its_messages(tmp_path: Path, study_of: StudyOf) -> None:
    (only,) = conversed(tmp_path, study_of, [TALK], filter={"max_chars": 25})
    assert sum(len(one["content"]) for one in only) == 25
    with pytest.raises(StudyError, match=r"has a conversation \(messages with role and content\)"):
        conversed(tmp_path, study_of, [["What?", "And then?"]])


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"request": {"format": "text_completions"}}, "holds conversations, which only chats can be"),
        ({"datasets": [{"name": "a", "generator": {"kind": "code"}, "conversations": True}]},
         "a generator makes single prompts"),
    ],
)  # fmt: skip
def test_conversations_that_cannot_be_sent_are_refused_with_the_study(
    study_of: StudyOf, change: dict[str, Any], said: str
) -> None:
    talks = {"name": "a", "file": "a.jsonl", "field": "turns", "conversations": True}
    with pytest.raises(StudyError, match=said):
        study_of(**{"datasets": [talks]} | change)


# --- Kinds of prompts that one run mixes.

#: The columns of SPEED-Bench (``sub_category`` too) and Spec-Bench.
BENCH = [
    {"question_id": n, "category": kind, "turns": [f"{kind} {n}?", "And then?"]}
    for kind in ("coding", "math") for n in range(6)
]  # fmt: skip


@pytest.mark.parametrize("ending", ["jsonl", "parquet"])
def test_the_kind_of_each_prompt_goes_with_it_to_the_record(
    tmp_path: Path, study_of: StudyOf, ending: str
) -> None:
    (tmp_path / "bench.jsonl").write_text("".join(json.dumps(row) + "\n" for row in BENCH))
    pq.write_table(pa.Table.from_pylist(BENCH), tmp_path / "bench.parquet")
    bench = {"name": "bench", "file": f"bench.{ending}", "field": "turns.0", "category": "category",
             "prompts_per_level": 5}  # fmt: skip
    study = study_of(datasets=[bench])
    files = PromptFiles(study, Layout(tmp_path / "results", "tiny"))
    cell = make_plan(study).cells[0]
    lines = [json.loads(line) for line in files.of(cell).path.read_text().splitlines()]
    assert {line["prompt"].partition(" ")[0] == line["category"] for line in lines} == {True}
    kinds = files.of(cell).kinds("chat_completions")
    assert kinds == {
        prompt_hashes(one["prompt"], "chat_completions")[0]: one["category"] for one in lines
    }
    assert {*kinds.values()} == {"coding", "math"}
    # What kind a prompt is changes nothing of what is measured.
    without = study_of(datasets=[{k: v for k, v in bench.items() if k != "category"}])
    assert make_plan(without).cells[0].fingerprint == cell.fingerprint
    assert (
        PromptFiles(without, Layout(tmp_path / "other", "tiny")).of(cell).kinds("chat_completions")
        == {}
    )


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"category": "kind"}, "none of its rows has a category in the column kind; name the column"),
        ({"category": "kind", "file": "bench.parquet"}, "has no column kind; it has question_id, category, turns"),
    ],
)  # fmt: skip
def test_a_column_of_kinds_that_is_not_there_is_refused(
    tmp_path: Path, study_of: StudyOf, changes: dict[str, str], said: str
) -> None:
    (tmp_path / "bench.jsonl").write_text("".join(json.dumps(row) + "\n" for row in BENCH))
    pq.write_table(pa.Table.from_pylist(BENCH), tmp_path / "bench.parquet")
    bench = {"name": "bench", "file": "bench.jsonl", "field": "turns.0"}
    with pytest.raises(StudyError, match=said):
        prompt_texts(study_of(datasets=[bench | changes]), "bench")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"generator": {"kind": "code"}}, "the rows of a generator have no categories; leave category out"),
        ({"file": "a.jsonl", "categories": ["math"]}, "category tells them apart in one run: give one"),
    ],
)  # fmt: skip
def test_kinds_that_cannot_be_told_apart_are_refused(
    study_of: StudyOf, changes: dict[str, Any], said: str
) -> None:
    with pytest.raises(StudyError, match=said):
        study_of(datasets=[{"name": "bench", "category": "category", **changes}])
