"""A full disk and one that may not be written: every command that writes says so in one sentence, and leaves
what was there."""

import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.attack.everything import commands
from tests.conftest import RECORDED, ROOT

pytestmark = pytest.mark.slow

#: The words of each command that writes on this machine: {w} the warehouse, {out} what it makes.
WRITES: dict[str, str] = {
    "ingest": "{more} --warehouse {w}",
    "verdict": "--warehouse {w}",
    "gate accept": "2026-11-21 --why planned --author Ann --warehouse {w}",
    "token new": "ann@example.com --warehouse {w}",
    "token revoke": "0a1b2c3d --warehouse {w}",
    "note": "seen --night 2026-11-21 --author Ann --warehouse {w}",
    "exclude": "{run} --reason odd --author Ann --warehouse {w}",
    "include": "{run} --reason fine --author Ann --warehouse {w}",
    "report": "--out {out}.html --warehouse {w}",
    "share": "--out {out} --warehouse {w}",
    "collect": "{more} --results {out}",
    "warehouse clone": "{w} {out}",
    "warehouse compact": "--warehouse {w}",
    "warehouse convert": "--warehouse {w}",
    "warehouse export": "--out {out} --warehouse {w}",
    "warehouse gc": "--warehouse {w} --grace 0",
    "warehouse keep": "--requests-for 1d --warehouse {w}",
    "warehouse restore": "1 --warehouse {w}",
}
#: What reads only; or what needs a study and a server, a bucket, a cluster or a key, whose own tests say it.
OTHERS = {
    "runs", "plan", "doctor", "compare", "gate", "diff", "cost", "slo", "pareto", "tune", "whatif",
    "claims", "audit", "token list", "note list", "warehouse info", "warehouse check", "verify",
    "serve", "dashboard", "mcp", "cluster status", "cluster logs", "cluster cancel",
    "live", "release", "run", "reproduce", "search", "nightly", "nightly history", "publish", "warehouse publish", "warehouse pull",
    "warehouse push",
}  # fmt: skip


def test_every_command_that_writes_has_a_row() -> None:
    assert commands().keys() - OTHERS <= WRITES.keys()


@pytest.fixture(scope="module")
def disk(tmp_path_factory: pytest.TempPathFactory, first_lab: Path) -> Iterator[Path]:
    """A place with a warehouse; a small disk of its own where that can be made, which takes root."""
    place = tmp_path_factory.mktemp("disk")
    mount = ["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", str(place)]
    own = os.geteuid() == 0 and subprocess.run(mount, capture_output=True).returncode == 0
    shutil.copytree(first_lab, place / "warehouse")
    yield place
    if own:
        subprocess.run(["umount", "-l", str(place)], check=True)


def _bytes(place: Path) -> dict[str, bytes]:
    """What stands there, but for locks, which say nothing."""
    return {
        str(path.relative_to(place)): path.read_bytes()
        for path in sorted(place.rglob("*"))
        if path.is_file() and not path.name.endswith((".lock", "lock.next", "lock", "lock.holder"))
    }


def _asked(command: str, disk: Path, limit: Callable[[], None]) -> subprocess.CompletedProcess[str]:
    names = {
        "w": disk / "warehouse", "out": disk / "out", "run": RECORDED / "draft-model-k3" / "code",
        "more": RECORDED / "draft-model-k3",
    }  # fmt: skip
    words = [one.format(**names) for one in WRITES[command].split()]
    return subprocess.run(
        [sys.executable, "-m", "draftboard", *command.split(), *words], cwd=ROOT, text=True,
        capture_output=True, check=False, timeout=300, preexec_fn=limit,
    )  # fmt: skip


def _judge(
    command: str, done: subprocess.CompletedProcess[str], disk: Path, before: object
) -> None:
    said = [line for line in done.stderr.splitlines() if "nanobind" not in line]
    assert "Traceback" not in done.stderr, done.stderr
    assert "Usage:" not in done.stderr, f"The row of {command} is wrong: {done.stderr}"
    if done.returncode != 0:
        assert len([line for line in said if line.startswith("draftboard:")]) <= 1, said
        assert _bytes(disk) == before, "something was left, or is gone"
    if command == "warehouse gc":
        assert done.returncode == 0, done.stderr


def _full() -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))


@pytest.mark.parametrize("command", WRITES)
def test_on_a_full_disk_it_says_so_and_leaves_what_was_there(command: str, disk: Path) -> None:
    before = _bytes(disk)
    _judge(command, _asked(command, disk, _full), disk, before)
    shutil.rmtree(disk / "out", ignore_errors=True)


@pytest.mark.parametrize("command", WRITES)
def test_where_nothing_may_be_written_it_says_so(command: str, disk: Path) -> None:
    remount = ["mount", "-o", "remount,{}", str(disk)]
    if subprocess.run([one.format("ro") for one in remount], capture_output=True).returncode != 0:
        pytest.skip("a disk that may not be written needs root")
    try:
        before = _bytes(disk)
        done = _asked(command, disk, lambda: None)
        if command != "warehouse gc":  # There it has nothing that it could remove.
            _judge(command, done, disk, before)
        assert "Traceback" not in done.stderr, done.stderr
    finally:
        subprocess.run([one.format("rw") for one in remount], check=True)
