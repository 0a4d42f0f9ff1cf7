"""``draftboard runs``: readable in 80 columns, and JSON all the way down."""

import json
from pathlib import Path
from typing import Any

import pytest
from click import unstyle
from click.testing import CliRunner

from commands.terminal import end_of_path, ends_of_paths
from draftboard import cli
from tests.conftest import RECORDED

TERMINAL = {"FORCE_COLOR": "1", "NO_COLOR": "1", "TERM": "xterm", "COLUMNS": "80"}


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A warehouse of the recorded runs."""
    root = tmp_path_factory.mktemp("runs") / "warehouse"
    done = CliRunner().invoke(cli, ["ingest", str(RECORDED), "--warehouse", str(root)])
    assert done.exit_code == 0, done.output
    return root


def _runs(root: Path, *words: str, **env: str) -> str:
    done = CliRunner().invoke(cli, ["runs", *words, "--warehouse", str(root)], env=env)
    assert done.exit_code == 0, done.output
    return unstyle(done.stdout)


def test_in_80_columns_the_end_of_each_path_is_shown_and_what_is_alike_is_said_once(
    recorded: Path,
) -> None:
    said = _runs(recorded, **TERMINAL).splitlines()
    assert max(len(line) for line in said if not line.startswith("All: ")) <= 80
    (alike,) = (line for line in said if line.startswith("All: "))
    assert "evidence cpu" in alike
    for end in ("/baseline/code", "/draft-model-k3/structured"):
        assert sum(end in line for line in said) == 1


def test_into_a_pipe_goes_the_whole_path(recorded: Path) -> None:
    said = _runs(recorded)
    assert "All: " not in said
    assert str(RECORDED / "baseline" / "code") in said


def test_json_is_nested_and_no_text_of_json(recorded: Path) -> None:
    runs: list[dict[str, Any]] = json.loads(_runs(recorded, "--json"))
    for run in runs:
        for name in ("commands", "environment", "settings", "report_config"):
            assert isinstance(run[name], dict)
    assert runs[0]["report_config"]["config"]


@pytest.mark.parametrize(
    ("path", "letters", "shown"),
    [
        ("results/a/b.json", 40, "results/a/b.json"),
        ("/data/results/h200/eagle3/c16-r0", 20, "…/h200/eagle3/c16-r0"),
        ("/data/results/h200/eagle3/c16-r0", 32, "/data/results/h200/eagle3/c16-r0"),
        ("a-very-long-name-of-a-file-c16.json", 12, "…le-c16.json"),
        ("/data/folder-with-a-long-name/", 10, "…ong-name/"),
    ],
)
def test_a_path_is_cut_at_its_beginning(path: str, letters: int, shown: str) -> None:
    assert end_of_path(path, letters) == shown
    assert len(end_of_path(path, letters)) <= letters


@pytest.mark.parametrize(
    ("paths", "letters", "shown"),
    [
        # Tools that give every result one name.
        (["in/base/c1/profile_export.json", "in/base/c2/profile_export.json"], 20,
         ["…/c1/…", "…/c2/…"]),
        # The name tells as well, so its end stays.
        (["in/base/vllm-model-10.json", "in/base/vllm-model-11.json",
          "in/k3/vllm-model-10.json", "in/k3/vllm-model-11.json"], 16,
         ["…/base/…-10.json", "…/base/…-11.json", "…/k3/…el-10.json", "…/k3/…el-11.json"]),
        (["/results/a-long-name/x.json", "/results/b.json"], 12, ["…/x.json", "…/b.json"]),
        # One file with several cells is one path.
        (["/results/of-a-model/x.json"] * 2, 12, ["…/x.json"] * 2),
    ],
)  # fmt: skip
def test_where_ends_are_alike_the_parts_that_differ_are_shown(
    paths: list[str], letters: int, shown: list[str]
) -> None:
    assert ends_of_paths(paths, letters) == shown
