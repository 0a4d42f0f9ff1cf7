"""Study files: what they say, and what is said of a wrong one."""

from collections.abc import Callable
from pathlib import Path

import pytest

from runners.planning.plan import make_plan
from runners.planning.study_file import Study, read_study
from runners.serving.engines import server_command
from warehouse.errors import StudyError

GOOD = """\
name: tiny
target:
  model: org/target
arms:
  - name: baseline
  - name: ngram
    speculative_config: {method: ngram, prompt_lookup_max: 4}
    num_speculative_tokens: [2, 3]
datasets:
  - name: code
    generator: {kind: code}
concurrency: [1, 4]
"""


def read(tmp_path: Path, text: str) -> Study:
    path = tmp_path / "s.yaml"
    path.write_text(text, encoding="utf-8")
    return read_study(path)


def test_a_list_of_draft_tokens_makes_an_arm_of_each(tmp_path: Path) -> None:
    study = read(tmp_path, GOOD)
    assert [v.name for v in study.variants] == ["baseline", "ngram-k2", "ngram-k3"]
    assert study.variants[2].speculative_config == {
        "method": "ngram",
        "prompt_lookup_max": 4,
        "num_speculative_tokens": 3,
    }
    assert study.variants[0].is_baseline


def test_an_equal_engine_is_one_more_baseline_that_is_no_arms_reference(study_of) -> None:
    plain = make_plan(study_of())
    study = study_of(equal_engine=True)
    *others, found = study.variants
    assert tuple(others) == study_of().variants
    assert (found.name, found.is_baseline) == ("baseline-equal-engine", False)
    assert server_command(study, found, 1)[-1] == "--no-async-scheduling"
    assert found.environment == {"VLLM_USE_V2_MODEL_RUNNER": "0"}
    # What was measured without it stays measured.
    known = {cell.fingerprint for cell in plain.cells}
    assert {cell.fingerprint for cell in make_plan(study).cells} > known
    only = study_of(equal_engine=["async-scheduling"]).variants[-1]
    assert only.environment == {}
    with pytest.raises(StudyError, match="known of vLLM alone"):
        study_of(equal_engine=True, engine="sglang")


def test_by_default_texts_end_naturally_at_temperature_0(tmp_path: Path) -> None:
    request = read(tmp_path, GOOD).request
    assert (request.ignore_eos, request.temperature, request.format) == (
        False,
        0.0,
        "chat_completions",
    )


@pytest.mark.parametrize(
    ("old", "new", "line", "says"),
    [
        ("concurrency: [1, 4]", "concurrency: [1, zero]", 12, "valid integer"),
        ("concurrency: [1, 4]", "concurrency: [1, 0]", 12, "greater than or equal to 1"),
        ("concurrency: [1, 4]", "concurrency: [4, 4]", 1, "concurrency levels named twice: 4"),
        ("concurrency: [1, 4]", "conccurency: [1, 4]", 12, "no such key"),
        ("  model: org/target", "  revision: main", 2, "model is missing"),
        ("[2, 3]", "[2, two]", 8, "valid integer"),
        ("[2, 3]", "[2, 2]", 6, "draft-token counts named twice: 2"),
        ("[2, 3]", "[]", 6, "empty list"),
        ("- name: ngram", "- name: baseline", 1, "arms named twice: baseline"),
        ("name: code", "name: ../code", 10, "pattern"),
        ("{kind: code}", "{kind: poetry}", 11, "'code', 'structured' or 'prose'"),
        ("    generator: {kind: code}", "    field: x", 10, "exactly one of hub, file"),
        ("    generator: {kind: code}", "    generator: {kind: code}\n    arms: [eagle]", 1, "eagle"),
        ("name: tiny\n", "name: tiny\nname: other\n", 2, "stands twice"),
        ("name: tiny\n", "name: [tiny\n", 2, "is not YAML"),
    ],
)  # fmt: skip
def test_a_mistake_is_said_in_one_sentence_with_its_line(
    tmp_path: Path, old: str, new: str, line: int, says: str
) -> None:
    with pytest.raises(StudyError) as caught:
        read(tmp_path, GOOD.replace(old, new))
    said = str(caught.value)
    assert f"line {line}" in said
    assert says in said
    assert "\n" not in said


@pytest.mark.parametrize("text", ["", "- a\n- b\n", "just words\n"])
def test_a_file_without_a_study_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(StudyError, match="holds no study"):
        read(tmp_path, text)


def test_a_missing_or_binary_file_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(StudyError, match="There is no study file"):
        read_study(tmp_path / "none.yaml")
    (tmp_path / "b.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(StudyError, match="cannot be read"):
        read_study(tmp_path / "b.yaml")
    with pytest.raises(StudyError, match="cannot be read"):
        read_study(tmp_path)


def test_the_number_of_draft_tokens_stands_once(tmp_path: Path) -> None:
    twice = GOOD.replace("prompt_lookup_max: 4}", "num_speculative_tokens: 4}")
    with pytest.raises(StudyError, match="stands twice"):
        read(tmp_path, twice)
    alone = GOOD.replace("    speculative_config: {method: ngram, prompt_lookup_max: 4}\n", "")
    with pytest.raises(StudyError, match="needs a speculative_config"):
        read(tmp_path, alone)


def test_every_level_needs_its_number_of_prompts(study_of: Callable[..., Study]) -> None:
    dataset = {"name": "code", "generator": {"kind": "code"}, "prompts_per_level": {1: 8}}
    with pytest.raises(StudyError, match="no prompts_per_level for concurrency 4"):
        study_of(datasets=[dataset])


def test_a_dataset_names_a_concurrency_of_its_own_once(study_of: Callable[..., Study]) -> None:
    dataset = {"name": "code", "generator": {"kind": "code"}, "concurrency": [2, 2]}
    with pytest.raises(StudyError, match=r"datasets.0: concurrency levels named twice: 2\.$"):
        study_of(datasets=[dataset])


def test_paths_that_begin_with_a_dot_lie_beside_the_study(
    study_of: Callable[..., Study], tmp_path: Path
) -> None:
    study = study_of(target={"model": "./models/target"}, executables={"vllm": "./vllm"})
    assert study.located(study.target.model) == str(tmp_path / "models" / "target")
    assert study.located("org/target") == "org/target"
    assert study.executable("vllm") is None
    program = tmp_path / "vllm"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    assert study.executable("vllm") == str(program)


@pytest.mark.parametrize("count", [0, -2, 1.5, "3", True])
def test_a_number_of_draft_tokens_is_at_least_one(study_of, count: object) -> None:
    config = {"method": "ngram", "num_speculative_tokens": count}
    with pytest.raises(StudyError, match=r"num_speculative_tokens is .*; write 1 or more"):
        study_of(arms=[{"name": "a", "speculative_config": config}])
