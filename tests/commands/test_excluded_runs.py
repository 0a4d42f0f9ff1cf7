"""Every command that answers from cells says which runs its answer leaves out, and why."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result

from draftboard import cli
from warehouse import annotations

SAID = "1 run is excluded by name: GPU throttled (run-"
Say = Callable[..., Result]


@pytest.fixture
def excluded(filled: Path, make_source: Callable[..., Any]) -> Path:
    """A warehouse whose eagle3 run is excluded by name."""
    source = make_source("spec")
    target = annotations.AnnotationTarget(f"run-{source.source_id[:6]}", source.source_id)
    annotations.add(filled, annotations.annotation("exclude", target, "GPU throttled", "Ann"))
    return filled


@pytest.fixture
def say(excluded: Path) -> Say:
    """``say(*words)``: draftboard with these words on that warehouse."""
    return lambda *words: CliRunner().invoke(cli, [*words, "--warehouse", str(excluded)])


@pytest.mark.parametrize(
    "words",
    [
        ("compare",),
        ("verdict",),
        ("gate",),
        ("cost",),
        ("slo", "ttft:p95<1s"),
        ("pareto",),
        ("tune",),
    ],
)
def test_a_command_that_counts_cells_says_what_it_leaves_out(
    say: Say, words: tuple[str, ...]
) -> None:
    assert say(*words).stderr.splitlines()[-1].startswith(SAID)


def test_what_a_program_reads_stays_json(say: Say) -> None:
    done = say("compare", "--json")

    assert json.loads(done.stdout)["settings"] == []
    assert done.stderr.startswith(SAID)


def test_filters_that_would_not_keep_the_run_say_nothing_of_it(say: Say) -> None:
    assert "excluded" not in say("gate", "--arm", "baseline").stderr


def test_runs_marks_it_and_counts_it_among_the_others(say: Say) -> None:
    listed = say("runs")
    told = json.loads(say("runs", "--json").stdout)

    assert [line for line in listed.stdout.splitlines() if "GPU throttled" in line]
    assert listed.stderr == ""
    assert {row["path"]: row["excluded"] for row in told} == {
        "base.json": None, "spec.json": "GPU throttled",
    }  # fmt: skip


def test_diff_finds_it(say: Say) -> None:
    assert "spec_method" in say("diff", "base.json", "spec.json").stdout


def test_without_exclusions_nothing_is_said(filled: Path) -> None:
    words = ["compare", "--warehouse", str(filled)]

    assert CliRunner().invoke(cli, words).stderr == ""
    assert "excluded" not in CliRunner().invoke(cli, ["runs", *words[1:]]).stdout


def test_an_export_holds_everything_and_says_which_runs_are_excluded(
    say: Say, tmp_path: Path
) -> None:
    said = say("warehouse", "export", "--out", str(tmp_path / "all.duckdb")).output
    say("warehouse", "export", "--out", str(tmp_path / "all"))

    assert "1 run is excluded by name and in it all the same" in said
    with duckdb.connect(str(tmp_path / "all.duckdb")) as connection:
        left = "select count(*) from cells anti join excluded_runs using (run_id, source_id)"
        assert connection.execute("select count(*) from cells").fetchone() == (6,)
        assert connection.execute(left).fetchone() == (3,)
        assert connection.execute("select author, text from annotations").fetchall() == [
            ("Ann", "GPU throttled")
        ]
    assert pq.read_table(tmp_path / "all" / "excluded_runs.parquet").num_rows == 1
    assert pq.read_table(tmp_path / "all" / "annotations.parquet").num_rows == 1
