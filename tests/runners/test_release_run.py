"""``draftboard release`` end to end: two FAKE engines of two versions, the real GuideLLM 0.8.1, real processes."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from commands.running.release import upgraded
from runners.executors import PROGRAM
from tests.runners.conftest import ROOT
from tests.runners.engine import FAKE
from tests.runners.small_study import PATIENCE_S, SmallStudy, small_study
from warehouse.errors import RunnerError


def release(study: SmallStudy, *more: str) -> "subprocess.CompletedProcess[str]":
    argv = [*PROGRAM, "release", str(study.path), "--results", str(study.results), *more]
    return subprocess.run(
        argv, capture_output=True, text=True, cwd=ROOT, check=False, timeout=PATIENCE_S
    )


def newer(folder: Path, version: str, *switches: str) -> Path:
    """An environment with a FAKE engine that says this version."""
    script = folder / "bin" / "vllm"
    script.parent.mkdir(parents=True)
    script.write_text(
        f'#!/bin/sh\nFAKE_VLLM_VERSION={version} exec "{sys.executable}" "{FAKE}" "$@" {" ".join(switches)}\n'
    )
    script.chmod(0o755)
    return folder


@pytest.mark.slow
@pytest.mark.alone
def test_both_releases_are_measured_by_turns_and_a_slower_one_is_red(tmp_path: Path) -> None:
    study = small_study(tmp_path)
    newer(tmp_path.parent / f"{tmp_path.name}-newer", "0.99.0", "--fake-delay", "0.02")
    against = f"vllm={tmp_path.parent / (tmp_path.name + '-newer')}"

    done = release(study, "--against", against, "--repeats", "2", "--json")

    assert done.returncode == 1, done.stderr
    told = json.loads(done.stdout)
    assert (told["status"], told["after"], told["launches"]) == ("regression", "0.99.0", 2)
    assert {line["arm"].split()[0] for line in told["lines"]} == {"baseline", "draft_model"}
    assert study.starts() == 8
    assert "[8/8]" in done.stderr

    again = release(study, "--against", against, "--repeats", "2")

    assert "0 cells to run" in again.stderr
    assert again.stdout.startswith("vLLM 0.99.0 against ")
    assert study.starts() == 8


@pytest.mark.parametrize(
    ("against", "said"),
    [
        ("vllm=nowhere", "No environment holds vllm nowhere"),
        ("sglang=0.5", "names no environment of this study's engine; write --against vllm=FOLDER"),
        ("vllm", "names no environment of this study's engine"),
        ("vllm={same}", "Both environments hold vllm "),
        ("vllm={empty}", "No environment holds vllm "),
    ],
)
def test_what_is_no_newer_release_is_said_before_anything_runs(
    tmp_path: Path, against: str, said: str
) -> None:
    study = small_study(tmp_path)
    (tmp_path / "empty").mkdir()
    places = {"same": study.path.parent, "empty": tmp_path / "empty"}

    done = release(study, "--against", against.format(**places))

    assert done.returncode == 2
    assert said in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert not study.results.exists()
    assert study.starts() == 0


def test_an_engine_that_lies_at_the_top_of_the_disk_has_no_other_beside_it(study_of) -> None:
    study = study_of(executables={"vllm": "/bin/ls"})

    with pytest.raises(RunnerError, match=r"No environment holds vllm 0\.99"):
        upgraded(study, "vllm=0.99")
