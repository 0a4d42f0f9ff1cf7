"""A terminal of 24 lines and 80 columns: the verdict on one subject fits, and no table is cut or broken."""

from collections.abc import Sequence
from pathlib import Path

import click
import pytest
from click import unstyle
from click.testing import CliRunner

from commands.terminal import Table, show
from draftboard import cli
from tests.commands.test_runs import TERMINAL
from tests.conftest import ROOT, made_once

LINES, LETTERS = 24, 80
#: A warehouse of one subject -> what of ``examples/`` is in it, and the filters of a question.
SUBJECTS: dict[str, tuple[str, tuple[str, ...]]] = {
    "the H200": ("h200", ()),
    "the H200, one dataset": ("h200", ("--dataset", "code")),
    "the H200, my load": ("h200", ("--load", "16")),
    "the CPU lab": ("lab/laptop-lab", ()),
    "the costlier CPU lab": ("lab/laptop-lab-costly", ()),
}


@pytest.fixture(scope="module")
def warehouses(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Folder of the examples -> a warehouse of it alone."""
    found = {}
    for folder in dict.fromkeys(folder for folder, _ in SUBJECTS.values()):

        def ingest(place: Path, folder: str = folder) -> None:
            words = ["ingest", str(ROOT / "examples" / folder), "--warehouse", str(place)]
            assert CliRunner().invoke(cli, words).exit_code == 0

        name = f"screen-{folder.replace('/', '-')}"
        found[folder] = str(made_once(tmp_path_factory, name, ingest))
    return found


def _lines(words: Sequence[str], **env: str) -> list[str]:
    done = CliRunner().invoke(cli, [*words], env=env)
    assert done.exit_code == 0, done.output
    return [line.rstrip() for line in unstyle(done.stdout).splitlines()]


@pytest.mark.parametrize("name", SUBJECTS)
def test_the_verdict_on_one_subject_fits_a_screen(warehouses: dict[str, str], name: str) -> None:
    folder, filters = SUBJECTS[name]
    words = ["verdict", *filters, "--warehouse", warehouses[folder]]

    said = _lines(words, **TERMINAL)

    assert len(said) < LINES  # The prompt of the shell stands on one more.
    assert max(map(len, said)) <= LETTERS
    # Every traffic has a line of its own, whole.
    header = next(at for at, line in enumerate(said) if line.startswith("traffic"))
    rows = [line for line in said[header + 1 :] if line]
    piped = _lines(words)
    start = next(at for at, line in enumerate(piped) if line.startswith("traffic"))
    assert [row.split()[0] for row in rows] == [
        line.split()[0] for line in piped[start + 1 :] if line
    ]
    # What is not in the table stands in a pipe, or above the table.
    left = " ".join(said[: header + 1])
    for column in ("TP", "95 %", "costs", "stake"):
        assert column in left
        assert column in piped[start]


WIDE = "a name that is long enough to fill half of the line"


def _printed(table: Table) -> list[str]:
    @click.command()
    def shown() -> None:
        show(table)

    done = CliRunner().invoke(shown, env=TERMINAL)
    assert done.exception is None, done.output
    return [line.rstrip() for line in unstyle(done.output).splitlines()]


def test_a_table_that_has_room_is_printed_as_it_is() -> None:
    said = _printed(Table(["arm", "gain"], [["a", "same"], ["b", "same"]], spare=["gain"]))

    assert said == ["arm  gain", "a    same", "b    same"]


def test_what_all_rows_share_is_said_once_and_only_spare_columns_are_left_out() -> None:
    header = ["arm", "model", "empty", "about", "more"]
    rows = [[arm, "one model", "", f"{arm} {WIDE}", f"{arm}: {WIDE}"] for arm in ("first", "other")]

    said = _printed(Table(header, rows, "A title", spare=["more", "about"]))

    assert said == [
        "A title",
        "All: model one model. No room here, see --json: more.",
        "arm    about",
        f"first  first {WIDE}",
        f"other  other {WIDE}",
    ]


def test_words_wrap_and_none_is_cut() -> None:
    long, short = (
        "a-compound-word-of-22 and some words more",
        "one of two by the way it is as it was",
    )
    rows = [
        [name, f"{name} {long}", short + name, f"{long} {name}", long + name] for name in ("x", "y")
    ]

    said = _printed(Table(["row", "one", "two", "three", "four"], rows))

    assert max(map(len, said)) <= LETTERS
    words = [word for line in said for word in line.split()]
    # Each stands in three columns of both rows.
    assert words.count("a-compound-word-of-22") == 6
