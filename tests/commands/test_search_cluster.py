"""A search whose launches are jobs of a real Slurm: the FAKE engine, the real GuideLLM."""

import json
import subprocess
from pathlib import Path

import pytest

from runners.executors.slurm import SlurmQueue
from tests.commands.test_search_study import ROOT, command
from tests.runners.slurm_cluster import missing_tools, running_cluster
from tests.runners.small_study import PATIENCE_S, small_study


@pytest.mark.long
@pytest.mark.alone
@pytest.mark.skipif(bool(missing_tools()), reason="no Slurm here")
def test_launches_of_a_search_and_of_its_proof_are_jobs_of_slurm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = small_study(
        tmp_path, "--fake-delay 0.1 --fake-acceptance 0.9", repeats=3, evidence="dummy_weights"
    )
    options = tmp_path / "cluster.yaml"
    options.write_text("slurm: {poll_s: 0.5, gres: gpu:h100}")
    with running_cluster() as slurm:
        monkeypatch.setenv("SLURM_CONF", str(slurm.conf))
        where = ["--on", "slurm", "--cluster", str(options), "--parallel", "2"]
        done = subprocess.run(
            [*command(study), *where], cwd=ROOT, capture_output=True, text=True, check=False,
            timeout=3 * PATIENCE_S,
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    (told,) = json.loads(done.stdout)["searches"]
    assert told["decided"]
    assert "Beside it: r0-draft" in done.stderr
    assert told["proof"]["places"]
    jobs = SlurmQueue(study.layout).numbers()
    assert len(jobs) == len(told["steps"])
