"""Who did what, from the command line and from a login, in one trail that is only added to."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from draftboard import cli
from warehouse import annotations

NIGHT = annotations.AnnotationTarget(night="2026-11-21")


@pytest.fixture
def root(first_lab: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(first_lab, tmp_path / "warehouse"))


def _asked(root: Path, *words: str) -> str:
    done = CliRunner().invoke(cli, [*words, "--warehouse", str(root)])
    assert done.exit_code == 0, done.output
    return done.stdout


def test_the_audit_trail_tells_who_did_what(root: Path) -> None:
    assert "Nobody has noted" in _asked(root, "audit")
    _asked(root, "note", "driver updated", "--night", "2026-11-21", "--author", "Ann")
    said = annotations.annotation("note", NIGHT, "throttled", "Ed Itor")
    annotations.add(root, replace(said, account="ed@example.com"))
    annotations.add_deed(root, "Ed Itor", "ed@example.com", "keep", "eagle3.json")

    deeds = json.loads(_asked(root, "audit", "--json"))["deeds"]

    assert [(deed["who"], deed["account"], deed["what"], deed["about"]) for deed in deeds] == [
        ("Ann", None, "note", "night 2026-11-21"),
        ("Ed Itor", "ed@example.com", "note", "night 2026-11-21"),
        ("Ed Itor", "ed@example.com", "keep", "eagle3.json"),
    ]
    assert "ed@example.com" in _asked(root, "audit")


def test_a_line_that_was_cut_off_hides_no_other(root: Path) -> None:
    annotations.add_deed(root, "Ann", None, "keep", "a.json")
    with (root / annotations.AUDIT_FILE).open("ab") as file:
        file.write(b'{"at": "2026')
    annotations.add_deed(root, "Ben", None, "keep", "b.json")

    assert [deed.who for deed in annotations.deeds(root)] == ["Ann", "Ben"]
