"""Results of several nodes in one folder: nothing lost, nothing overwritten, nothing half."""

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from commands.running.cluster import collect, collect_command
from runners.surroundings.layout import records_under
from warehouse.errors import RunnerError

CELL = "baseline/tp1/code/c1-r0"


def cell(results: Path, key: str = CELL, study: str = "tiny", **said: Any) -> Path:
    """A cell in a results folder; keyword arguments go into its record."""
    folder = results / study / key
    folder.mkdir(parents=True)
    record = {"schema_version": 1, "dataset": "code", "concurrency": 1, "prompt_set_hash": "aa"}
    (folder / "record.json").write_text(json.dumps(record | said))
    (folder / "guidellm.json").write_text(f"report of {key} {said}")
    return folder


def tree(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and not path.name.endswith(".lock")
    }


def test_the_cells_of_two_nodes_come_together_and_again_changes_nothing(tmp_path: Path) -> None:
    one, two, into = tmp_path / "one", tmp_path / "two", tmp_path / "into"
    cell(one)
    cell(two, "ngram-k2/tp1/code/c1-r0")
    cell(two, study="other")

    outcome = collect([one, two], into)
    before = tree(into)
    again = collect([one, two], into)

    assert len(outcome.copied) == 3
    assert before == tree(one) | tree(two)
    assert (again.copied, again.conflicts, len(again.known)) == ([], [], 3)
    assert tree(into) == before


def test_each_rate_and_trace_has_prompts_of_its_own_and_frozen_rates_come_along(
    tmp_path: Path,
) -> None:
    one, into = tmp_path / "one", tmp_path / "into"
    loads = {
        "sweep1": {"load_profile": "constant", "rate": 2.0},
        "sweep2": {"load_profile": "constant", "rate": 4.0},
        "trace-a": {"load_profile": "trace", "trace": "a.csv"},
    }
    for number, (name, load) in enumerate(loads.items()):
        key, own = f"baseline/tp1/code/{name}-r0", f"hash {number}"
        cell(one, key, concurrency=None, prompt_set_hash=own, **load)
    rates = one / "tiny" / "rates" / "code-tp1.rates"
    rates.parent.mkdir()
    rates.write_text("{}")

    outcome = collect([one], into)

    assert (len(outcome.copied), outcome.conflicts) == (3, [])
    assert (into / "tiny" / "rates" / "code-tp1.rates").exists()


def test_a_cell_that_both_measured_is_named_and_stays_as_it_was(tmp_path: Path) -> None:
    cell(tmp_path / "one", order=1)
    cell(tmp_path / "into", order=2)
    before = tree(tmp_path / "into")

    outcome = collect([tmp_path / "one"], tmp_path / "into")

    (name, why), = outcome.conflicts  # fmt: skip
    assert name == f"tiny/{CELL}"
    assert "both measured it" in why
    assert tree(tmp_path / "into") == before


def test_a_cell_with_other_prompts_than_its_level_is_not_taken(tmp_path: Path) -> None:
    cell(tmp_path / "one", prompt_set_hash="aa")
    cell(tmp_path / "two", "ngram-k2/tp1/code/c1-r0", prompt_set_hash="bb")
    cell(tmp_path / "two", "ngram-k2/tp1/code/c4-r0", prompt_set_hash="bb", concurrency=4)

    outcome = collect([tmp_path / "one", tmp_path / "two"], tmp_path / "into")

    assert [name for name, _ in outcome.conflicts] == ["tiny/ngram-k2/tp1/code/c1-r0"]
    assert f"other prompts than {CELL}" in outcome.conflicts[0][1]
    assert "tiny/ngram-k2/tp1/code/c4-r0" in outcome.copied


def test_failed_attempts_of_both_nodes_are_kept(tmp_path: Path) -> None:
    cell(tmp_path / "one", f"{CELL}.failed-1", failure="out of memory")
    cell(tmp_path / "two", f"{CELL}.failed-1", failure="port taken")

    collect([tmp_path / "one", tmp_path / "two"], tmp_path / "into")
    collect([tmp_path / "one", tmp_path / "two"], tmp_path / "into")

    found = sorted((tmp_path / "into/tiny/baseline/tp1/code").iterdir())
    assert [path.name for path in found] == ["c1-r0.failed-1", "c1-r0.failed-2"]
    said = {json.loads((path / "record.json").read_text())["failure"] for path in found}
    assert said == {"out of memory", "port taken"}


def test_unfinished_and_superseded_cells_are_left_out(tmp_path: Path) -> None:
    cell(tmp_path / "one")
    cell(tmp_path / "one", "baseline/tp1/code/.c4-r0.partial")
    cell(tmp_path / "one", f".superseded/{CELL}.1")

    outcome = collect([tmp_path / "one"], tmp_path / "into")

    assert outcome.copied == [f"tiny/{CELL}"]
    assert outcome.unfinished == ["tiny/baseline/tp1/code/.c4-r0.partial"]


def test_study_prompts_and_logs_come_along_and_a_different_study_is_named(tmp_path: Path) -> None:
    for node, study in (("one", "name: tiny"), ("two", "name: tiny # changed")):
        cell(tmp_path / node, f"{node}/tp1/code/c1-r0")
        root = tmp_path / node / "tiny"
        (root / "logs").mkdir()
        (root / "prompts").mkdir()
        (root / "study.yaml").write_text(study)
        (root / "prompts/code-c1.jsonl").write_text("{}")
        (root / "logs/r0-baseline-tp1.log").write_text(f"log of {node}")

    outcome = collect([tmp_path / "one", tmp_path / "two/tiny"], tmp_path / "into")

    root = tmp_path / "into/tiny"
    assert [name for name, _ in outcome.conflicts] == ["tiny/study.yaml"]
    assert (root / "study.yaml").read_text() == "name: tiny"
    assert (root / "prompts/code-c1.jsonl").exists()
    assert {path.read_text() for path in root.glob("logs/*.log")} == {"log of one", "log of two"}


def test_a_link_in_a_cell_is_not_followed(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("credentials")
    (cell(tmp_path / "one") / "more.log").symlink_to(secret)

    collect([tmp_path / "one"], tmp_path / "into")

    assert not (tmp_path / "into/tiny" / CELL / "more.log").exists()


@pytest.mark.parametrize(("source", "said"), [("none", "no folder"), ("empty", "holds no results")])
def test_a_source_without_results_is_one_sentence(tmp_path: Path, source: str, said: str) -> None:
    (tmp_path / "empty").mkdir()

    with pytest.raises(RunnerError, match=said):
        collect([tmp_path / source], tmp_path / "into")


def test_a_folder_is_not_collected_into_itself(tmp_path: Path) -> None:
    cell(tmp_path / "one")

    for into in ("one", "one/tiny", "."):
        with pytest.raises(RunnerError, match="within one another"):
            collect([tmp_path / "one"], tmp_path / into)


def test_killed_at_any_moment_it_goes_on_where_it_stopped(tmp_path: Path) -> None:
    for number in range(40):
        folder = cell(tmp_path / "one", f"baseline/tp1/code/c{number}-r0", concurrency=number)
        (folder / "guidellm.json").write_bytes(b"x" * 3_000_000)
    script = "from commands.running.cluster import collect_command; collect_command()"
    argv = [
        sys.executable,
        "-c",
        script,
        str(tmp_path / "one"),
        "--results",
        str(tmp_path / "into"),
    ]

    for enough in (1, 10, 25):
        process = subprocess.Popen(argv, stdout=subprocess.DEVNULL)
        while process.poll() is None and len(whole(tmp_path / "into")) < enough:
            time.sleep(0.001)
        process.kill()
        process.wait()
        sizes = {(path / "guidellm.json").stat().st_size for path in whole(tmp_path / "into")}
        assert sizes == {3_000_000}
    outcome = collect([tmp_path / "one"], tmp_path / "into")

    assert outcome.conflicts == []
    assert len(outcome.copied) + len(outcome.known) == 40
    assert tree(tmp_path / "into") == tree(tmp_path / "one")


def whole(results: Path) -> list[Path]:
    """The cells that lie under a name of their own."""
    found = (record.parent for record in records_under(results))
    return [folder for folder in found if not folder.name.startswith(".")]


def test_the_command_says_what_it_did_and_fails_on_a_conflict(tmp_path: Path) -> None:
    cell(tmp_path / "one")
    where = [str(tmp_path / "one"), "--results", str(tmp_path / "into")]

    first = CliRunner().invoke(collect_command, where)
    (tmp_path / "into/tiny" / CELL / "guidellm.json").write_text("changed")
    second = CliRunner().invoke(collect_command, [*where, "--json"])

    assert first.exit_code == 0
    assert first.output.startswith("1 cells copied")
    assert second.exit_code == 1
    assert json.loads(second.output)["conflicts"][0][0] == f"tiny/{CELL}"
