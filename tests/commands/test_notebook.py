"""``import draftboard``: the page on it runs as it stands, and says what the commands say."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import draftboard
from answers.decide.values import Decisions
from warehouse.errors import DraftboardError

ROOT = Path(__file__).parents[2]


def _command(*words: str, root: Path) -> Any:
    done = CliRunner().invoke(draftboard.cli, [*words, "--json", "--warehouse", str(root)])
    assert done.exit_code == 0, done.output
    return json.loads(done.output)


def test_the_page_on_python_runs_as_it_stands(
    examples: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(examples.parents[1])
    page = (ROOT / "docs" / "python.md").read_text(encoding="utf-8")
    names: dict[str, Any] = {}

    for part in re.findall(r"```python\n(.*?)```", page, re.DOTALL):
        exec(compile(part, "docs/python.md", "exec"), names)  # noqa: S102 - our own page

    assert "lab-target" in capsys.readouterr().out
    assert set(names["frame"]["model"]) == {"lab-target", "lab-target-costly", "lab-target-8b"}
    assert names["gains"]["load.value"].notna().all()


def test_an_answer_is_typed_and_is_that_of_the_command(examples: Path) -> None:
    answer = draftboard.open(examples).decide(dataset=["code"], load=4, mix={})

    assert isinstance(answer.value, Decisions)
    told = _command("verdict", "--dataset", "code", "--load", "4", root=examples)
    told.pop("changed")
    assert answer.to_json() == told


def test_comparisons_costs_and_runs_are_those_of_the_commands(examples: Path) -> None:
    results = draftboard.open(str(examples))

    assert results.compare(dataset="code", metrics="ttft:p99").to_json() == _command(
        "compare", "--dataset", "code", "--metric", "ttft:p99", root=examples
    )
    assert results.cost(dataset="code").to_json() == _command(
        "cost", "--dataset", "code", root=examples
    )
    assert results.runs(dataset="code").to_json() == _command(
        "runs", "--dataset", "code", root=examples
    )


def test_a_frame_has_a_row_for_each_decision_and_load(examples: Path) -> None:
    answer = draftboard.open(examples).decide(dataset="code")

    frame = answer.to_frame()

    assert len(frame) == sum(len(one.levels) for one in answer.value.decisions)
    assert frame["level.load.value"].tolist()[:3] == [1.0, 16.0, 128.0]


def test_what_cannot_be_asked_is_one_sentence(examples: Path, tmp_path: Path) -> None:
    with pytest.raises(DraftboardError, match="no metric 'beauty'"):
        draftboard.open(examples).compare(metrics="beauty")
    with pytest.raises(DraftboardError, match="draftboard ingest"):
        draftboard.open(tmp_path / "nowhere")
