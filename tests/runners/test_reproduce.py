"""What is read of a drop so that its cell can be measured again, and what is refused."""

import json
import shutil
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import yaml
from click.testing import CliRunner

from commands.running.reproduce import plan_again, prompts_again, read_original, reproduce
from runners.measuring.record import write_keepsakes
from runners.planning.plan import make_plan
from runners.planning.study_file import read_study
from runners.surroundings.layout import Layout
from runners.texts.prompts import PromptFiles, origin
from tests.runners.conftest import MINIMAL
from warehouse.errors import RunnerError

LEAF = "c4-r0@vllm0.32.0-guidellm0.8.1"
DATASETS = [{"name": "numbers", "file": "rows.jsonl", "prompts_per_level": 3}]


@pytest.fixture
def measured(tmp_path: Path) -> Path:
    """The drop of a cell as a run leaves it, as far as measuring it again reads it."""
    folder = tmp_path / "studies"
    folder.mkdir()
    lines = [json.dumps({"prompt": f"Tell me of the number {number}."}) for number in range(9)]
    (folder / "rows.jsonl").write_text("\n".join(lines) + "\n")
    given = MINIMAL | {"datasets": DATASETS, "environment": {"HF_TOKEN": "[removed]", "A": "1"}}
    (folder / "tiny.yaml").write_text(yaml.safe_dump(given, sort_keys=False))
    return drop_of(folder / "tiny.yaml", tmp_path / "results")


def drop_of(path: Path, results: Path, texts: bool = False) -> Path:
    study = read_study(path)
    layout = Layout(results, study.name)
    cell = next(c for c in make_plan(study).cells if c.key == "ngram-k2/tp1/numbers/c4-r0")
    prompts = PromptFiles(study, layout).of(cell)
    folder = layout.root / "ngram-k2/tp1/numbers" / LEAF
    folder.mkdir(parents=True)
    write_keepsakes(folder, study, path.read_text(), prompts, texts, {"a": 1}, ["up"])
    record = {
        "schema_version": 1,
        "run_id": f"tiny/{cell.key}#1",
        "prompt_set_hash": prompts.hash,
        "environment": {
            "asked": dict(cell.identity),
            "folder": str(path.parent),
            "dataset": origin(study, study.dataset("numbers")),
        },
    }
    (folder / "record.json").write_text(json.dumps(record))
    return folder


def edit(drop: Path, **changes: object) -> None:
    path = drop / "record.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def test_a_drop_says_its_cell_and_each_repeat_is_a_launch_of_its_own(measured: Path) -> None:
    original = read_original(measured)
    plan, cells = plan_again(original, 3, measured.parent)

    assert original.cell == "ngram-k2/tp1/numbers/c4"
    assert [cell.key for cell in cells] == [f"ngram-k2/tp1/numbers/c4-r{n}" for n in range(3)]
    assert plan.study.repeats == 3
    assert plan.study.located("./rows.jsonl") == str(measured.parents[5] / "studies/rows.jsonl")


def test_a_drop_that_was_copied_to_the_top_of_the_disk_is_planned_as_any_other(
    measured: Path, tmp_path: Path
) -> None:
    with TemporaryDirectory(dir="/tmp") as top:
        shutil.copytree(measured, top, dirs_exist_ok=True)
        _, cells = plan_again(read_original(Path(top)), 1, tmp_path)

    assert [cell.key for cell in cells] == ["ngram-k2/tp1/numbers/c4-r0"]


def test_a_value_that_the_copy_hides_is_left_to_the_environment(measured: Path) -> None:
    assert read_original(measured).study.environment == {"A": "1"}


def test_other_repeats_with_the_same_software_are_its_siblings(measured: Path) -> None:
    for name in ("c4-r1@vllm0.32.0-guidellm0.8.1", "c4-r1@vllm0.31.0", "c44-r0", "c4-r2.failed-1"):
        (measured.parent / name).mkdir()
        (measured.parent / name / "record.json").write_text("{}")

    found = read_original(measured).siblings

    assert [folder.name for folder in found] == ["c4-r1@vllm0.32.0-guidellm0.8.1"]


def test_the_same_prompts_are_asked_again(measured: Path, tmp_path: Path) -> None:
    original = read_original(measured)
    _, cells = plan_again(original, 2, tmp_path)
    layout = Layout(tmp_path / "reproduced", "tiny")

    found = prompts_again(original, cells[0], layout)

    assert found.hash_of(cells[1]) == original.record["prompt_set_hash"]
    then = Layout(tmp_path / "results", "tiny").prompts("numbers", "c4")
    assert found.of(cells[0]).path.read_text() == then.read_text()


def test_a_dataset_that_changed_is_refused_with_what_it_was(measured: Path, tmp_path: Path) -> None:
    rows = measured.parents[5] / "studies/rows.jsonl"
    rows.write_text(rows.read_text().replace("Tell me", "Speak"))
    original = read_original(measured)

    with pytest.raises(RunnerError, match=r"numbers gave other prompts .* sha256 [0-9a-f]{64}"):
        prompts_again(
            original, plan_again(original, 1, tmp_path)[1][0], Layout(tmp_path / "new", "tiny")
        )


def test_kept_texts_need_no_dataset(measured: Path, tmp_path: Path) -> None:
    studies = measured.parents[5] / "studies"
    kept = drop_of(studies / "tiny.yaml", tmp_path / "kept", texts=True)
    (studies / "rows.jsonl").unlink()
    original = read_original(kept)
    cell = plan_again(original, 1, tmp_path)[1][0]

    found = prompts_again(original, cell, Layout(tmp_path / "new", "tiny")).of(cell)

    then = Layout(tmp_path / "kept", "tiny").prompts("numbers", "c4")
    assert (found.hash, found.path.read_text()) == (
        original.record["prompt_set_hash"],
        then.read_text(),
    )
    assert len(found.warm_up) == 3


def test_kept_sessions_are_asked_again_turn_by_turn(tmp_path: Path) -> None:
    talks = [{"talk": [f"What is {number}?", "Sure?"]} for number in range(9)]
    (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, talks)) + "\n")
    sessions = {"field": "talk", "sessions": {"turns": 2, "think_time_s": 0.5}}
    path = tmp_path / "tiny.yaml"
    path.write_text(yaml.safe_dump(MINIMAL | {"datasets": [DATASETS[0] | sessions]}))
    kept = drop_of(path, tmp_path / "kept", texts=True)
    (tmp_path / "rows.jsonl").unlink()
    original = read_original(kept)
    cell = plan_again(original, 1, tmp_path)[1][0]

    found = prompts_again(original, cell, Layout(tmp_path / "new", "tiny")).of(cell)

    files = (Layout(tmp_path / "kept", "tiny").prompts("numbers", "c4"), found.path)
    then, now = ([json.loads(line) for line in file.read_text().splitlines()] for file in files)
    assert (found.hash, now) == (original.record["prompt_set_hash"], then)
    assert {*now[0]} == {"prompt", "turn_0", "turn_1", "requeue_delay_0"}


def test_hashes_alone_are_kept_unless_texts_are_asked_for(measured: Path) -> None:
    said = (measured / "prompts.json").read_text()
    assert "Tell me" not in said
    assert len(json.loads(said)["prompts"]) == 3


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"status": "failed"}, "failed, so there is nothing to compare with"),
        ({"run_id": "somebody's"}, "only drops that `draftboard run` wrote"),
        ({"environment": {"server": "run by somebody else"}}, "somebody else ran"),
        ({"environment": {"folder": "/nowhere/at/all"}}, "not on this machine; put study.yaml"),
    ],
)
def test_what_cannot_be_measured_again_is_said_in_a_sentence(measured, change, said) -> None:
    edit(measured, **change)
    with pytest.raises(RunnerError, match=said):
        read_original(measured)


def test_a_drop_without_a_study_asks_for_the_file(measured: Path) -> None:
    (measured / "study.yaml").unlink()
    with pytest.raises(RunnerError, match="keeps no study .* with --study"):
        read_original(measured)
    path = measured.parents[5] / "studies/tiny.yaml"
    assert read_original(measured, path).study.name == "tiny"


def test_a_study_that_asks_otherwise_is_refused(measured: Path) -> None:
    path = measured.parents[5] / "studies/tiny.yaml"
    path.write_text(path.read_text().replace("prompt_lookup_max: 4", "prompt_lookup_max: 5"))
    with pytest.raises(RunnerError, match="differ in: speculative_config"):
        plan_again(read_original(measured, path), 1, measured.parent)


def test_a_repetition_into_the_folder_of_the_original_is_refused(measured: Path) -> None:
    results = measured.parents[4]
    done = CliRunner().invoke(reproduce, [str(measured), "--results", str(results)])
    assert done.exit_code == 2
    assert "take another folder with --results" in done.output


def test_the_rates_that_a_sweep_found_for_the_original_are_taken(measured: Path) -> None:
    frozen = measured.parents[3] / "rates" / "numbers-tp1.json"
    frozen.parent.mkdir()
    frozen.write_text("{}")
    original = read_original(measured)

    plan_again(original, 1, measured.parents[5] / "reproduced")

    assert (measured.parents[5] / "reproduced/tiny/rates/numbers-tp1.json").exists()
