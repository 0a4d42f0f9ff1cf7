"""The one command: what it lists, what it loads, how it answers wrong usage."""

import subprocess
import sys

import pytest
from click.testing import CliRunner

import draftboard

HEAVY = ("pandas", "duckdb", "streamlit", "altair", "pyarrow", "pydantic", "numpy", "rich")


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "draftboard", *arguments],
        capture_output=True,
        text=True,
        check=False,
    )


def test_help_loads_none_of_the_heavy_packages() -> None:
    code = (
        "import sys, draftboard\n"
        "try: draftboard.main(['--help'])\n"
        "except SystemExit: pass\n"
        f"print('LOADED', [m for m in {HEAVY!r} if m in sys.modules])"
    )

    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )

    assert result.stdout.endswith("LOADED []\n")


@pytest.mark.parametrize("name", draftboard.COMMANDS | draftboard.PARTS)
def test_every_command_has_help_with_an_example(name: str) -> None:
    result = CliRunner().invoke(draftboard.cli, [*name.split(), "--help"])

    assert result.exit_code == 0
    assert "Example:" in result.output


@pytest.mark.parametrize(("old", "new"), draftboard.OLD.items())
def test_an_old_name_does_the_same_and_says_the_new_one_on_stderr(old: str, new: str) -> None:
    before = CliRunner().invoke(draftboard.cli, [old, "--help"])
    now = CliRunner().invoke(draftboard.cli, [*new.split(), "--help"])

    assert before.exit_code == now.exit_code == 0
    assert before.stdout.split("Usage:")[1].split("]", 1)[1] == now.stdout.split("]", 1)[1]
    assert before.stderr == f"draftboard {old} is now: draftboard {new}\n"
    assert now.stderr == ""


def test_an_unknown_command_is_wrong_usage() -> None:
    result = run("frobnicate")

    assert result.returncode == 2
    assert "frobnicate" in result.stderr


def test_a_missing_warehouse_is_one_sentence_with_the_next_step(tmp_path) -> None:
    result = run("compare", "--warehouse", str(tmp_path / "none"))

    assert result.returncode == 1
    assert result.stderr.count("\n") == 1
    assert "draftboard ingest" in result.stderr
