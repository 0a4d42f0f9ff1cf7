"""systemd units, the cron line, scrontab and the workflow, each checked by what reads it, where that is here."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.deploy.files import DEPLOY, UNITS, crontab_lines, text, workflow
from tests.runners.slurm_cluster import Cluster, missing_tools, running_cluster

TIMERS = sorted((DEPLOY / "systemd").glob("*.timer"))
HERE = str(Path(sys.executable).parent)

systemd = pytest.mark.skipif(
    shutil.which("systemd-analyze") is None, reason="no systemd-analyze here: apt install systemd"
)


def analyze(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["systemd-analyze", *arguments], capture_output=True, text=True, check=False
    )


@pytest.fixture
def units(tmp_path: Path) -> list[Path]:
    """The units, with the executable of this environment: systemd looks whether it is there."""
    placed = []
    for unit in (*UNITS, *TIMERS):
        path = tmp_path / unit.name
        path.write_text(text(unit).replace("/opt/draftboard/bin", HERE))
        placed.append(path)
    return placed


@systemd
def test_systemd_finds_nothing_wrong_with_the_units(units: list[Path]) -> None:
    done = analyze("verify", "--man=no", *map(str, units))
    assert (done.returncode, done.stderr) == (0, "")


@systemd
def test_systemd_would_find_something_wrong(tmp_path: Path) -> None:
    unit = tmp_path / "draftboard-watch.service"
    unit.write_text(text(DEPLOY / "systemd" / unit.name).replace("Restart=", "Restrat="))
    assert "Restrat" in analyze("verify", "--man=no", str(unit)).stderr


@systemd
@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_each_service_is_fenced_in(unit: Path) -> None:
    # Exposure from 0 to 10 as systemd counts it; a service without any fence has 9.6.
    done = analyze("security", "--offline=true", "--threshold=60", str(unit))
    assert done.returncode == 0, done.stdout


@systemd
def test_the_timer_names_a_time_that_comes() -> None:
    (timer,) = TIMERS
    (when,) = re.findall(r"^OnCalendar=(.*)$", text(timer), re.MULTILINE)
    assert "Next elapse" in analyze("calendar", when).stdout


def test_the_timer_starts_the_service_of_its_name() -> None:
    assert [
        timer.with_suffix(".service") for timer in TIMERS if timer.with_suffix(".service") in UNITS
    ]
    assert "[Install]" not in text(DEPLOY / "systemd/draftboard-nightly.service")


def shell_of(line: str, fields: int) -> str:
    return line.split(maxsplit=fields)[fields]


@pytest.fixture
def recorder(tmp_path: Path) -> Path:
    """Stands in for the product's executable, which would measure for hours: it writes its arguments."""
    path = tmp_path / "bin" / "draftboard"
    path.parent.mkdir()
    path.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" > {tmp_path}/arguments\nexit 3\n')
    path.chmod(0o755)
    return path


def test_the_cron_line_runs_nightly_with_the_environment_file_and_keeps_its_exit_status(
    tmp_path: Path, recorder: Path
) -> None:
    (line,) = crontab_lines("deploy/cron/draftboard")
    assert line.split()[:6] == ["0", "22", "*", "*", "*", "draftboard"]
    # A percent sign ends a command in a crontab.
    assert "%" not in line
    shell = shell_of(line, 6)
    for before, after in (
        ("/etc/draftboard", DEPLOY / "systemd"),
        ("/opt/draftboard/bin/draftboard", recorder),
        ("/var/lib/draftboard", tmp_path),
    ):
        assert before in shell
        shell = shell.replace(before, str(after))

    subprocess.run(["/bin/sh", "-c", shell], check=True)

    assert (tmp_path / "arguments").read_text().split() == [
        "nightly", "/etc/draftboard/study.yaml",
        "--results", "/var/lib/draftboard/results", "--max-hours", "8",
    ]  # fmt: skip
    assert (tmp_path / "nightly.log").read_text() == "exit status 3\n"


def test_the_line_of_scrontab_runs_nightly_with_the_environment_file(
    tmp_path: Path, recorder: Path
) -> None:
    (line,) = crontab_lines("deploy/slurm/nightly.scrontab")
    home = tmp_path / "home" / "draftboard"
    (home / ".venv" / "bin").mkdir(parents=True)
    shutil.copy(DEPLOY / "systemd" / "draftboard.env", home)
    (home / ".venv" / "bin" / "draftboard").symlink_to(recorder)

    done = subprocess.run(
        ["/bin/sh", "-c", shell_of(line, 5)],
        env={**os.environ, "HOME": str(home.parent)}, check=False,
    )  # fmt: skip

    assert done.returncode == 3
    words = (tmp_path / "arguments").read_text().split()
    assert words[:2] == ["nightly", "/etc/draftboard/study.yaml"]
    assert words[words.index("--") :] == [
        "--", "--on", "slurm", "--partition", "gpu", "--gres", "gpu:h200",
    ]  # fmt: skip


@pytest.fixture
def slurm() -> Iterator[Cluster]:
    with running_cluster() as cluster:
        yield cluster


@pytest.mark.slow
@pytest.mark.skipif(bool(missing_tools()), reason=f"no Slurm here: {missing_tools()} not found")
def test_a_real_slurm_takes_the_options_of_the_scrontab(slurm: Cluster) -> None:
    # Debian 12 packages no scrontab; the options are those of sbatch, and are put to it.
    options = re.findall(r"^#SCRON (.*)$", text("deploy/slurm/nightly.scrontab"), re.MULTILINE)
    assert len(options) == 7
    # `scrontab` itself refuses it, or switches the entry off when it comes.
    assert not [one for one in options if "signal" in one]
    here = [one.replace("--partition=cpu", "--partition=gpu") for one in options]
    slurm.call("sbatch", "--test-only", *here, "--wrap", "true")
    with pytest.raises(AssertionError, match="unrecognized option"):
        slurm.call("sbatch", "--test-only", *here, "--opne-mode=append", "--wrap", "true")


def test_the_workflow_cancels_no_night_and_may_only_read() -> None:
    asked = workflow()
    assert asked["permissions"] == {"contents": "read"}
    assert asked["concurrency"]["cancel-in-progress"] is False
    for step in asked["jobs"]["nightly"]["steps"]:
        if "uses" in step:
            assert re.fullmatch(r"actions/[\w-]+@[0-9a-f]{40}", step["uses"])


@pytest.mark.parametrize(
    ("status", "expected"), [(0, 0), (1, 1), (2, 0), (3, 0), (4, 4), (5, 0), (137, 137)]
)
def test_the_workflow_fails_where_the_night_did(tmp_path: Path, status: int, expected: int) -> None:
    (step,) = (s for s in workflow()["jobs"]["nightly"]["steps"] if s.get("name") == "One night")
    fake = tmp_path / ".venv" / "bin" / "draftboard"
    fake.parent.mkdir(parents=True)
    fake.write_text(f"#!/bin/sh\necho '# A night'\nexit {status}\n")
    fake.chmod(0o755)

    # As a runner calls it.
    done = subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
        cwd=tmp_path, check=False, capture_output=True,
        env={**os.environ, "STUDY": "s.yaml", "RESULTS": "r", "GITHUB_STEP_SUMMARY": "summary.md"},
    )  # fmt: skip

    assert done.returncode == expected
    assert (tmp_path / "summary.md").read_text() == "# A night\n"
