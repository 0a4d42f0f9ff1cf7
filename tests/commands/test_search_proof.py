"""The study in which a winner is proven: the search's own, with its winner as an arm."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from answers.search.values import Winner
from commands.running.search_study import write_proof
from runners.planning.study_file import read_study
from warehouse.errors import RunnerError

STUDY = Path(__file__).parents[2] / "studies" / "laptop-lab-search.yaml"
TABLE = "[[1, 4, 3], [5, 16, 1]]"
CONFIG = (
    '{"method": "draft_model", "num_speculative_tokens": 3, '
    f'"num_speculative_tokens_per_batch_size": {TABLE}}}'
)
WINNER = Winner(CONFIG, np.zeros(2, dtype=np.int64), "draft-k3", "K=3, then K=1")

RUNNER_UP = Winner(
    '{"method": "draft_model", "num_speculative_tokens": 2}', np.zeros(2, dtype=np.int64), "draft-k2",
    "K=2", "runner-up",
)  # fmt: skip


def proven(tmp_path: Path, winner: Winner = WINNER) -> Path:
    study = tmp_path / "mine.yaml"
    study.write_text(STUDY.read_text())
    study.chmod(0o600)
    name, path = write_proof(study, "mine", (winner, RUNNER_UP), 2)
    assert read_study(path).name == name
    return path


def test_it_is_the_study_of_the_search_with_the_winner_as_an_arm(tmp_path: Path) -> None:
    path = proven(tmp_path)
    found, original = read_study(path), read_study(tmp_path / "mine.yaml")
    assert (path.name, found.name, found.repeats) == ("mine-proof.yaml", "mine-proof", 2)
    assert [arm.name for arm in found.variants] == ["baseline", WINNER.name, RUNNER_UP.name]
    assert found.variants[2].speculative_config == {
        "method": "draft_model", "model": "./lab-models/draft", "num_speculative_tokens": 2,
    }  # fmt: skip
    assert found.variants[1].speculative_config == {
        "method": "draft_model", "model": "./lab-models/draft", "num_speculative_tokens": 3,
        "num_speculative_tokens_per_batch_size": [[1, 4, 3], [5, 16, 1]],
    }  # fmt: skip
    same = {"target", "datasets", "concurrency", "request", "window", "environment"}
    assert found.model_dump(include=same) == original.model_dump(include=same)


def test_what_others_may_not_read_of_the_study_they_may_not_read_of_its_proof(
    tmp_path: Path,
) -> None:
    assert proven(tmp_path).stat().st_mode & 0o777 == 0o600


def test_the_same_winner_leaves_the_file_as_it_is(tmp_path: Path) -> None:
    before = proven(tmp_path).stat().st_mtime_ns
    assert proven(tmp_path).stat().st_mtime_ns == before


def test_another_winner_is_proven_in_a_study_of_its_own(tmp_path: Path) -> None:
    first = proven(tmp_path)
    other = replace(
        WINNER, config='{"method": "draft_model", "num_speculative_tokens": 5}', like="draft-k5"
    )
    second = proven(tmp_path, other)
    assert (first.name, second.name) == ("mine-proof.yaml", "mine-proof-2.yaml")
    assert read_study(second).name == "mine-proof-2"
    assert proven(tmp_path) == first
    assert proven(tmp_path, other) == second


def test_a_file_that_a_killed_search_left_empty_is_written_again(tmp_path: Path) -> None:
    path = proven(tmp_path)
    whole = path.read_text()
    path.write_text("")
    assert proven(tmp_path) == path
    assert path.read_text() == whole


def test_more_repeats_that_somebody_asked_for_stay(tmp_path: Path) -> None:
    path = proven(tmp_path)
    path.write_text(path.read_text().replace("repeats: 2", "repeats: 6"))
    assert read_study(proven(tmp_path)).repeats == 6


def test_a_study_of_a_proof_whose_repeats_somebody_removed_has_them_again(tmp_path: Path) -> None:
    path = proven(tmp_path)
    path.write_text(path.read_text().replace("repeats: 2\n", ""))
    assert read_study(proven(tmp_path)).repeats == 2


def test_a_folder_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "mine-proof.yaml").mkdir()
    with pytest.raises(RunnerError, match="cannot be written beside"):
        proven(tmp_path)
