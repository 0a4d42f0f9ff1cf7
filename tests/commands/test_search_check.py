"""The quality gate of a search: a command of the user's, which is a real one here."""

from pathlib import Path

import pytest

from commands.running.search_study import check, refused
from warehouse.errors import InvalidInput


@pytest.fixture
def gate(tmp_path: Path) -> str:
    """A gate that counts how often it is asked, and refuses arms whose folder holds no ``right``."""
    script = tmp_path / "gate"
    script.write_text(
        f'#!/bin/sh\necho "$1" >> "{tmp_path}/asked"\n[ -e "$1/right" ] && exit 0\n'
        "echo looked\necho 3 of 20 answers are wrong\nexit 4\n"
    )
    script.chmod(0o755)
    return str(script)


@pytest.fixture
def drops(tmp_path: Path) -> Path:
    for arm in ("good", "bad"):
        (tmp_path / "drops" / arm).mkdir(parents=True)
    (tmp_path / "drops" / "good" / "right").touch()
    return tmp_path / "drops"


def test_an_arm_that_the_gate_refuses_is_out_with_what_it_said(gate: str, drops: Path) -> None:
    for arm in ("good", "bad"):
        check(drops / arm, gate)
    (out,) = refused(drops, gate)
    assert out.arm == "bad"
    assert out.why.endswith("refuses its answers: 3 of 20 answers are wrong")


def test_it_is_asked_once_for_each_arm_and_again_where_the_command_is_another(
    gate: str, drops: Path
) -> None:
    for command in (gate, gate, f"{gate} --strictly"):
        check(drops / "bad", command)
    assert len((drops.parent / "asked").read_text().splitlines()) == 2
    assert refused(drops, gate) == ()


def test_what_it_said_is_asked_anew_where_the_file_was_cut_short(gate: str, drops: Path) -> None:
    check(drops / "bad", gate)
    (drops / "bad" / ".check.json").write_text('{"comm')
    assert refused(drops, gate) == ()
    check(drops / "bad", gate)
    assert len(refused(drops, gate)) == 1


def test_an_arm_that_left_nothing_is_not_looked_at(gate: str, drops: Path) -> None:
    check(drops / "never-started", gate)
    assert not (drops.parent / "asked").exists()


def test_a_gate_that_cannot_be_started_is_said(drops: Path) -> None:
    with pytest.raises(InvalidInput, match=r"--check: '/no/such/gate' cannot be started"):
        check(drops / "good", "/no/such/gate")
