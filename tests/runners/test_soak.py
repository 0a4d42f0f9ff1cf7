"""An hour of one load: nothing drifts on the real vLLM, and what is planted in the FAKE engine is told.

Both hours pass at the same time: the fake computes nothing, so that it takes little from the other.
"""

import os
import subprocess
from pathlib import Path

import pytest

from runners.executors import PROGRAM
from tests.runners.conftest import ROOT, lab_executable
from tests.runners.small_study import small_study
from warehouse import queries
from warehouse.filters import Filters
from warehouse.store import Reader

pytestmark = [
    pytest.mark.long,
    pytest.mark.alone,
    pytest.mark.skipif(
        not {0, 1} <= os.sched_getaffinity(0), reason="the lab's studies pin to cores 0 and 1"
    ),
]
STUDY = ROOT / "studies" / "laptop-lab-soak.yaml"
HOUR_S = 3600
#: An hour, the start of a server, and a machine that may be busy.
PATIENCE_S = 2 * HOUR_S


def soaking(study: Path, results: Path, arm: str) -> "subprocess.Popen[str]":
    """One arm of a study, being measured."""
    words = ("run", str(study), "--results", str(results), "--only", f"arm={arm}")
    return subprocess.Popen([*PROGRAM, *words], cwd=ROOT, text=True, stderr=subprocess.PIPE)


@pytest.fixture(scope="module")
def soaks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Both hours, measured; the results of each lie in a folder of its name."""
    lab_executable("vllm", "vllm")
    folder = tmp_path_factory.mktemp("soak")
    planted = small_study(
        folder,
        "--fake-drift -0.10 --fake-fresh-draws --fake-output-tokens 32 --fake-delay 0.01",
        concurrency=None,
        load={"constant": [1], "seconds": HOUR_S},
        # With one token drafted at a time the rate of acceptance is that of the token itself.
        arms=[{"name": "draft", "num_speculative_tokens": 1,
               "speculative_config": {"method": "draft_model", "model": "org/draft"}}],
        datasets=[{"name": "numbers", "file": "prompts.jsonl", "reuse": True}],
        request={"format": "text_completions", "max_tokens": 32},
        sample_every_s=5,
        limits={"server_ready_s": 600, "cell_s": HOUR_S + 900, "retries": 0},
    )  # fmt: skip
    running = [
        soaking(STUDY, folder / "real", "draft-k3"),
        soaking(planted.path, folder / "planted", "draft"),
    ]
    for one in running:
        _, said = one.communicate(timeout=PATIENCE_S)
        assert one.returncode == 0, said[-3000:]
    return folder


def drifts(soaks: Path, name: str) -> dict[str, str]:
    """What ingest flags of an hour's acceptance and speed; the hour is one good cell."""
    place = soaks / f"warehouse-{name}"
    words = ("ingest", str(soaks / name), "--warehouse", str(place))
    subprocess.run([*PROGRAM, *words], cwd=ROOT, check=True, capture_output=True)
    with Reader(place) as reader:
        (cell,) = queries.cells(reader, Filters()).to_pylist()
        flags = queries.flags(reader, [cell["cell_id"]]).to_pylist()
    assert cell["status"] == "good"
    assert cell["completed"] >= 0.99 * HOUR_S
    return {one["name"]: one["sentence"] for one in flags if one["name"].endswith("_drifts")}


def test_an_hour_of_real_speculation_shows_no_drift(soaks: Path) -> None:
    assert drifts(soaks, "real") == {}


def test_a_tenth_of_the_acceptance_lost_in_an_hour_is_told_with_its_size(soaks: Path) -> None:
    said = drifts(soaks, "planted")["acceptance_drifts"]
    assert "Acceptance falls by" in said
    assert 8 < float(said.partition("falls by ")[2].partition(" %")[0]) < 12
