"""Three nights of the real lab engine; before the third, vLLM is told to serve one request at a time.

``max-num-seqs`` is an engine argument of vLLM: how many requests a step may hold. At concurrency 8 the
others wait, so throughput falls and the first token comes late: a change of the configuration that
a nightly exists to find (docs/nightly.md).

Nights lie a day apart. The test does not wait: it makes what was measured a day older, results and
all (``a_day_passes``), and ingests it anew.
"""

import json
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from nightly.nights import date_of
from runners.executors import PROGRAM
from tests.dashboard.opening import opened
from tests.nightly.called import SECRET, Nightly, Receiver, receiver
from tests.runners.conftest import ROOT, lab_executable
from tests.runners.small_study import wait_for
from warehouse.beside import NightSummary, nights_folder

pytestmark = pytest.mark.long
DAY = timedelta(days=1)
#: The lab is noisy: a quarter is far beyond its noise, and the slow night is far beyond a quarter.
OPTIONS = ("--max-regression", "25%", "--link-base", "http://board:8501")


def study_file(folder: Path, at_once: int) -> Path:
    """The quick lab study cut down: one speculative arm, one text, one load, two repeats."""
    quick = yaml.safe_load((ROOT / "studies" / "laptop-lab-quick.yaml").read_text())
    models = ROOT / "studies" / "lab-models"
    engine = quick["target"]["engine_args"] | {"max-num-seqs": at_once}
    quick["target"] |= {"model": str(models / "target"), "engine_args": engine}
    quick |= {
        "name": "three-nights",
        "arms": [{
            "name": "draft-k3",
            "speculative_config": {"method": "draft_model", "model": str(models / "draft")},
            "num_speculative_tokens": 3,
        }],
        "datasets": [{"name": "structured", "generator": {"kind": "structured"},
                      "prompts_per_level": 40}],
        "concurrency": [8],
        "repeats": 2,
        "request": quick["request"] | {"max_tokens": 32},
        "limits": quick["limits"] | {"cell_s": 600},
        "executables": {
            "vllm": str(lab_executable("vllm", "vllm")),
            "guidellm": str(lab_executable("guidellm", "guidellm-0.8.1")),
        },
    }  # fmt: skip
    path = folder / "study.yaml"
    path.write_text(yaml.safe_dump(quick, sort_keys=False))
    return path


@pytest.fixture(scope="module")
def reader() -> Iterator[Receiver]:
    """A local endpoint that takes the messages."""
    with receiver() as known:
        yield known


@pytest.fixture(scope="module")
def three(
    tmp_path_factory: pytest.TempPathFactory, reader: Receiver
) -> "tuple[Nightly, list[subprocess.CompletedProcess[str]]]":
    """Three nights; the second is killed after its first cell and finished by the next call."""
    folder = tmp_path_factory.mktemp("three")
    night = Nightly(study_file(folder, at_once=32), folder / "place", reader.address)
    calls = [night.call(*OPTIONS)]
    a_day_passes(night)

    process = night.start(*OPTIONS)
    tonight = night.results / "nights" / date_of(datetime.now(UTC))
    wait_for(lambda: bool(list(tonight.rglob("c8-r*/record.json"))), "its first cell is good", 600)
    process.send_signal(signal.SIGKILL)
    process.wait()
    calls.append(night.call(*OPTIONS))
    a_day_passes(night)

    study_file(folder, at_once=1)
    calls.append(night.call(*OPTIONS))
    for call in calls:
        assert call.returncode < 3, call.stderr[-3000:]
    return night, calls


def test_the_gate_fails_on_the_third_night_and_only_there(three: Any) -> None:
    _, calls = three

    # One night has nothing to be held against, and a second of two repeats leaves room for doubt.
    assert [call.returncode == 1 for call in calls] == [False, False, True]
    assert calls[0].returncode == 2


def test_the_history_has_three_nights_and_the_killed_one_is_whole(three: Any) -> None:
    night, _ = three
    third, second, first = night.history()

    assert third.outcome == "regression"
    assert {first.outcome, second.outcome} <= {"fine", "not enough evidence"}
    assert [one.cells.good for one in (first, second, third)] == [2, 2, 2]
    assert {one.stage("report").status for one in (first, second, third)} == {"skipped"}  # One arm.
    assert (first.calls, second.calls, third.calls) == (1, 2, 1)
    changed = {(c.field, c.before, c.after) for c in third.changed}
    assert ("server_args.max_num_seqs", 32, 1) in changed
    assert not [c for c in second.changed if c.field.startswith("server_args")]
    listed = night.call("--history").stdout
    assert [line.split()[0] for line in listed.splitlines()[1:]] == [
        one.night for one in (third, second, first)
    ]


def test_one_message_arrived_and_says_what_became_worse_since_when_and_why(
    three: Any, reader: Receiver
) -> None:
    night, calls = three
    third = night.history()[0]

    assert len(reader.got) == 1
    title, body = reader.got[0]["title"], reader.got[0]["message"]
    assert f"worse since {third.night}" in title
    assert "server_args.max_num_seqs: 32 → 1" in body
    assert re.search(r"-\d+\.\d % \(95 %: -\d+\.\d % to -\d+\.\d %\)", body)
    assert "http://board:8501/trends?study=three-nights" in body
    shown = "".join(call.stdout + call.stderr for call in calls)
    assert SECRET not in shown
    assert [path for path, text in night.texts() if SECRET in text] == []


def test_trends_and_last_nights_show_it(three: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    night, _ = three
    monkeypatch.setenv("DRAFTBOARD_WAREHOUSE", str(night.warehouse))
    third = night.history()[0]

    page = opened("trends", last_nights="true")

    title = page.header[0].value.replace("\\", "")
    assert f"worse since {third.night}" in title
    assert "with server_args.max_num_seqs 32 → 1" in title
    assert any("something got worse" in box.label for box in page.expander)
    nights = next(frame.value for frame in page.dataframe if "outcome" in frame.value)
    assert list(nights["night"]) == [one.night for one in night.history()]


def test_a_call_on_the_same_evening_finds_nothing_due(three: Any, reader: Receiver) -> None:
    night, _ = three
    before = night.history()

    again = night.call(*OPTIONS)

    assert again.returncode == 1
    assert "nothing is due" in again.stderr
    assert night.history() == before
    assert len(reader.got) == 1


_MOMENT = re.compile(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d")
_EPOCH = re.compile(r"(?<![\w.-])1[789]\d{8}(?=[.,\]}\s])")


def a_day_passes(night: Nightly) -> None:
    """Everything that was measured becomes a day older: reports, records, state, history."""
    for pattern in ("record.json", "guidellm.json", "metrics-samples.jsonl", ".nightly.json"):
        for path in night.results.rglob(pattern):
            path.write_text(_older(path.read_text()))
    for folder in sorted((night.results / "nights").glob("20*")):
        _rename(folder, folder.name)
    for path in sorted(nights_folder(night.warehouse).rglob("20*Z.*")):
        path.write_text(_older(path.read_text()))
        _rename(path, path.name)
    rebuilt = subprocess.run(
        [*PROGRAM, "ingest", str(night.results), "--rebuild", "--json"],
        capture_output=True, text=True, cwd=ROOT, env=night.environment, check=False,
    )  # fmt: skip
    assert rebuilt.returncode == 0, rebuilt.stderr
    assert json.loads(rebuilt.stdout)["rejected"] == []


def _older(text: str) -> str:
    def moment(found: re.Match[str]) -> str:
        return (datetime.fromisoformat(found[0]) - DAY).isoformat()

    text = _EPOCH.sub(lambda found: str(int(found[0]) - 86_400), _MOMENT.sub(moment, text))
    return re.sub(r'(?<="night":")20\d\d-\d\d-\d\d|(?<="night": ")20\d\d-\d\d-\d\d',
                  lambda found: _earlier(found[0]), text)  # fmt: skip


def _earlier(day: str) -> str:
    return (datetime.fromisoformat(day) - DAY).date().isoformat()


def _rename(path: Path, name: str) -> None:
    """To the day before; the oldest first, so that nothing is in the way."""
    target = path.with_name(_earlier(name[:10]) + name[10:])
    assert not target.exists()
    shutil.move(path, target)


def test_the_summary_of_each_night_is_kept_for_people_too(three: Any) -> None:
    night, _ = three
    found: list[NightSummary] = night.history()
    texts = [path.read_text() for path in nights_folder(night.warehouse).rglob("*.md")]

    assert len(texts) == len(found) == 3
    assert any(": regression" in text for text in texts)
