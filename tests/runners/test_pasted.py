"""The line of a verdict, typed as it stands, starts a server of each engine that runs here."""

import os
import signal
import subprocess
import time
import urllib.request
from pathlib import Path

import pytest

from analysis.drafts.serve_line import serve_line
from runners.planning.study_file import read_study
from runners.serving.engines import engine_of
from tests.commands.asking import told
from tests.runners.conftest import LAB, ROOT, lab_executable
from tests.runners.engine import free_port

pytestmark = [pytest.mark.slow, pytest.mark.alone]
QUIET = {"HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "VLLM_CPU_KVCACHE_SPACE": "1"}


def answers(line: str, executables: Path, log: Path) -> bool:
    """Whether the server of a shell's line, on a port of ours, answers within five minutes."""
    port, ends = free_port(), time.monotonic() + 300
    env = {**os.environ, **QUIET, "PATH": f"{executables}:{os.environ['PATH']}"}
    with log.open("w") as said:
        server = subprocess.Popen(
            f"exec env {line} --port {port}", shell=True, cwd=ROOT, env=env, stdout=said, stderr=said,
            start_new_session=True,
        )  # fmt: skip
    try:
        while server.poll() is None and time.monotonic() < ends:
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5).close()
            except OSError:
                time.sleep(0.5)
            else:
                return True
        return False
    finally:
        os.killpg(server.pid, signal.SIGKILL)
        server.wait()


def test_the_line_for_vllm_starts(vllm: Path, examples: Path, tmp_path: Path) -> None:
    asked = ("--warehouse", str(examples), "--study", "laptop-lab", "--dataset", "structured")
    (one,) = told("verdict", *asked)["decisions"]
    assert one["serve"].startswith("vllm serve studies/lab-models/target ")
    log = tmp_path / "log"
    assert answers(one["serve"], vllm.parent, log), log.read_text()[-3000:]


def test_the_line_for_llama_cpp_starts(tmp_path: Path) -> None:
    executables = lab_executable("llama-server", "llama").parent
    if not (LAB / "models" / "draft.gguf").exists():
        pytest.skip("no models in .lab/models: `make lab-llama` makes them")
    study = read_study(ROOT / "studies" / "lab-llama-cpp.yaml")
    words = engine_of(study).command(study, study.variants[1], 1)
    facts = {"engine": "llama.cpp", "command": words, "num_speculative_tokens": 3}
    line, log = serve_line(facts, {"num_speculative_tokens": 3}), tmp_path / "log"
    assert answers(str(line), executables, log), log.read_text()[-3000:]
