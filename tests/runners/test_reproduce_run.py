"""``draftboard reproduce`` end to end: the FAKE engine, the real GuideLLM 0.8.1, real processes."""

import gzip
import json
import subprocess
from pathlib import Path

import pytest

from runners.executors import PROGRAM
from tests.runners.conftest import ROOT
from tests.runners.small_study import PATIENCE_S, SmallStudy, small_study

pytestmark = [pytest.mark.slow, pytest.mark.alone]


def reproduce(study: SmallStudy, drop: Path, *more: str) -> "subprocess.CompletedProcess[str]":
    results = study.results.with_name("reproduced")
    argv = [*PROGRAM, "reproduce", str(drop), "--results", str(results), *more]
    return subprocess.run(
        argv, capture_output=True, text=True, cwd=ROOT, check=False, timeout=PATIENCE_S
    )


def test_a_cell_is_measured_again_from_its_drop_alone_and_compared(tmp_path: Path) -> None:
    study = small_study(tmp_path)
    done = study.run("--only", "arm=draft", "--keep-prompts")
    assert done.returncode == 0, done.stderr
    drop = study.cell("draft/tp1/numbers/c2-r0")
    assert (drop / "study.yaml").read_text() == study.path.read_text()
    assert json.loads((drop / "prompts.json").read_text())["prompts"][0]["prompt"]
    assert gzip.decompress((drop / "server.log.gz").read_bytes())
    # What the drop kept has to be enough.
    study.path.unlink()
    (tmp_path / "prompts.jsonl").unlink()

    found = reproduce(study, drop, "--repeats", "2", "--json")

    assert found.returncode in (0, 1, 2), found.stderr
    said = json.loads(found.stdout)
    assert (said["launches"], said["siblings"]) == (2, 0)
    assert said["cell"] == "small/draft/tp1/numbers/c2-r0"
    assert {"output_throughput", "ttft"} <= {line["metric"] for line in said["lines"]}
    # The working tree of a developer may change while a test runs.
    differ = [one["setting"] for one in said["differs"]]
    assert not [name for name in differ if not name.startswith("environment.git")]
    assert study.starts() == 3

    again = reproduce(study, drop, "--repeats", "2")

    assert again.stdout.startswith("small/draft/tp1/numbers/c2-r0: ")
    assert "2 launches of draft/tp1/numbers/c2: 0 to run" in again.stderr
    assert study.starts() == 3
