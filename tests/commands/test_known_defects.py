"""A known defect of an engine: flagged by ingest, and said first by the decision where it shows."""

from pathlib import Path
from typing import Any

from tests.commands.asking import run
from tests.commands.test_broken_answers import taken, verdict

GLM = ("engine=vllm", "engine_version=0.28.1", "model=zai-org/GLM-5.3-FP8")
BEFORE = ("engine=vllm", "engine_version=0.28.0", "model=zai-org/GLM-5.3-FP8")
QWEN = ("engine=vllm", "engine_version=0.28.0", "model=Qwen/Qwen3.6-27B", "prefix_caching=true")
#: Drafts of "idle" are accepted by 2 %, of "mtp" by 70 %.
IDLE: dict[str, Any] = {"base": (0, 0, 0.01), "idle": (0, 0, 0.009)}
WELL: dict[str, Any] = {"base": (0, 0, 0.01), "mtp": (0, 0, 0.007)}
BROKEN: dict[str, Any] = {"base": (0, 0, 0.01), "mtp": (8, 1, 0.007)}


def test_a_defect_that_acceptance_shows_is_the_first_sentence(tmp_path: Path) -> None:
    root = taken(tmp_path, IDLE, *GLM)
    one = verdict(root)
    shown = (
        "mtp K=2: vllm 0.28.1 has a known defect that shows here (2.0% of the drafted tokens were "
        "accepted): GLM-5.3's own MTP drafts noise"
    )

    assert one["paragraph"].startswith(f"zai-org/GLM-5.3-FP8 on code: {shown}")
    assert one["doubts"][0].startswith(shown)
    assert one["doubts"][0].endswith("See https://github.com/vllm-project/vllm/issues/55605.")
    assert "warning: known_defect_shown" in run("compare", *root).stdout


def test_a_defect_that_does_not_show_is_a_flag_and_the_arm_decides(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    root = taken(tmp_path / "a", WELL, *GLM)
    one, before = verdict(root), verdict(taken(tmp_path / "b", WELL, *BEFORE))

    assert one["headline"] == before["headline"]
    assert one["paragraph"] == before["paragraph"]
    assert "known defect" not in f"{one['paragraph']} {one['doubts']}"
    compared = run("compare", *root).stdout
    assert "known_defect" in compared
    assert "no fix is recorded" in compared


def test_one_answer_in_eight_of_one_token_shows_the_defect_that_does_that(tmp_path: Path) -> None:
    one = verdict(taken(tmp_path, BROKEN, *QWEN))

    assert one["answer"] == "no"
    assert one["paragraph"].startswith(
        "Qwen/Qwen3.6-27B on code: mtp K=2: vllm 0.28.0 has a known defect (from 0.23.0 on, and no fix "
        "is recorded): with prefix caching"
    )
    assert "mtp K=2 breaks answers" in one["headline"]


def test_answers_that_the_baseline_breaks_as_well_show_nothing(tmp_path: Path) -> None:
    one = verdict(taken(tmp_path, {**BROKEN, "base": (8, 1, 0.01)}, *QWEN))

    assert "known defect" not in one["paragraph"]


def test_without_the_engine_or_in_a_version_before_nothing_is_said(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    for place, more in (("a", GLM[2:]), ("b", BEFORE)):
        root = taken(tmp_path / place, IDLE, *more)
        assert "known_defect" not in run("compare", *root).stdout
        assert "known defect" not in verdict(root)["paragraph"]
