"""One night at a time: real processes that hold the lock, and die with it."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from nightly.nights import AnotherNight, night_lock

HOLDS = """
import sys, time
from pathlib import Path
from nightly.nights import night_lock
with night_lock(Path(sys.argv[1]), "laptop-lab"):
    print("held", flush=True)
    time.sleep(60)
"""


def holder(results: Path) -> "subprocess.Popen[str]":
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDS, str(results)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


def ended(process: "subprocess.Popen[str]", number: signal.Signals) -> None:
    process.send_signal(number)
    process.communicate()


def test_the_second_is_told_who_and_since_when(tmp_path: Path) -> None:
    process = holder(tmp_path)
    try:
        with pytest.raises(AnotherNight) as refused, night_lock(tmp_path, "other"):
            pass
    finally:
        ended(process, signal.SIGKILL)

    said = str(refused.value)
    assert f"process {process.pid} on " in said
    assert "laptop-lab since 2" in said


def test_a_dead_holder_is_no_holder_also_after_sigkill(tmp_path: Path) -> None:
    ended(holder(tmp_path), signal.SIGKILL)
    assert (tmp_path / "nights" / ".lock.holder").exists()

    with night_lock(tmp_path, "other"):
        assert str(os.getpid()) in (tmp_path / "nights" / ".lock.holder").read_text()


def test_it_is_free_again_when_the_night_ends(tmp_path: Path) -> None:
    for _ in range(2):
        with night_lock(tmp_path, "laptop-lab"):
            pass


def test_another_results_folder_is_another_lock(tmp_path: Path) -> None:
    with night_lock(tmp_path / "a", "laptop-lab"), night_lock(tmp_path / "b", "laptop-lab"):
        pass
