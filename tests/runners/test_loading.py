"""Loads of a launch, one after the other, by scripts that stand for GuideLLM: forks of one process, or their own."""

import contextlib
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from runners.measuring.loading import Loader
from runners.probes.interpreter import named_in
from runners.serving.diagnosis import Diagnosis

SCRIPT = """#!{python}
import os, subprocess, sys, time
print("run", os.getppid(), "pandas" in sys.modules, os.environ.get("ADDED"), *sys.argv[1:], flush=True)
if sys.argv[1] == "leaves":
    subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)", "left behind"])
if sys.argv[1] == "hangs":
    time.sleep(600)
sys.exit(0 if sys.argv[1] == "0" else sys.argv[1])
"""
Loading = Callable[[str], Loader]


def nothing() -> Diagnosis | None:
    return None


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "guidellm"
    path.write_text(SCRIPT.format(python=sys.executable))
    path.chmod(0o755)
    return path


@pytest.fixture
def loader(script: Path, tmp_path: Path) -> Loader:
    return Loader(named_in(script), dict(os.environ), tmp_path / "log")


def said(loader: Loader) -> list[list[str]]:
    return [
        line.split()[1:] for line in loader.log.read_text().splitlines() if line.startswith("run")
    ]


def test_runs_are_forks_of_one_process_that_has_imported_what_takes_long(
    script: Path, loader: Loader
) -> None:
    with loader:
        assert loader.run([str(script), "0"], {"ADDED": "to this one"}, 60, nothing) is None
        failed = loader.run([str(script), "no such port"], {}, 60, nothing)
        assert loader.run([str(script), "0"], {}, 60, nothing) is None
    assert failed is not None
    assert (failed.cause, failed.sentence.endswith("no such port")) == ("load_failed", True)
    parents, imported, added = zip(*(line[:3] for line in said(loader)), strict=True)
    assert len(set(parents)) == 1
    assert set(imported) == {"True"}
    assert added == ("to", "None", "None")


def test_what_a_run_leaves_behind_is_gone_before_the_next(script: Path, loader: Loader) -> None:
    with loader:
        loader.run([str(script), "leaves"], {}, 60, nothing)
        assert not [
            p
            for p in psutil.process_iter(["cmdline"])
            if "left behind" in (p.info["cmdline"] or ())
        ]


def test_a_run_that_is_ended_takes_its_process_along_and_the_next_one_begins_another(
    script: Path, loader: Loader
) -> None:
    hung = Diagnosis("hangs", "The engine hangs.")
    with loader:
        looks = iter([None, hung])

        def watch() -> Diagnosis | None:
            return next(looks) if said(loader) else None

        assert loader.run([str(script), "hangs"], {}, 60, watch) == hung
        ((parent, *_),) = said(loader)
        assert not psutil.pid_exists(int(parent))
        assert loader.run([str(script), "0"], {}, 60, nothing) is None
    assert len({parent for parent, *_ in said(loader)}) == 2


def test_a_process_that_is_killed_is_a_failed_load_and_the_next_one_is_good(
    script: Path, loader: Loader
) -> None:
    def kill() -> None:
        for parent, *_ in said(loader):
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(parent), signal.SIGKILL)

    with loader:
        failed = loader.run([str(script), "hangs"], {}, 60, kill)
        assert failed is not None
        assert failed.cause == "load_failed"
        assert loader.run([str(script), "0"], {}, 60, nothing) is None


def test_what_is_no_script_of_a_python_runs_by_itself(tmp_path: Path) -> None:
    wrapper = tmp_path / "guidellm"
    wrapper.write_text('#!/bin/sh\necho "run $ADDED"\nexit $1\n')
    wrapper.chmod(0o755)
    with Loader(named_in(wrapper), dict(os.environ), tmp_path / "log") as loader:
        assert loader.run([str(wrapper), "0"], {"ADDED": "here"}, 60, nothing) is None
        failed = loader.run([str(wrapper), "3"], {}, 60, nothing)
    assert said(loader)[0] == ["here"]
    assert failed is not None
    assert "exit status 3" in failed.sentence
