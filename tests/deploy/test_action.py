"""The step of ``deploy/github/action.yml``, run as a runner runs it, against a fake of GitHub's API."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.conftest import RECORDED
from tests.deploy.fake_github import TOKEN, FakeGitHub, fake_github
from tests.deploy.files import DEPLOY, text

HERE = DEPLOY / "github"
ACTION: dict[str, Any] = yaml.safe_load(text("deploy/github/action.yml"))
Done = subprocess.CompletedProcess[str]

pytestmark = pytest.mark.slow


@pytest.fixture
def github() -> Iterator[FakeGitHub]:
    with fake_github() as fake:
        yield fake


@dataclass
class Runner:
    """Stands in for GitHub's runner: a folder of its own, and how it calls the step."""

    folder: Path
    api: str
    usual: dict[str, str]
    path: str = str(Path(sys.executable).parent)

    def gate(self, event: str = "event.json", **inputs: str) -> Done:
        """The step ``gate`` with these inputs."""
        (gate,) = (one for one in ACTION["runs"]["steps"] if one.get("id") == "gate")
        asked = {name: _filled(value, self.usual | inputs) for name, value in gate["env"].items()}
        here = {
            "PATH": f"{self.path}:{os.environ['PATH']}", "HOME": str(self.folder),
            "RUNNER_TEMP": str(self.folder), "GITHUB_ACTION_PATH": str(HERE),
            "GITHUB_STEP_SUMMARY": str(self.folder / "summary.md"), "GITHUB_JOB": "gate",
            "GITHUB_OUTPUT": str(self.folder / "output"), "GITHUB_WORKFLOW": "draftboard",
            "GITHUB_REPOSITORY": "team/serving", "GITHUB_API_URL": self.api,
            "GITHUB_EVENT_PATH": str(self.folder / event),
        }  # fmt: skip
        return subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", gate["run"]],
            cwd=self.folder, capture_output=True, text=True, check=False, env=here | asked,
        )  # fmt: skip


@pytest.fixture
def runner(place: Path, tmp_path_factory: pytest.TempPathFactory, github: FakeGitHub) -> Runner:
    """A runner at a pull request with one recorded drop; six nights were measured before."""
    folder = tmp_path_factory.mktemp("runner")
    drop = next(RECORDED.rglob("record.json")).parent
    shutil.copytree(drop, folder / "results" / drop.name)
    (folder / "event.json").write_text(json.dumps({"pull_request": {"number": 7}}))
    usual = {name: str(one.get("default", "")) for name, one in ACTION["inputs"].items()}
    usual |= {"results": "results", "warehouse": str(place), "token": TOKEN}
    return Runner(folder, github.address, usual)


def _filled(value: str, inputs: dict[str, str]) -> str:
    """What a runner makes of ``${{ inputs.NAME }}``."""
    return re.sub(r"\$\{\{ inputs\.([\w-]+) \}\}", lambda match: inputs[match[1]], value)


def test_a_regression_is_commented_once_and_the_comment_changed_after_that(
    runner: Runner, place: Path, github: FakeGitHub
) -> None:
    for body in ("Looks good", "<!-- draftboard gate: draftboard / gate -->\nforged", "Nice"):
        github.add(body, "a-stranger")
    before = (place / "CURRENT").read_bytes()

    first = runner.gate()
    again = runner.gate(**{"max-regression": "50% output_throughput=60%"})

    assert (first.returncode, again.returncode) == (1, 0), first.stderr + again.stderr
    *theirs, own = github.comments
    assert [one["body"].splitlines()[-1] for one in theirs] == ["Looks good", "forged", "Nice"]
    mark = "<!-- draftboard gate: draftboard / gate -->\n"
    assert own["body"].startswith(f"{mark}### ❔ Draftboard: not enough evidence")
    assert "Commented: https://github.example/4" in first.stderr
    assert (runner.folder / "output").read_text() == "status=1\nstatus=0\n"
    assert "regression: " in (runner.folder / "summary.md").read_text()
    assert (runner.folder / "draftboard.sarif").is_file()
    assert (runner.folder / "draftboard-junit.xml").is_file()
    assert TOKEN not in first.stdout + first.stderr
    # A pull request leaves the warehouse of the nights as it was.
    assert (place / "CURRENT").read_bytes() == before


def test_the_study_is_measured_first_and_without_the_token(
    runner: Runner, tmp_path_factory: pytest.TempPathFactory
) -> None:
    place = tmp_path_factory.mktemp("bin")
    recorder = place / "draftboard"
    recorder.write_text(f'#!/bin/sh\necho "${{GITHUB_TOKEN-none}} $@" >> {place}/said\n')
    recorder.chmod(0o755)
    runner.path = str(place)

    done = runner.gate(study="studies/mine.yaml")

    assert done.returncode == 0, done.stderr
    said = (place / "said").read_text().splitlines()
    assert said[:2] == [
        "none run studies/mine.yaml --results results", "none ingest results"
    ]  # fmt: skip
    assert said[2].startswith(f"{TOKEN} gate --max-regression=5% --open-exit=0")
    assert said[2].endswith("--sarif-at=studies/mine.yaml --comment")


def test_no_input_stands_inside_a_script() -> None:
    for one in ACTION["runs"]["steps"]:
        assert "${{" not in one["run"]
