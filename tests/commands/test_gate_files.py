"""What ``draftboard gate`` writes for other tools: read by them, not by us."""

import json
from pathlib import Path

import pytest
from junitparser import JUnitXml
from sarif_pydantic import Sarif

from tests.commands.asking import run


@pytest.fixture
def written(place: Path, tmp_path: Path) -> Path:
    """The files of a gate in which eagle3 became worse and the baseline did not."""
    out = tmp_path / "out"
    files = ("--junit", str(out / "gate.xml"), "--sarif", str(out / "gate.sarif"))
    done = run("gate", "--warehouse", str(place), *files, "--sarif-at", "studies/lab.yaml")
    assert done.exit_code == 1
    return out


def test_a_junit_parser_reads_each_series_as_a_case(written: Path) -> None:
    (suite,) = JUnitXml.fromfile(str(written / "gate.xml"))

    assert (suite.tests, suite.failures, suite.skipped, suite.errors) == (2, 1, 0, 0)
    worse, fine = suite
    (failure,) = worse.result
    assert "eagle3 K=3" in worse.name
    assert "worse by more than the budget" in failure.message
    assert "2026-01-06" in failure.text
    assert (fine.is_passed, fine.classname) == (True, "draftboard.lab")


def test_what_cannot_be_judged_yet_is_skipped(place: Path, tmp_path: Path) -> None:
    file = tmp_path / "open.xml"

    done = run("gate", "--warehouse", str(place), "--since", "2026-01-07", "--junit", str(file))

    assert done.exit_code == 2
    (suite,) = JUnitXml.fromfile(str(file))
    assert (suite.tests, suite.skipped) == (2, 2)


def test_a_sarif_reader_finds_what_became_worse_at_its_file(written: Path) -> None:
    text = (written / "gate.sarif").read_text(encoding="utf-8")
    (told,) = Sarif.model_validate_json(text).runs

    assert told.tool.driver.name == "draftboard"
    (result,) = told.results
    assert (result.rule_id, result.level) == ("regression", "error")
    assert "eagle3 K=3" in result.message.text
    (location,) = result.locations
    assert location.physical_location.artifact_location.uri == "studies/lab.yaml"
    assert {rule.id for rule in told.tool.driver.rules} == {"regression", "drift"}


def test_a_finding_is_known_again_by_its_fingerprint(place: Path, written: Path) -> None:
    again = written / "again.sarif"
    run("gate", "--warehouse", str(place), "--sarif", str(again), "--max-regression", "4%")

    first, second = (
        json.loads(file.read_text(encoding="utf-8"))["runs"][0]["results"][0]
        for file in (written / "gate.sarif", again)
    )

    assert first["partialFingerprints"] == second["partialFingerprints"]
    assert "physicalLocation" not in second["locations"][0]


def test_a_file_that_cannot_be_written_is_no_regression(place: Path) -> None:
    done = run("gate", "--warehouse", str(place), "--junit", "/proc/none/gate.xml")

    assert done.exit_code == 2
    assert done.stderr.startswith("draftboard: /proc/none/gate.xml cannot be written")
    assert done.stderr.count("\n") == 1
