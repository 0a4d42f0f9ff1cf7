"""Where the engine and the load generator of these tests live, and a study to start from."""

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from runners.executors import PROGRAM
from runners.planning.study_file import Study, read_study

ROOT = Path(__file__).parents[2]
LAB = ROOT / ".lab"


def told(warehouse: Path, *words: str) -> str:
    """What a command of ours prints that works on that warehouse."""
    done = subprocess.run(
        [*PROGRAM, *words], capture_output=True, text=True, cwd=ROOT, check=False,
        env=os.environ | {"DRAFTBOARD_WAREHOUSE": str(warehouse)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def lab_executable(name: str, environment: str) -> Path:
    """An executable of the lab's environments; without it the test is skipped, and says so."""
    path = LAB / environment / "bin" / name
    if not path.exists():
        pytest.skip(f"no {name} in .lab/{environment}: `make lab-envs` installs it")
    return path


@pytest.fixture(scope="session")
def vllm() -> Path:
    """vLLM 0.32 on a CPU."""
    return lab_executable("vllm", "vllm")


@pytest.fixture(scope="session")
def fake_driver(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment of a process that finds the FAKE libnvidia-ml.so.1."""
    pytest.importorskip("pynvml", reason="nvidia-ml-py is not installed")
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler to make the fake driver library with")
    folder = tmp_path_factory.mktemp("driver")
    source, library = Path(__file__).with_name("fake_nvml.c"), folder / "libnvidia-ml.so.1"
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, source], check=True)
    return {**os.environ, "LD_LIBRARY_PATH": str(folder)}


MINIMAL = {
    "name": "tiny",
    "target": {"model": "org/target"},
    "arms": [
        {"name": "baseline"},
        {
            "name": "ngram",
            "speculative_config": {"method": "ngram", "prompt_lookup_max": 4},
            "num_speculative_tokens": [2, 3],
        },
    ],
    "datasets": [{"name": "code", "generator": {"kind": "code"}, "prompts_per_level": 20}],
    "concurrency": [1, 4],
}


@pytest.fixture
def study_of(tmp_path: Path) -> Callable[..., Study]:
    """A small study, read from a file like any other; keyword arguments replace its parts."""

    def make(**changes: object) -> Study:
        path = tmp_path / "study.yaml"
        path.write_text(yaml.safe_dump(MINIMAL | changes, sort_keys=False), encoding="utf-8")
        return read_study(path)

    return make
